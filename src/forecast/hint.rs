//! What there is to say while all is well: room that is not used, and an end that is coming.
//!
//! Said only when the model is sure: a hint that turns out wrong costs somebody a run.

use super::inputs::ForecastInputs;
use super::largest::rounded;
use super::memory::{Forecast, Model};
use super::observation::{Observation, Passes, Unseen};
use super::target::{Allocator, Target};
use super::treatment::Treatment;
use crate::command::CommandLine;
use crate::recognize::{LaunchEnvironment, Reading};
use crate::state::{RankState, RunOutcome, State};
use crate::units::Bytes;
use std::fmt;

/// Steps after which a peak that has not risen counts as settled.
const SETTLED: u64 = 20;

/// From this gain on another batch is worth a word.
const WORTH: f64 = 1.25;

/// A hint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hint {
    /// A larger batch would fit.
    RoomForBatch {
        /// What the device takes at once now.
        now: u64,
        /// What it could take.
        could: u64,
    },
    /// The second step will not survive the optimizer's state, which the first has made.
    StateWillNotFit {
        /// What the second step needs at the least.
        needs: Bytes,
        /// What there is.
        room: Bytes,
    },
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Hint::RoomForBatch { now, could } => write!(f, "room for batch {could} (now {now})"),
            Hint::StateWillNotFit { needs, room } => write!(
                f,
                "won't fit in step 2, when the optimizer state is added: needs {needs}, {room} available"
            ),
        }
    }
}

/// The hint for the current run, if there is one.
pub fn hint(
    command: &CommandLine,
    state: &State,
    launch: &LaunchEnvironment<'_>,
    inputs: &ForecastInputs<'_>,
) -> Option<Hint> {
    let run = state.run()?;
    if run.outcome() != RunOutcome::Running || run.oom_count > 0 {
        return None;
    }
    let rank = run.ranks.iter().max_by_key(|rank| rank.allocated_peak)?;
    let room = room(state, rank)?;
    match rank.steps.count {
        0 => None,
        1 => without_state(run, room, launch),
        count if count < SETTLED => None,
        count => {
            let risen = rank.peak_step.unwrap_or(count);
            let settled = risen + SETTLED / 2 <= count;
            settled
                .then(|| larger(command, run, rank, room, launch, inputs))
                .flatten()
        }
    }
}

/// What the process may reserve of its device in all, where NVML says what the others hold.
fn room(state: &State, rank: &RankState) -> Option<Bytes> {
    let device = state.device(rank.device.as_ref()?)?;
    let headroom = device
        .headroom(state)
        .filter(|headroom| !headroom.is_upper_bound)?;
    let reserved = rank.sample.as_ref().map(|(_, sample)| sample.reserved)?;
    Some(reserved + headroom.bytes)
}

fn without_state(
    run: &crate::state::Run,
    room: Bytes,
    launch: &LaunchEnvironment<'_>,
) -> Option<Hint> {
    match Observation::of_run(run, launch)?.passes {
        Passes::Within(needs, _) if needs > room => Some(Hint::StateWillNotFit { needs, room }),
        Passes::Within(..)
        | Passes::Seen(_)
        | Passes::AtLeast(_, Unseen::NoStep | Unseen::NoState | Unseen::Wanted(_)) => None,
    }
}

fn larger(
    command: &CommandLine,
    run: &crate::state::Run,
    rank: &RankState,
    room: Bytes,
    launch: &LaunchEnvironment<'_>,
    inputs: &ForecastInputs<'_>,
) -> Option<Hint> {
    let reading = Reading::of(command, launch);
    if !reading.says_batch {
        return None;
    }
    let mut observations = inputs.earlier.to_vec();
    observations.extend(Observation::of_run(run, launch));
    let model = Model::of(observations);
    let like = Target {
        batch: reading.at_once,
        keeps_gradients: reading.keeps_gradients(),
        treatment: Treatment::default(),
        allocator: match rank.hello.expandable_segments {
            Some(true) => Allocator::Expandable,
            Some(false) | None => Allocator::Fixed,
        },
    };
    // What would not fit even now by the interval's upper end is no base to build on.
    let Forecast::Within(_) = model.needs(&like) else {
        return None;
    };
    let could = rounded(model.largest(&like, room, inputs.margin, u64::MAX / 2)?);
    let gain = could as f64 / reading.at_once as f64;
    (gain >= WORTH).then_some(Hint::RoomForBatch {
        now: reading.at_once,
        could,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Word;
    use crate::event::What;
    use crate::state::staged::{self, StagedSession};
    use crate::units::Moment;

    fn gib(gib: f64) -> Bytes {
        Bytes((gib * (1u64 << 30) as f64) as u64)
    }

    fn command() -> CommandLine {
        CommandLine {
            argv: "python train.py --batch-size 64"
                .split(' ')
                .map(Word::from)
                .collect(),
            env: Vec::new(),
            cwd: "/".into(),
        }
    }

    /// A run of so many steps with this floor and peak, on a card that NVML sees.
    fn run(steps: u64, floor: f64, peak: f64) -> State {
        let mut scene = StagedSession::training();
        scene.sampled(1.5, floor, peak);
        for count in 1..=steps {
            scene.add(
                1.5 + count as f64,
                staged::step(100, count, gib(floor), gib(peak)),
            );
        }
        let now = 3.0 + steps as f64;
        scene.sampled(now, floor, peak);
        scene.add(
            now,
            What::Nvml(crate::event::NvmlState::Live {
                driver: "580".into(),
                devices: 1,
            }),
        );
        let held = gib(peak) + Bytes::mib(518);
        scene.add(now, What::Device(staged::reading(&[(100, held)])));
        scene.sampled(now + 0.1, floor, peak);
        scene.state.now = Moment::from_secs_f64(now + 0.2);
        scene.state
    }

    #[test]
    fn a_larger_batch_is_named_once_the_peak_has_settled() {
        let (launch, inputs) = (LaunchEnvironment::default(), ForecastInputs::default());
        let said = |state: &State| hint(&command(), state, &launch, &inputs).map(|n| n.to_string());
        let early = run(5, 2.0, 6.0);
        assert_eq!(said(&early), None);
        let settled = said(&run(40, 2.0, 6.0));
        let words = settled.expect("a hint");
        assert!(words.starts_with("room for batch "), "{words}");
        assert!(words.ends_with("(now 64)"), "{words}");
        assert_eq!(said(&run(40, 2.0, 21.0)), None, "a little more is no gain");
    }

    #[test]
    fn an_end_in_the_second_step_is_foretold() {
        let mut state = run(1, 12.0, 20.0);
        let first = state.runs[0].ranks[0]
            .steps
            .first_step
            .as_mut()
            .expect("a step");
        // The first step made a state of eight gibibytes.
        first.before.allocated = gib(4.0);
        let (launch, inputs) = (LaunchEnvironment::default(), ForecastInputs::default());
        let words = hint(&command(), &state, &launch, &inputs)
            .expect("a hint")
            .to_string();
        assert!(words.contains("needs 28.0 GiB, "), "{words}");
    }
}
