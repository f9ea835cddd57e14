//! What a command took in an earlier session, where a remedy, several together or somebody's edit make that same command: that is no
//! prediction any more. What a program took that has changed since stands beside the estimate.

use super::RemedyAction;
use super::inputs::RemedyInputs;
use super::plan::{Expectation, Plan, RanBefore, Remedy};
use super::proposal::Offering;
use crate::command::CommandLine;
use crate::diagnosis::Phrase;
use crate::forecast::{Basis, EarlierOutcome, EarlierRun, Estimate, Need};
use crate::units::Bytes;

/// A run that made fewer steps has not shown what a later one needs.
const FEWEST: u64 = 2;

/// Replaces what is expected of a remedy by what its command took in an earlier session, the latest one that tells.
pub(super) fn hold_to_earlier(remedy: &mut Remedy, offering: &Offering<'_>) {
    if !remedy.is_offered() || remedy.id.spec().action == RemedyAction::Act {
        return;
    }
    let said = std::mem::take(&mut remedy.expectation);
    let room = offering.predictor.room();
    let chosen: &[&Remedy] = &[remedy];
    remedy.expectation = held(said, offering.command, chosen, offering.inputs, room);
}

/// What is expected of these remedies together, or what their command took in an earlier session.
pub(super) fn held(
    said: Expectation,
    command: &CommandLine,
    chosen: &[&Remedy],
    inputs: &RemedyInputs<'_>,
    room: Option<Bytes>,
) -> Expectation {
    // What leaves the cause in place fits for a while.
    if inputs.forecast.earlier_runs.is_empty() || said.futile.is_some() {
        return said;
    }
    let planned = Plan::new(command, chosen).command;
    of_command(&planned, inputs, room, said)
}

/// What a command took in an earlier session; what is said of it where none tells.
pub(super) fn of_command(
    command: &CommandLine,
    inputs: &RemedyInputs<'_>,
    room: Option<Bytes>,
    said: Expectation,
) -> Expectation {
    let runs = inputs.forecast.earlier_runs;
    let capacity = capacity(inputs);
    // Before a session any GPU's will do, and it is named; within one it is this one's.
    if capacity.is_none() && inputs.forecast.state.is_some() {
        return said;
    }
    let command = command.without_secrets();
    let failed_at = inputs.forecast.oom.map_or(0, |oom| {
        oom.record.as_ref().map_or(1, |record| record.step + 1)
    });
    let of_it = || {
        runs.iter()
            .rev()
            .filter(|run| run.is_of(&command, capacity))
    };
    let as_it_is = of_it().filter(|run| !run.is_outdated);
    if let Some(measured) = as_it_is
        .filter_map(|run| measured(run, room, failed_at))
        .next()
    {
        return measured;
    }
    match of_it().find(|run| tells(run)).map(ran_before) {
        Some(ran) => {
            let mut said = said;
            match said.words.is_empty() {
                true => said.words = ran.words().into(),
                false => said.words.push("; ", ran.words()),
            }
            said.ran_before = Some(ran);
            said
        }
        None => said,
    }
}

/// What the command itself took in an earlier session, in words.
pub fn as_it_ran(command: &CommandLine, inputs: &RemedyInputs<'_>) -> Option<String> {
    let ran = of_command(command, inputs, None, Expectation::default()).ran_before?;
    let steps = match ran.ran_out {
        true => String::new(),
        false => format!("{} steps, ", ran.steps),
    };
    Some(format!("{} ({steps}session {})", ran.words(), ran.session))
}

/// Of the GPU that memory ran out on, or that the run is on.
fn capacity(inputs: &RemedyInputs<'_>) -> Option<Bytes> {
    if let Some(oom) = inputs.forecast.oom {
        return oom.capacity();
    }
    let state = inputs.forecast.state?;
    let rank = state.run()?.ranks.first()?;
    state.device(rank.device.as_ref()?)?.capacity
}

fn ran_before(run: &EarlierRun) -> RanBefore {
    let (peak, reserved) = match run.outcome {
        EarlierOutcome::Trained {
            allocated,
            reserved,
        } => (Some(allocated), Some(reserved)),
        EarlierOutcome::RanOut => (None, None),
    };
    RanBefore {
        session: run.session.clone(),
        at: run.began.clone(),
        steps: run.steps,
        ran_out: run.outcome == EarlierOutcome::RanOut,
        peak,
        reserved,
        program_changed: run.is_outdated,
    }
}

/// Whether a run says anything of what its command takes.
fn tells(run: &EarlierRun) -> bool {
    match run.outcome {
        EarlierOutcome::RanOut => true,
        EarlierOutcome::Trained { allocated, .. } => run.steps >= FEWEST && allocated > Bytes::ZERO,
    }
}

/// `None` where it says nothing: too few steps.
fn measured(run: &EarlierRun, room: Option<Bytes>, failed_at: u64) -> Option<Expectation> {
    let session = &run.session;
    let ran_before = ran_before(run);
    let when = ran_before.when();
    let EarlierOutcome::Trained {
        allocated,
        reserved,
    } = run.outcome
    else {
        let words = format!("won't fit: ran out of memory {when}");
        return Some(Expectation {
            fits: Some(false),
            basis: Some(Basis::Measured),
            room,
            ran_before: Some(ran_before),
            words: Phrase::from(words).and(", ", format!("the same command in session {session}")),
            ..Expectation::default()
        });
    };
    if !tells(run) {
        return None;
    }
    let need = Need::of_run(allocated, reserved);
    let spare = room.and_then(|room| need.spare_words(room));
    // What comes later than it went may need more.
    let is_far_enough = run.steps >= failed_at;
    let verdict = match (&spare, is_far_enough) {
        (Some(spare), true) => format!(", fits with {spare}"),
        (Some(spare), false) => format!(", likely fits with {spare}"),
        // Where no GPU is named it is the one that it ran on.
        (None, _) if room.is_none() => format!(" on a GPU of {}", run.capacity),
        (None, _) => String::new(),
    };
    let mut words = Phrase::from(format!("ran with {allocated} {when}{verdict}"));
    if reserved > allocated {
        words.push("; ", format!("reserved {reserved}"));
    }
    words.push(
        "; ",
        format!(
            "measured: the same command, {} steps, session {session}",
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
        ran_before: Some(ran_before),
        words,
        ..Expectation::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::CommandLine;
    use crate::forecast::ForecastInputs;
    use crate::state::tests::staged::{command, gib};

    fn run(steps: u64, outcome: EarlierOutcome) -> EarlierRun {
        EarlierRun {
            command: CommandLine::default(),
            session: "20260102-030405-python3".into(),
            began: "03:04".into(),
            is_outdated: false,
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
            "ran with 12.0 GiB at 03:04, fits with at least 10.5 GiB to spare; reserved 13.0 GiB; measured: the same command, 24 steps, session 20260102-030405-python3"
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
        let is_of = |line: &str| seen.is_of(&command(line), Some(gib(24.0)));
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
            Some(gib(24.0))
        ));
    }

    /// Of a program that has changed since its figure stands beside what is said, and decides nothing.
    #[test]
    fn what_ran_before_the_program_was_changed_is_said_and_decides_nothing() {
        let fresh = run(24, TRAINED);
        let changed = EarlierRun {
            is_outdated: true,
            began: "28 Nov 16:46".into(),
            ..run(60, EarlierOutcome::RanOut)
        };
        let said = |runs: &[EarlierRun]| {
            let inputs = RemedyInputs {
                forecast: ForecastInputs {
                    earlier_runs: runs,
                    ..ForecastInputs::default()
                },
                ..RemedyInputs::default()
            };
            let estimate = Expectation::unknown("no complete step was seen");
            of_command(&CommandLine::default(), &inputs, None, estimate)
        };
        let only = said(std::slice::from_ref(&changed));
        assert_eq!(only.fits, None);
        assert_eq!(
            only.words.to_string(),
            "unknown: no complete step was seen; ran out of memory on 28 Nov 16:46, before the program was changed"
        );
        assert!(only.ran_before.is_some_and(|ran| ran.program_changed));
        // One of the program as it is goes before it, though it is the earlier one.
        let both = said(&[fresh, changed]);
        assert_eq!(both.basis, Some(Basis::Measured));
        assert!(
            both.words
                .as_str()
                .starts_with("ran with 12.0 GiB at 03:04 on a GPU of 24.0 GiB")
        );
        assert!(said(&[]).ran_before.is_none());
    }

    /// Another size of GPU, or one word more, is another run.
    #[test]
    fn only_the_same_command_on_a_gpu_of_that_size_counts() {
        let seen = run(24, TRAINED);
        assert!(seen.is_of(&CommandLine::default(), Some(gib(23.9))));
        assert!(!seen.is_of(&CommandLine::default(), Some(gib(79.0))));
        let other = CommandLine {
            argv: vec!["python".into()],
            ..CommandLine::default()
        };
        assert!(!seen.is_of(&other, Some(gib(24.0))));
    }
}
