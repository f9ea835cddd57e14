//! Runs whose losses are the same, nearly the same or others, and runs that cannot be compared.

use super::*;
use crate::event::{EventKind, Losses, Started};
use crate::state::tests::staged::{StagedSession, command, hello};
use crate::units::Pid;

/// A session of runs: the numbers of each against the one before, its seed, and its losses by steps.
type Ran<'a> = (Option<Numerics>, Option<u64>, &'a [StepLoss]);

fn session(runs: &[Ran<'_>]) -> StagedSession {
    let mut scene = StagedSession::default();
    for (n, (numerics, seed, losses)) in (1_u32..).zip(runs) {
        let at = f64::from(n) * 10.0;
        let pid = 100 + n as i32;
        let words = match numerics {
            Some(Numerics::Same) if n == 4 => "python train.py",
            None => "python train.py",
            Some(_) => "A=1 python train.py",
        };
        scene.add(
            at,
            EventKind::Started(Started {
                run: RunNumber(n),
                pid: Pid(pid),
                command: command(words),
                remedies: Vec::new(),
                predicted_peak: None,
                prediction: None,
                numerics: *numerics,
            }),
        );
        scene.add(at + 1.0, hello(n, pid, None));
        let losses = Losses {
            pid: Pid(pid),
            seed: *seed,
            losses: losses.to_vec(),
        };
        scene.add(at + 2.0, EventKind::Losses(losses));
    }
    scene
}

fn proof(runs: &[Ran<'_>]) -> Option<ProofOutcome> {
    let runs = session(runs).state.runs;
    NumericsProof::new(&runs, runs.last()?).map(|proof| proof.found)
}

const FIRST: [StepLoss; 3] = [(1, Some(2.5)), (2, Some(2.25)), (3, Some(2.0))];

fn with(steps: usize, differs: Option<(&str, f64)>) -> Option<ProofOutcome> {
    Some(ProofOutcome::Compared(Compared {
        with: RunNumber(1),
        steps,
        of: steps,
        by: LossesFrom::Process,
        differs: differs.map(|(step, share)| (step.into(), share)),
    }))
}

fn not_checked(why: Unchecked) -> Option<ProofOutcome> {
    Some(ProofOutcome::NotChecked(why))
}

#[test]
fn the_steps_that_both_made_are_compared() {
    let same = Some(Numerics::Same);
    let base: Ran<'_> = (None, Some(7), &FIRST);
    assert_eq!(proof(&[base]), None, "nothing was promised");
    assert_eq!(proof(&[base, (same, Some(7), &FIRST)]), with(3, None));
    let longer: Vec<StepLoss> = (1..9).map(|n| (n, Some(2.75 - n as f64 / 4.0))).collect();
    assert_eq!(proof(&[base, (same, Some(7), &longer)]), with(3, None));
    let near = [(1, Some(2.5)), (2, Some(2.25 + 2.25e-6)), (3, Some(2.0))];
    let Some(ProofOutcome::Compared(found)) = proof(&[base, (same, Some(7), &near)]) else {
        panic!("compared");
    };
    let (step, share) = found.differs.expect("it differs");
    assert_eq!(step, "2");
    assert!((share - 1e-6).abs() < 1e-9, "{share}");
}

#[test]
fn a_loss_that_is_no_number_differs_from_one_that_is() {
    let nan = [(1, Some(2.5)), (2, None), (3, None)];
    let base: Ran<'_> = (None, None, &FIRST);
    let same = Some(Numerics::Same);
    assert_eq!(
        proof(&[base, (same, None, &nan)]),
        with(3, Some(("2", 1.0)))
    );
    assert_eq!(
        proof(&[(None, None, &nan), (same, None, &nan)]),
        with(3, None)
    );
}

#[test]
fn backward_passes_of_one_step_are_compared_in_order() {
    let micro = [(1, Some(1.0)), (1, Some(2.0)), (2, Some(3.0))];
    let cut = [
        (1, Some(1.0)),
        (1, Some(2.0)),
        (2, Some(3.0)),
        (2, Some(4.0)),
    ];
    let same = Some(Numerics::Same);
    assert_eq!(
        proof(&[(None, None, &micro), (same, None, &cut)]),
        with(2, None)
    );
    let turned = [(1, Some(2.0)), (1, Some(1.0)), (2, Some(3.0))];
    assert_eq!(
        proof(&[(None, None, &micro), (same, None, &turned)]),
        with(2, Some(("1", 0.5)))
    );
}

#[test]
fn what_cannot_be_compared_says_why() {
    let base: Ran<'_> = (None, Some(7), &FIRST);
    for changed in [
        Numerics::Batch,
        Numerics::Precision,
        Numerics::Resumed,
        Numerics::Edited,
    ] {
        assert_eq!(
            proof(&[base, (Some(changed), Some(7), &FIRST)]),
            not_checked(Unchecked::Changed(changed))
        );
    }
    let same = Some(Numerics::Same);
    assert_eq!(
        proof(&[base, (same, Some(8), &FIRST)]),
        not_checked(Unchecked::OtherSeed)
    );
    assert_eq!(
        proof(&[(None, Some(7), &[]), (same, Some(7), &FIRST)]),
        not_checked(Unchecked::NoCommonStep)
    );
    assert_eq!(
        proof(&[base, (same, Some(7), &[])]),
        not_checked(Unchecked::NoCommonStep)
    );
}

#[test]
fn a_run_without_losses_between_is_passed_over_only_if_it_kept_the_numbers() {
    let base: Ran<'_> = (None, Some(7), &FIRST);
    let same = Some(Numerics::Same);
    assert_eq!(
        proof(&[base, (same, Some(7), &[]), (same, Some(7), &FIRST)]),
        with(3, None)
    );
    let batch = Some(Numerics::Batch);
    assert_eq!(
        proof(&[base, (batch, Some(7), &[]), (same, Some(7), &FIRST)]),
        not_checked(Unchecked::NoCommonStep)
    );
}

#[test]
fn two_runs_of_one_command_that_differ_show_that_no_seed_is_fixed() {
    let far = [(1, Some(9.0)), (2, Some(8.0)), (3, Some(7.0))];
    let rounding = Some(Numerics::Rounding);
    let base: Ran<'_> = (None, None, &FIRST);
    let found = proof(&[base, (rounding, None, &far)]);
    assert!(
        matches!(found, Some(ProofOutcome::Compared(_))),
        "nothing shows it: {found:?}"
    );
    assert_eq!(
        proof(&[base, (None, None, &far), (rounding, None, &FIRST)]),
        not_checked(Unchecked::CommandDiffers),
        "the first two are of one command"
    );
}

#[test]
fn what_is_printed_serves_where_nothing_else_is_there() {
    let mut scene = session(&[(None, None, &[])]);
    let printed = |step: &str, loss: &str| {
        EventKind::PrintedLoss(PrintedLoss {
            step: step.into(),
            loss: loss.into(),
        })
    };
    scene.add(15.0, printed("1", "2.50"));
    scene.add(16.0, printed("3", "2.25"));
    let mut next = session(&[(None, None, &[]), (Some(Numerics::Same), None, &[])]);
    next.state.runs[0] = scene.state.runs[0].clone();
    next.add(25.0, printed("1", "2.50"));
    next.add(26.0, printed("2", "2.40"));
    next.add(27.0, printed("3", "2.50"));
    let runs = next.state.runs;
    let found = NumericsProof::new(&runs, &runs[1]).expect("promised").found;
    let ProofOutcome::Compared(found) = found else {
        panic!("compared");
    };
    assert_eq!((found.steps, found.by), (2, LossesFrom::Output));
    assert_eq!(found.differs, Some(("3".into(), 0.1)));
}
