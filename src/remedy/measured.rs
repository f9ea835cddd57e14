//! What a remedy's command took in an earlier session, where it is the same command: that is no prediction any more.

use super::RemedyAction;
use super::plan::{Expectation, Plan, Remedy};
use super::proposal::Offering;
use crate::diagnosis::Phrase;
use crate::forecast::{Basis, EarlierOutcome, EarlierRun, Estimate, Need};
use crate::units::Bytes;

/// A run that made fewer steps has not shown what a later one needs.
const FEWEST: u64 = 2;

/// Replaces what is expected of a remedy by what its command took in an earlier session, the latest one that tells.
pub(super) fn hold_to_earlier(remedy: &mut Remedy, offering: &Offering<'_>) {
    let runs = offering.inputs.forecast.earlier_runs;
    // What leaves the cause in place fits for a while.
    if runs.is_empty() || remedy.expectation.futile.is_some() || !remedy.is_offered() {
        return;
    }
    if remedy.id.spec().action == RemedyAction::Act {
        return;
    }
    let oom = offering.inputs.forecast.oom;
    let Some((oom, capacity)) = oom.and_then(|oom| Some((oom, oom.capacity()?))) else {
        return;
    };
    let edited = Plan::new(offering.recognized.command, &[remedy])
        .command
        .without_secrets();
    let failed_at = oom.record.as_ref().map_or(1, |record| record.step + 1);
    let said = (runs.iter().rev().filter(|run| run.is_of(&edited, capacity)))
        .find_map(|run| measured(run, offering.predictor.room(), failed_at));
    if let Some(said) = said {
        remedy.expectation = said;
    }
}

/// `None` where it says nothing: too few steps.
fn measured(run: &EarlierRun, room: Option<Bytes>, failed_at: u64) -> Option<Expectation> {
    let session = &run.session;
    let EarlierOutcome::Trained {
        allocated,
        reserved,
    } = run.outcome
    else {
        let words =
            format!("won't fit: it ran out of memory with the same command in session {session}");
        return Some(Expectation {
            fits: Some(false),
            basis: Some(Basis::Measured),
            room,
            words: words.into(),
            ..Expectation::default()
        });
    };
    if run.steps < FEWEST || allocated == Bytes::ZERO {
        return None;
    }
    let need = Need::of_run(allocated, reserved);
    let spare = room.and_then(|room| need.spare_words(room));
    // What comes later than it went may need more.
    let is_far_enough = run.steps >= failed_at;
    let verdict = match (&spare, is_far_enough) {
        (Some(spare), true) => format!(", fits with {spare}"),
        (Some(spare), false) => format!(", likely fits with {spare}"),
        (None, _) => String::new(),
    };
    let mut words = Phrase::from(format!("needs {}{verdict}", need.estimate().shown()));
    if reserved > allocated {
        words.push("; ", format!("reserved {reserved}"));
    }
    words.push(
        "; ",
        format!(
            "measured with the same command over {} steps in session {session}",
            run.steps
        ),
    );
    if !is_far_enough {
        words.push("; ", format!("memory ran out in step {failed_at} here"));
    }
    Some(Expectation {
        peak: Some(Estimate::exact(allocated)),
        need: Some(need),
        reserved: Some(Estimate::exact(reserved.max(allocated))),
        room,
        fits: (spare.is_some() && is_far_enough).then_some(true),
        basis: Some(Basis::Measured),
        words,
        ..Expectation::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::CommandLine;
    use crate::state::tests::staged::{command, gib};

    fn run(steps: u64, outcome: EarlierOutcome) -> EarlierRun {
        EarlierRun {
            command: CommandLine::default(),
            session: "20260102-030405-python3".into(),
            steps,
            outcome,
            capacity: gib(24.0),
        }
    }

    const TRAINED: EarlierOutcome = EarlierOutcome::Trained {
        allocated: Bytes::gib(12),
        reserved: Bytes::gib(13),
    };

    #[test]
    fn what_was_measured_is_said_with_its_session() {
        let said = measured(&run(24, TRAINED), Some(gib(23.5)), 1).expect("measured");
        assert_eq!(
            said.words.to_string(),
            "needs 12.0 GiB (12.0–13.0), fits with at least 10.5 GiB to spare; reserved 13.0 GiB; measured with the same command over 24 steps in session 20260102-030405-python3"
        );
        assert_eq!((said.fits, said.basis), (Some(true), Some(Basis::Measured)));
        assert!(measured(&run(1, TRAINED), Some(gib(23.5)), 1).is_none());
    }

    #[test]
    fn what_had_not_come_as_far_is_no_proof() {
        let said = measured(&run(24, TRAINED), Some(gib(23.5)), 500).expect("measured");
        assert_eq!(said.fits, None);
        assert!(
            said.words
                .to_string()
                .ends_with("memory ran out in step 500 here")
        );
        let said = measured(&run(24, EarlierOutcome::RanOut), Some(gib(23.5)), 1).expect("said");
        assert_eq!(said.fits, Some(false));
    }

    #[test]
    fn options_may_stand_in_another_order() {
        let seen = EarlierRun {
            command: command("python train.py data --amp --batch-size 64 --lr 1e-3"),
            ..run(24, TRAINED)
        };
        let is_of = |line: &str| seen.is_of(&command(line), gib(24.0));
        assert!(is_of(
            "python train.py data --batch-size 64 --lr 1e-3 --amp"
        ));
        assert!(!is_of(
            "python train.py data --batch-size 32 --lr 1e-3 --amp"
        ));
        assert!(!is_of("python train.py data --batch-size 64 --lr 1e-3"));
        // Given twice, the last one counts.
        let twice = |line: &str| EarlierRun {
            command: command(line),
            ..run(24, TRAINED)
        };
        let seen = twice("python train.py --batch-size 64 --batch-size 32");
        assert!(!seen.is_of(
            &command("python train.py --batch-size 32 --batch-size 64"),
            gib(24.0)
        ));
    }

    /// Another size of GPU, or one word more, is another run.
    #[test]
    fn only_the_same_command_on_a_gpu_of_that_size_counts() {
        let seen = run(24, TRAINED);
        assert!(seen.is_of(&CommandLine::default(), gib(23.9)));
        assert!(!seen.is_of(&CommandLine::default(), gib(79.0)));
        let other = CommandLine {
            argv: vec!["python".into()],
            ..CommandLine::default()
        };
        assert!(!seen.is_of(&other, gib(24.0)));
    }
}
