//! What the keeper costs: memory, time while nothing happens.

use crate::stage::*;
use oomph::supervise::{Io, Order};

/// Every buffer full: a front that does not read, ten megabytes of output. The limit is that of a
/// release build; this one is larger.
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
    let resident = status_of(stage.keeper.pid().0, "VmHWM:");
    let kib: u64 = resident.trim_end_matches(" kB").trim().parse().unwrap();
    println!("the keeper's largest resident set: {kib} KiB");
    assert!(kib < 12 << 10, "{kib} KiB");
    stage.order(Order::Kill);
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
    stage.order(Order::Kill);
    stage.swept();
    stage.finish();
}
