//! The terminal that the trainer gets, and the user's own when a front dies.

use crate::supervise::stage::*;
use nix::sys::termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr};
use oomph::event::Exit;
use oomph::supervise::{Io, KeeperOrder, KeeperReport, LineSettings, RESET, Size};

#[test]
fn its_size_is_there_before_the_program_and_is_never_nothing() {
    let terminal = UsersTerminal::open();
    let mut stage = Casting::on(&terminal, Io::Screen).start();
    for (size, said) in [
        (Some(Size::new(40, 100)), "40 100"),
        (
            Some(Size {
                rows: 0,
                cols: 0,
                xpixel: 0,
                ypixel: 0,
            }),
            "2 2",
        ),
        // The user's own says 0 by 0.
        (None, "24 80"),
    ] {
        stage.launch_command(command(&["stty", "size"]), size);
        let outcome = stage.outcome();
        assert_eq!(outcome.terminal, format!("{said}\r\n").as_bytes());
    }
    stage.finish();
}

#[test]
fn the_environment_tells_no_lies_about_it() {
    let terminal = UsersTerminal::open();
    let mut stage = Casting::on(&terminal, Io::Screen).start();
    let show = &["sh", "-c", "echo \"$TERM|$COLUMNS|$TERM_PROGRAM|$MINE\""];
    stage.launch_command(with_env(command(show), "MINE", "kept"), None);
    assert_eq!(stage.outcome().terminal, b"xterm-256color|||kept\r\n");
    stage.finish();
}

#[test]
fn it_is_the_programs_controlling_terminal_and_takes_keys() {
    let terminal = UsersTerminal::open();
    let mut stage = Casting::on(&terminal, Io::Screen).start();
    stage.launch(&[
        "sh",
        "-c",
        "echo ask >/dev/tty; read line; echo \"got $line\"",
    ]);
    stage.until(|report| matches!(report, KeeperReport::Output { .. }).then_some(()));
    stage.order(KeeperOrder::Input(b"an answer\r".to_vec()));
    let outcome = stage.outcome();
    let text = String::from_utf8(outcome.terminal).unwrap();
    assert!(text.ends_with("got an answer\r\n"), "{text:?}");
    stage.finish();
}

#[test]
fn a_second_terminal_is_handed_down() {
    let (terminal, other) = (UsersTerminal::open(), UsersTerminal::open());
    let seen = Collected::from(other.master.try_clone().unwrap());
    let mut casting = Casting::on(&terminal, Io::Screen);
    casting.stderr = other.stdio();
    let mut stage = casting.start();
    let outcome = stage.run(&["sh", "-c", "echo out; echo err >&2"]);
    assert_eq!(outcome.terminal, b"out\r\n");
    stage.finish();
    drop(other);
    assert_eq!(seen.to_the_end(), b"err\r\n");
}

/// 40, 43: whatever ends the front, its end of the socket is closed, and that is what the keeper
/// sees.
#[test]
fn a_front_that_dies_leaves_the_program_alone_and_the_terminal_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let (log, go) = (directory.path().join("log"), directory.path().join("go"));
    let terminal = UsersTerminal::open();
    let seen = Collected::from(terminal.master.try_clone().unwrap());
    let found = LineSettings::read(&terminal.slave).unwrap();
    let mut casting = Casting::on(&terminal, Io::Screen);
    casting.log = Some(log.clone());
    let mut stage = casting.start();
    // The front draws: raw, alternate screen.
    let mut raw = tcgetattr(&terminal.slave).unwrap();
    cfmakeraw(&mut raw);
    tcsetattr(&terminal.slave, SetArg::TCSANOW, &raw).unwrap();
    let script = format!(
        "echo one; while ! test -e {}; do sleep 0.02; done; echo two; exit 3",
        go.display()
    );
    let pid = stage.launch_and_see(&["sh", "-c", &script]);
    let keeper = stage.keeper.pid();
    drop(stage);
    wait_for("the terminal to be restored", || {
        (LineSettings::read(&terminal.slave).as_ref() == Some(&found)).then_some(())
    });
    wait_for("the reset", || {
        (seen.so_far() == RESET.as_bytes()).then_some(())
    });
    assert!(lives(pid.0) && lives(keeper.0));
    std::fs::write(&go, "").unwrap();
    wait_until_gone(keeper);
    assert!(!lives(pid.0));
    assert_eq!(std::fs::read(&log).unwrap(), b"one\ntwo\n");
    assert_eq!(
        seen.so_far(),
        RESET.as_bytes(),
        "nothing more was written there"
    );
}

#[test]
fn a_front_that_had_left_the_screen_left_it_in_order() {
    let terminal = UsersTerminal::open();
    let seen = Collected::from(terminal.master.try_clone().unwrap());
    for order in [KeeperOrder::ScreenShown(false), KeeperOrder::Release] {
        let mut stage = Casting::on(&terminal, Io::Screen).start();
        stage.launch_and_see(&["sleep", "0.1"]);
        stage.order(order);
        let keeper = stage.keeper.pid();
        drop(stage);
        wait_until_gone(keeper);
    }
    assert_eq!(seen.so_far(), b"");
}

/// 40, passed through and without a terminal.
#[test]
fn a_dead_front_costs_no_output() {
    let (reading, writing) = pipe();
    let seen = Collected::from(reading);
    let mut casting = Casting::silent();
    casting.stdout = writing.into();
    let mut stage = casting.start();
    stage.launch_and_see(&["sh", "-c", "sleep 0.3; echo to the end"]);
    drop(stage);
    assert_eq!(seen.to_the_end(), b"to the end\n");
}

/// 41: the kernel hangs the trainer up; whoever handles that can end in order.
#[test]
fn a_dead_keeper_hangs_the_program_up_and_the_front_hears_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let (ready, hung_up) = (directory.path().join("ready"), directory.path().join("hup"));
    let terminal = UsersTerminal::open();
    let mut stage = Casting::on(&terminal, Io::Screen).start();
    let script = format!(
        "trap 'echo yes > {}; exit' HUP; echo yes > {}; while :; do sleep 0.02; done",
        hung_up.display(),
        ready.display()
    );
    stage.launch_and_see(&["sh", "-c", &script]);
    content_of(&ready);
    kill(stage.keeper.pid().0, 9);
    while let Some(report) = stage.next() {
        assert!(!matches!(
            report,
            KeeperReport::Exited { .. } | KeeperReport::Finished
        ));
    }
    assert_eq!(content_of(&hung_up), "yes\n");
    assert!(stage.keeper.send(KeeperOrder::Interrupt).is_err());
    wait_until_gone(stage.keeper.pid());
}

#[test]
fn several_runs_each_get_a_terminal_of_their_own() {
    let terminal = UsersTerminal::open();
    let mut stage = Casting::on(&terminal, Io::Screen).start();
    for code in 0..20 {
        let outcome = stage.run(&["sh", "-c", &format!("stty -echo; echo {code}; exit {code}")]);
        assert_eq!(outcome.exit, Some(Exit::Code(code)));
        assert_eq!(outcome.terminal, format!("{code}\r\n").as_bytes());
    }
    let keeper = stage.keeper.pid();
    let open = std::fs::read_dir(format!("/proc/{keeper}/fd"))
        .unwrap()
        .count();
    assert!(open < 12, "{open} descriptors are open after twenty runs");
    stage.finish();
}
