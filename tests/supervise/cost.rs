//! What the keeper costs: memory, time while nothing happens.

use crate::supervise::stage::*;
use oomph::supervise::{Io, KeeperOrder, KeeperReport};
use std::time::Instant;

/// Every buffer full: a front that does not read, ten megabytes of output. What is counted is memory
/// of its own (anonymous): the pages of the binary are shared, and a debug build has many; the whole
/// of a release build is measured by `tests/bench/run.py`. How full the log's buffer is depends on the
/// disk: 2.3 MiB were seen on an idle machine, 3.0 on one where the log's thread got no turn.
#[test]
fn memory_stays_small_with_every_buffer_full() {
    let directory = tempfile::tempdir().unwrap();
    let mark = directory.path().join("mark");
    let terminal = UsersTerminal::open();
    let mut casting = Casting::on(&terminal, Io::Screen);
    casting.log = Some(directory.path().join("log"));
    let mut stage = casting.start();
    let script = format!(
        "import os\nfor n in range(2500): os.write(1, b'x' * 3999 + b'\\n')\nopen('{}', 'w').write('done\\n')\nimport time\ntime.sleep(600)",
        mark.display()
    );
    stage.launch(&["python3", "-c", &script]);
    content_of(&mark);
    let own = status_of(stage.keeper.pid().0, "RssAnon:");
    let kib: u64 = own.trim_end_matches(" kB").trim().parse().unwrap();
    println!("the keeper's own memory: {kib} KiB");
    assert!(kib < 4 << 10, "{kib} KiB");
    stage.order(KeeperOrder::Kill);
    stage.swept();
    stage.finish();
}

#[test]
fn nothing_is_done_while_nothing_happens() {
    let terminal = UsersTerminal::open();
    let mut stage = Casting::on(&terminal, Io::PassThrough).start();
    stage.launch_and_see(&["sleep", "600"]);
    let keeper = stage.keeper.pid().0;
    let wakeups = || -> u64 {
        let sum = |field| status_of(keeper, field).parse::<u64>().unwrap();
        sum("voluntary_ctxt_switches:")
    };
    // It has gone to sleep after the launch when two looks are the same; then it must stay so.
    wait_for("the keeper to rest", || {
        let before = wakeups();
        std::thread::sleep(std::time::Duration::from_millis(300));
        (wakeups() == before).then_some(())
    });
    let before = wakeups();
    std::thread::sleep(std::time::Duration::from_millis(1500));
    assert_eq!(wakeups(), before);
    stage.order(KeeperOrder::Kill);
    stage.swept();
    stage.finish();
}

/// A gibibyte of 80-byte lines.
const GIBIBYTE: &str = "yes 0123456789012345678901234567890123456789012345678901234567890123456789012345678 | head -c 1073741824";

/// 1: a gibibyte on a terminal, on our screen and passed through, beside util-linux's `script`.
/// Run with a release build: `cargo test --release --test processes -- supervise::cost:: --ignored --nocapture`.
#[test]
#[ignore = "a measurement that takes a minute"]
fn a_gibibyte_takes_little_longer_than_with_script() {
    let timed = |what: &str, work: &mut dyn FnMut()| {
        let began = Instant::now();
        work();
        println!("{what}: {:.2} s", began.elapsed().as_secs_f64());
    };
    for _ in 0..3 {
        let terminal = UsersTerminal::open();
        let drain = Drained::from(terminal.master.try_clone().unwrap());
        timed("script", &mut || {
            let mut script = std::process::Command::new("script");
            script.args(["-qc", GIBIBYTE, "/dev/null"]);
            script.stdin(std::process::Stdio::null());
            script.stdout(terminal.stdio());
            assert!(script.status().unwrap().success());
        });
        drop(terminal);
        drain.count();
        for (what, io) in [("screen", Io::Screen), ("passed through", Io::PassThrough)] {
            let directory = tempfile::tempdir().unwrap();
            let terminal = UsersTerminal::open();
            let drain = Drained::from(terminal.master.try_clone().unwrap());
            let mut casting = Casting::on(&terminal, io);
            casting.log = Some(directory.path().join("log"));
            let mut stage = casting.start();
            let mut seen = (0, 0, 0);
            timed(what, &mut || {
                stage.launch(&["sh", "-c", GIBIBYTE]);
                stage.until(|report| {
                    match report {
                        KeeperReport::Output { bytes, .. } => seen.0 += bytes.len(),
                        KeeperReport::Gap { bytes } => seen.1 += bytes.0,
                        KeeperReport::Unlogged { bytes } => seen.2 += bytes.0,
                        KeeperReport::Exited { .. } => return Some(()),
                        _ => {}
                    }
                    None
                });
            });
            let keeper = stage.keeper.pid().0;
            println!(
                "  the front got {} bytes and missed {}, the log missed {}; resident at most {}",
                seen.0,
                seen.1,
                seen.2,
                status_of(keeper, "VmHWM:")
            );
            stage.finish();
            drop(terminal);
            println!("  the terminal got {} bytes", drain.count());
        }
    }
}

/// From the front's call to the program's first instruction, beside a bare start.
#[test]
#[ignore = "a measurement"]
fn starting_costs_milliseconds() {
    let mut bare = Vec::new();
    let mut through = Vec::new();
    for _ in 0..50 {
        let began = Instant::now();
        assert!(
            std::process::Command::new("true")
                .status()
                .unwrap()
                .success()
        );
        bare.push(began.elapsed());
        let terminal = UsersTerminal::open();
        let casting = Casting::on(&terminal, Io::Screen);
        let began = Instant::now();
        let mut stage = casting.start();
        stage.run(&["true"]);
        through.push(began.elapsed());
        stage.finish();
    }
    for (what, mut times) in [("bare", bare), ("through the keeper", through)] {
        times.sort();
        println!("{what}: median {:?}, worst {:?}", times[25], times[49]);
    }
}
