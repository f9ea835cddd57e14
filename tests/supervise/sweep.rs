//! Ending trees: the ladder, orphans in sessions of their own, and who is left alone.

use crate::supervise::stage::*;
use oomph::event::Exit;
use oomph::supervise::{Io, KeeperOrder, KeeperReport, KeeperTimeouts, StopStage};
use oomph::units::RunNumber;
use std::path::Path;
use std::time::{Duration, Instant};

/// Starts three processes in two sessions of their own, and does `then` when they are there and one
/// of them has written its id to `pids`.
fn with_far_children(pids: &Path, then: &str) -> String {
    format!(
        "setsid sh -c 'echo $$ > {0}.one; exec sleep 600' >/dev/null 2>&1 &
         setsid sh -c 'sleep 600 & echo $$ > {0}.two; wait' >/dev/null 2>&1 &
         until test -s {0}.one -a -s {0}.two; do sleep 0.01; done
         mv {0}.one {0}; {then}",
        pids.display()
    )
}

/// 26
#[test]
fn a_deaf_program_is_killed_when_its_graces_are_over() {
    let mut casting = Casting::silent();
    let (stop, sweep) = (Duration::from_millis(400), Duration::from_millis(200));
    casting.timing.stop = stop;
    casting.timing.sweep = sweep;
    let mut stage = casting.start();
    let directory = tempfile::tempdir().unwrap();
    let ready = directory.path().join("ready");
    let script = format!(
        "trap '' TERM; echo yes > {}; while :; do sleep 1; done",
        ready.display()
    );
    stage.launch(&["sh", "-c", &script]);
    content_of(&ready);
    let began = Instant::now();
    stage.order(KeeperOrder::Stop);
    stage.order(KeeperOrder::Stop);
    let mut rungs = Vec::new();
    let exit = stage.until(|report| match report {
        KeeperReport::Stopping { rung, .. } => {
            rungs.push(*rung);
            None
        }
        KeeperReport::Exited { exit, .. } => Some(*exit),
        _ => None,
    });
    assert_eq!(
        rungs,
        [StopStage::Asked, StopStage::TreeAsked, StopStage::Killed]
    );
    assert_eq!(exit, Exit::Signal(9));
    assert!(began.elapsed() >= stop + sweep, "no sooner");
    assert_eq!(stage.swept(), []);
    stage.finish();
}

/// 27
#[test]
fn a_program_that_needs_its_grace_gets_it() {
    let mut casting = Casting::silent();
    casting.timing.stop = Duration::from_secs(60);
    let mut stage = casting.start();
    let directory = tempfile::tempdir().unwrap();
    let ready = directory.path().join("ready");
    let script = format!(
        "trap 'sleep 0.5; exit 6' TERM; echo yes > {}; while :; do sleep 0.02; done",
        ready.display()
    );
    stage.launch(&["sh", "-c", &script]);
    content_of(&ready);
    stage.order(KeeperOrder::Stop);
    assert_eq!(stage.outcome().exit, Some(Exit::Code(6)));
    assert_eq!(stage.swept(), []);
    stage.finish();
}

/// 74: after a stop nothing of the tree is left, whatever session it is in.
#[test]
fn a_stop_ends_the_whole_tree() {
    let directory = tempfile::tempdir().unwrap();
    let pids = directory.path().join("pids");
    let terminal = UsersTerminal::open();
    for mut stage in [
        Casting::silent().start(),
        Casting::on(&terminal, Io::Screen).start(),
    ] {
        for name in ["pids", "pids.two"] {
            let _ = std::fs::remove_file(directory.path().join(name));
        }
        stage.launch(&["sh", "-c", &with_far_children(&pids, "wait")]);
        let far: i32 = content_of(&pids).trim().parse().unwrap();
        assert!(lives(far));
        stage.order(KeeperOrder::Stop);
        let outcome = stage.outcome();
        assert_eq!(outcome.exit, Some(Exit::Signal(15)));
        assert!(outcome.left.len() >= 3, "{:?}", outcome.left);
        assert_eq!(stage.swept(), []);
        for pid in outcome.left {
            assert!(!lives(pid.0));
        }
        assert!(!lives(far));
        stage.finish();
    }
}

/// A stopped process takes no TERM before it goes on.
#[test]
fn a_suspended_program_can_be_stopped() {
    let mut stage = Casting::silent().start();
    let pid = stage.launch_and_see(&["sleep", "600"]);
    kill(pid.0, nix::libc::SIGSTOP);
    stage.until(|report| matches!(report, KeeperReport::Suspended { .. }).then_some(()));
    stage.order(KeeperOrder::Stop);
    assert_eq!(stage.outcome().exit, Some(Exit::Signal(15)));
    assert_eq!(stage.swept(), []);
    stage.finish();
}

#[test]
fn an_end_by_itself_leaves_daemons_alone() {
    let directory = tempfile::tempdir().unwrap();
    let pids = directory.path().join("pids");
    let mut stage = Casting::silent().start();
    let outcome = stage.run(&["sh", "-c", &with_far_children(&pids, "exit 0")]);
    assert_eq!(outcome.exit, Some(Exit::Code(0)));
    let far: i32 = content_of(&pids).trim().parse().unwrap();
    assert!(outcome.left.iter().any(|pid| pid.0 == far), "it is named");
    // Nor does the clearing before a relaunch: no rank, no worker, no holder of a GPU.
    stage.order(KeeperOrder::Sweep);
    let spared = stage.until(|report| match report {
        KeeperReport::Note(text) => Some(text.clone()),
        KeeperReport::Swept { .. } => panic!("it is not named"),
        _ => None,
    });
    assert!(spared.contains(&format!("{far} (sleep)")), "{spared}");
    assert_eq!(
        stage.swept(),
        [],
        "nothing that stands in the way of a relaunch"
    );
    assert!(lives(far));
    // Nor does the stop of a later run, which began after it.
    stage.launch_and_see(&["sleep", "600"]);
    stage.order(KeeperOrder::Stop);
    assert_eq!(stage.outcome().exit, Some(Exit::Signal(15)));
    assert_eq!(stage.swept(), []);
    assert!(lives(far));
    for pid in outcome.left.iter().filter(|pid| lives(pid.0)) {
        kill(pid.0, 9);
    }
    stage.finish();
}

/// 74, before a relaunch: a rank whose agent is gone, deaf to TERM, in a session of its own.
#[test]
fn ranks_that_survive_their_agent_are_cleared_away() {
    let directory = tempfile::tempdir().unwrap();
    let ready = directory.path().join("ready");
    let rank = format!(
        "import os, signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nopen('{}', 'w').write('%d\\n' % os.getpid())\ntime.sleep(600)",
        ready.display()
    );
    let agent = format!(
        "import os, subprocess, sys, time\nenv = dict(os.environ, LOCAL_RANK='0')\nsubprocess.Popen([sys.executable, '-c', r'''{rank}'''], start_new_session=True, env=env)\nwhile not os.path.exists('{}'): time.sleep(0.01)\nos._exit(1)",
        ready.display()
    );
    let mut stage = Casting::silent().start();
    let outcome = stage.run(&["python3", "-c", &agent]);
    assert_eq!(outcome.exit, Some(Exit::Code(1)));
    let rank: i32 = content_of(&ready).trim().parse().unwrap();
    assert!(outcome.left.iter().any(|pid| pid.0 == rank));
    stage.order(KeeperOrder::Sweep);
    assert_eq!(stage.swept(), []);
    assert!(!lives(rank));
    // And the next run begins.
    assert_eq!(stage.run(&["true"]).exit, Some(Exit::Code(0)));
    stage.finish();
}

/// A front that loses its keeper, in a process of its own, for the test below.
#[test]
#[ignore = "clears away all children of its process; run by the test below"]
fn lose_a_keeper() {
    let Ok(pids) = std::env::var("FAR_CHILDREN") else {
        return;
    };
    let mut stage = Casting::silent().start();
    let pids = Path::new(&pids);
    let script = with_far_children(pids, "trap '' HUP TERM; while :; do sleep 1; done");
    stage.launch(&["sh", "-c", &script]);
    content_of(pids);
    kill(stage.keeper.pid().0, 9);
    while stage.next().is_some() {}
    assert_eq!(
        stage.wait_on(oomph::supervise::clear_up(&KeeperTimeouts::scaled(100))),
        []
    );
}

/// 41
#[test]
fn a_front_clears_away_what_a_dead_keeper_left() {
    let directory = tempfile::tempdir().unwrap();
    let pids = directory.path().join("pids");
    let status = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "supervise::sweep::lose_a_keeper", "--ignored"])
        .env("FAR_CHILDREN", &pids)
        .stdout(std::process::Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    assert!(!lives(content_of(&pids).trim().parse().unwrap()));
}

/// 37
#[test]
fn a_storm_of_orphans_leaves_no_zombies_and_the_right_status() {
    let mut stage = Casting::silent().start();
    let script = "import os\nfor n in range(2000):\n  if os.fork() == 0:\n    if os.fork() == 0: os._exit(9)\n    os._exit(0)\n  os.wait()\nos._exit(11)";
    let outcome = stage.run(&["python3", "-c", script]);
    assert_eq!(outcome.exit, Some(Exit::Code(11)));
    let keeper = stage.keeper.pid();
    wait_for("the last orphans to be reaped", || {
        let children = format!("/proc/{keeper}/task/{keeper}/children");
        std::fs::read_to_string(children)
            .unwrap()
            .trim()
            .is_empty()
            .then_some(())
    });
    stage.finish();
}

#[test]
fn two_programs_are_never_run_at_once() {
    let mut stage = Casting::silent().start();
    stage.launch_and_see(&["sleep", "600"]);
    let second = stage.run(&["true"]);
    let (_, status, reason) = second.failed.unwrap();
    assert_eq!(status, 125);
    assert!(
        reason.contains(&format!("run {} is still alive", RunNumber::FIRST)),
        "{reason}"
    );
    stage.order(KeeperOrder::Kill);
    assert_eq!(stage.outcome().exit, Some(Exit::Signal(9)));
    stage.swept();
    stage.finish();
}
