//! When a run has shown enough, and what it has then shown.

use super::*;
use crate::command::Word;
use crate::event::{EventKind, Step};
use crate::live::session::changes::ChangeFate;
use crate::remedy::RemedyInputs;
use crate::state::tests::staged::{StagedSession, exited, gib, hello, started, step};
use clap::{Args, FromArgMatches};

/// The step after which a run with these maxima is stopped.
fn stopped_after(asked: u64, held: impl Fn(u64) -> f64) -> u64 {
    let mut shown = RunShown::default();
    (1..)
        .find(|step| {
            shown.take(*step, gib(held(*step)));
            shown.is_enough(*step, asked)
        })
        .expect("an end")
}

fn typed() -> CommandLine {
    CommandLine {
        argv: ["python3", "train.py", "--batch-size", "64"]
            .map(Word::from)
            .into(),
        ..CommandLine::default()
    }
}

fn fit() -> Fit {
    let words = ["fit", "--steps", "4"];
    let options = FitOptions::augment_args(clap::Command::new("fit")).get_matches_from(words);
    let options = FitOptions::from_arg_matches(&options).expect("options");
    Fit::new(options, typed(), &LaunchEnvironment::default()).expect("a batch")
}

/// What is said of the first batch (16), which has reserved so much of a GPU of 23.6 GiB.
fn said_of(is_wsl: bool, reserved: f64) -> String {
    let EventKind::Hello(mut said) = hello(1, 100, None) else {
        unreachable!()
    };
    said.wsl = is_wsl;
    let mut scene = StagedSession::default();
    scene
        .add(0.0, started(1, 100, "python3 train.py --batch-size 64"))
        .add(1.0, EventKind::Hello(said));
    for n in 1..=4 {
        scene
            .add(n as f64, step(100, n, gib(1.5), gib(reserved)))
            .sampled(n as f64, reserved - 1.0, reserved);
    }
    scene.add(6.0, exited(1, Exit::Code(0)));
    let command = typed();
    let run = scene.state.run().expect("a run");
    let follow_up = fit().after_run(&RunSummary {
        exit: Exit::Code(0),
        run,
        state: &scene.state,
        findings: &[],
        remedies: &[],
        command: &command,
        inputs: RemedyInputs::default(),
        is_disk_silent: false,
        change: ChangeFate::Kept,
        time_left: None,
        can_wait: false,
    });
    match follow_up {
        FollowUp::Leave(said) => said.unwrap_or_default(),
        FollowUp::Launch(_, said) => said,
        FollowUp::Wait => panic!("it asks nobody"),
    }
}

#[test]
fn a_batch_of_which_wsl_has_moved_a_part_into_ram_does_not_fit() {
    let said = said_of(true, 30.0);
    assert!(said.contains("16 does not fit: WSL2"), "{said}");
    for (is_wsl, reserved) in [(true, 20.0), (false, 30.0)] {
        let said = said_of(is_wsl, reserved);
        assert!(said.contains("16 fits"), "{said}");
    }
}

#[test]
fn a_step_that_was_only_counted_ends_no_run() {
    let mut fit = fit();
    let mut scene = StagedSession::training();
    scene.add(1.5, step(100, 1, gib(1.5), gib(6.0)));
    assert!(matches!(fit.on_step(&scene.state), OnStep::Nothing));
    let EventKind::Step(read) = step(100, 4, gib(1.5), gib(6.0)) else {
        unreachable!()
    };
    let counted = Step {
        figures_of: Some(3),
        ..read.clone()
    };
    scene.add(2.0, EventKind::Step(counted));
    assert!(matches!(fit.on_step(&scene.state), OnStep::Nothing));
    scene.add(2.1, EventKind::Step(read));
    assert!(matches!(fit.on_step(&scene.state), OnStep::Stop(_)));
}

#[test]
fn steady_steps_are_enough_when_they_were_asked_for() {
    assert_eq!(stopped_after(4, |_| 8.0), 4);
    // The optimizer's state comes in the first step, so the second needs more.
    assert_eq!(stopped_after(4, |step| if step < 2 { 8.0 } else { 9.0 }), 4);
}

#[test]
fn steps_that_vary_go_on_until_nothing_new_has_come_for_a_while() {
    let third = |step| if step < 3 { 8.0 } else { 9.0 };
    assert_eq!(stopped_after(4, third), 6);
    assert_eq!(stopped_after(4, |step| 8.0 + step.min(7) as f64), 14);
}

#[test]
fn what_never_comes_to_rest_is_stopped_all_the_same() {
    assert_eq!(stopped_after(4, |step| 8.0 * 1.1f64.powi(step as i32)), 16);
    assert_eq!(stopped_after(2, |step| 8.0 * 1.1f64.powi(step as i32)), 8);
}

#[test]
fn of_a_simulated_torch_it_says_that_it_has_no_fake_tensors() {
    let of = |device: Option<Uuid>| {
        let mut run = StagedSession::training()
            .state
            .run()
            .expect("a run")
            .clone();
        run.ranks[0].device = device;
        why_not_told(&run)
    };
    let simulated = of(Some(Uuid::new("SIM-0")));
    assert!(simulated.contains("the simulated torch has no fake tensors"));
    assert!(!simulated.contains("2.4"), "{simulated}");
    assert!(of(Some(Uuid::new("GPU-0"))).contains("torch 2.4 or later"));
}
