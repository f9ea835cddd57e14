//! What a program that has its own way with a signal gets of it, and what a shell sees of a program that stops: as without
//! oomph.

use crate::faults::staging::{Scene, Training, under_a_shell, wait_for_beats};
use crate::harness::{PATIENCE, processes, wait_until};
use nix::sys::signal::Signal::{SIGCONT, SIGHUP, SIGSTOP};
use oomph::event::Exit;
use std::process::Command;

const SUCCESS: Exit = Exit::Code(0);

/// From a process that has not started oomph.
fn hang_up_from_elsewhere(training: &Training) {
    let front = training.front().to_string();
    let sent = Command::new("sh")
        .args(["-c", "kill -HUP $0", &front])
        .status();
    assert!(sent.expect("a shell").success());
}

#[test]
fn what_resumes_a_job_reaches_a_program_that_handles_it() {
    let mut training = Scene::new().headless(&["catch:CONT:count", "touch:ready", "until:go"]);
    training.file("ready");
    training.signal_front(SIGCONT);
    training.wait_count(SIGCONT, 1);
    training.go();
    training.finish(SUCCESS);
}

#[test]
fn a_hangup_that_is_no_hangup_reaches_a_program_that_handles_it() {
    let mut training = Scene::new().headless(&["catch:HUP:count", "touch:ready", "until:go"]);
    training.file("ready");
    hang_up_from_elsewhere(&training);
    training.wait_count(SIGHUP, 1);
    training.go();
    training.finish(SUCCESS);
}

#[test]
fn who_would_die_of_a_hangup_goes_on() {
    let mut training = Scene::new().headless(&["touch:ready", "until:go"]);
    training.file("ready");
    hang_up_from_elsewhere(&training);
    training.wait_note("SIGHUP was not passed on");
    training.go();
    training.finish(SUCCESS);
}

/// A program that was stopped is a stopped job, and goes on with that.
#[test]
fn a_shell_sees_that_its_program_has_stopped() {
    let scene = Scene::new().option("--headless");
    let mut training = under_a_shell(scene, "fg", &["shout", "until:go"]).held_up();
    training.terminal().wait_for("<<HERE>>", PATIENCE);
    let trainer = training.trainer();
    processes::signal(trainer, SIGSTOP);
    training.file("stopped");
    let job: i32 = training.file("job").trim().parse().expect("a PID");
    let front = nix::unistd::Pid::from_raw(job);
    assert_eq!(processes::state(front), Some('T'));
    training.make("fg");
    wait_until("it goes on", PATIENCE, || {
        processes::state(trainer) != Some('T')
    });
    wait_for_beats(&training, 100_000);
    // Somebody resumes the program alone.
    std::fs::remove_file(training.path("stopped")).expect("removed");
    processes::signal(trainer, SIGSTOP);
    training.file("stopped");
    processes::signal(trainer, SIGCONT);
    wait_until("oomph goes on", PATIENCE, || {
        processes::state(front) != Some('T')
    });
    training.go();
    training.finish(SUCCESS);
}
