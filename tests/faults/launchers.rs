//! What tini, dumb-init and GNU timeout are tested for: statuses, signals, orphans.

use crate::faults::staging::{OOMPH, Scene, built, trainer};
use crate::harness::PATIENCE;
use oomph::event::Exit;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};

/// Runs the made-up training with these steps, under oomph or bare.
fn status(with_us: bool, step: &str) -> ExitStatus {
    let mut command = Command::new(if with_us { OOMPH.into() } else { trainer() });
    if with_us {
        command.args(["--no-nvml", "--no-record"]).arg(trainer());
    }
    let command = command.arg(step).stdin(Stdio::null()).stdout(Stdio::null());
    command.status().expect("it runs")
}

/// Each of these, several at a time: a start takes longer than what is done.
fn each(all: impl Iterator<Item = i32>, look: impl Fn(i32) + Sync) {
    let all: Vec<i32> = all.collect();
    std::thread::scope(|scope| {
        for part in all.chunks(all.len().div_ceil(4)) {
            scope.spawn(|| part.iter().copied().for_each(&look));
        }
    });
}

#[test]
fn every_exit_code_is_the_commands() {
    // All 256 through one keeper: `tests/supervise/ends.rs`.
    each((0..256).step_by(17), |code| {
        assert_eq!(status(true, &format!("exit:{code}")).code(), Some(code));
    });
    for code in [0, 1, 124, 125, 126, 127, 128, 137, 255] {
        let mut training = Scene::new().screen(&[&format!("exit:{code}")]);
        training.finish(Exit::Code(code));
    }
}

/// Signals that end a process that has arranged nothing.
fn deadly() -> impl Iterator<Item = i32> {
    // CHLD, CONT, STOP, TSTP, TTIN, TTOU, URG, WINCH do not; 32 and 33 are the C library's own.
    let harmless = [17, 18, 19, 20, 21, 22, 23, 28, 32, 33];
    (1..=64).filter(move |signal| !harmless.contains(signal))
}

#[test]
fn every_deadly_signal_is_the_commands() {
    // The screen is given back first; the rest is the same as without one.
    each(deadly().filter(|signal| *signal < 35), |signal| {
        let (ours, bare) = (
            status(true, &format!("die:{signal}")),
            status(false, &format!("die:{signal}")),
        );
        assert_eq!(bare.signal(), Some(signal));
        assert_eq!(ours.signal(), Some(signal));
        assert!(!ours.core_dumped());
    });
    for signal in [1, 2, 9, 11, 15] {
        let mut training = Scene::new().screen(&[&format!("die:{signal}")]);
        training.finish(Exit::Signal(signal));
    }
}

/// dumb-init: an ignored signal stays ignored, a caught one may be answered with any status.
#[test]
fn a_signal_from_outside_ends_the_command_as_it_wishes() {
    for (how, expected) in [("exit-33", Exit::Code(33)), ("exit-0", Exit::Code(0))] {
        for signal in ["TERM", "INT", "QUIT", "USR1", "USR2"] {
            let catch = format!("catch:{signal}:{how}");
            let steps = [catch.as_str(), "touch:ready", "until:never"];
            let mut training = Scene::new().headless(&steps);
            training.file("ready");
            training.signal_front(format!("SIG{signal}").parse().expect("a signal"));
            training.finish(expected);
        }
    }
    for signal in [nix::sys::signal::SIGTERM, nix::sys::signal::SIGINT] {
        let mut training = Scene::new().headless(&["touch:ready", "until:never"]);
        training.file("ready");
        training.signal_front(signal);
        training.finish(Exit::Signal(signal as i32));
    }
}

/// timeout: it must itself be stoppable by its own timer, under a shell's `timeout` too.
#[test]
fn under_timeout_the_command_is_asked_to_end() {
    let before = "set -- timeout --signal=TERM 0.3 \"$@\"";
    let steps = ["catch:TERM:exit-9", "until:never"];
    let mut training = Scene::new().before(before).headless(&steps);
    assert_eq!(training.exit(), Exit::Code(124));
    training.marker().wait_gone(PATIENCE);
    training.check();
}

/// Other programs of the user come and go while it starts.
#[test]
fn fault_119_no_process_for_a_moment() {
    let refuses = built("no_fork.rs", include_str!("no_fork.rs"), "cdylib");
    let scene = Scene::new().env("LD_PRELOAD", refuses.display().to_string());
    let mut training = scene.headless(&["say:done", "exit:3"]);
    training.finish(Exit::Code(3));
    assert_eq!(training.output().0, b"done\n");
}

/// A container's list of system calls may be older than the C library, and a sandbox may know none of an event loop's.
#[test]
fn fault_137_a_sandbox_that_refuses_a_system_call_keeps_nothing_from_running() {
    let refuses = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/faults/refused.py");
    for (call, is_alone) in [
        ("faccessat2", false),
        ("epoll_create1", true),
        ("eventfd2", true),
        ("signalfd4", true),
    ] {
        let before = format!("set -- python3 '{refuses}' {call} \"$@\"");
        let mut training =
            Scene::new()
                .before(&before)
                .run_headless(&["sh", "-c", "echo done; kill -TERM $$"]);
        if training.path("no-filter").exists() {
            eprintln!("the kernel takes no filter: not tried");
            return;
        }
        assert_eq!(training.exit(), Exit::Signal(15), "{call}");
        let (out, err) = training.output();
        assert_eq!(out, b"done\n", "{call}");
        let said = String::from_utf8_lossy(&err);
        let steps_aside = said.contains("running the command without oomph");
        assert_eq!(steps_aside, is_alone, "{call}: {said}");
    }
}
