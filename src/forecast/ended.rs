//! How far the batch of a run could have gone that has ended and went well: by all that the whole run showed. Of a step that was
//! traced no later one has to confirm that its peak stays, since none comes.

use super::hint::{BatchRoom, ProcessRoom, TracedHint, has_settled, larger, search_of};
use super::largest::ForecastInputs;
use crate::command::CommandLine;
use crate::recognize::{LaunchEnvironment, WorkloadKey};
use crate::state::State;

/// The first step makes the optimizer's state, the second one needs it.
const FEWEST_STEPS: u64 = 2;

/// Why no larger batch is named after a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRoom {
    /// It did not go well, or what it had to itself is not known.
    Unseen,
    /// So many processes share the GPU: what is left is not one's alone.
    Shared(usize),
    /// PyTorch gave its cache back to go on.
    Retried,
    /// Ended steps, too few to show what one needs.
    FewSteps(u64),
    /// The command does not say what it takes at once.
    NoBatch,
    /// Steps differ from each other, and so many do not show the largest.
    Unsettled(u64),
    /// There is hardly more room.
    NoGain,
}

impl NoRoom {
    /// "No larger batch is named: its 2 processes share the GPU."
    pub fn sentence(self) -> Option<String> {
        let why = match self {
            NoRoom::Unseen => return None,
            NoRoom::Shared(processes) => format!("its {processes} processes share the GPU"),
            NoRoom::Retried => {
                "PyTorch flushed its cache to go on, so it is near its limit already".into()
            }
            NoRoom::FewSteps(steps) => format!(
                "{}, which does not show what a step needs",
                match steps {
                    0 => "no optimizer step ended".to_string(),
                    1 => "one optimizer step ended".to_string(),
                    steps => format!("{steps} optimizer steps ended"),
                }
            ),
            NoRoom::NoBatch => "the command does not say its batch size".into(),
            NoRoom::Unsettled(steps) => format!(
                "its steps need different amounts, and {steps} of them do not show the largest"
            ),
            NoRoom::NoGain => "one that is worth a change would not fit".into(),
        };
        Some(format!("No larger batch is named: {why}."))
    }
}

impl NoRoom {
    /// The same in a few words: "its 2 processes share the GPU".
    pub fn brief(self) -> Option<String> {
        Some(match self {
            NoRoom::Unseen | NoRoom::FewSteps(_) => return None,
            NoRoom::Shared(processes) => format!("{processes} processes share the GPU"),
            NoRoom::Retried => "PyTorch flushed its cache to go on".into(),
            NoRoom::NoBatch => "the command does not say its batch size".into(),
            NoRoom::Unsettled(_) => "steps need different amounts".into(),
            NoRoom::NoGain => "one worth a change would not fit".into(),
        })
    }
}

/// The search takes up to a second.
///
/// # Errors
/// There is none to be named; why.
pub fn room_after_end(
    command: &CommandLine,
    state: &State,
    launch: &LaunchEnvironment<'_>,
    inputs: &ForecastInputs<'_>,
) -> Result<BatchRoom, NoRoom> {
    let run = state.run().ok_or(NoRoom::Unseen)?;
    let ended = run.ended.filter(|_| run.went_well());
    let (ended, _) = ended.ok_or(NoRoom::Unseen)?;
    let ranks = run.ranks.iter();
    let rank = ranks.max_by_key(|rank| rank.allocated_peak);
    let rank = rank.ok_or(NoRoom::Unseen)?;
    let shares = (run.ranks.iter()).filter(|other| other.device == rank.device);
    match (shares.count(), rank.steps.count) {
        (processes @ 2.., _) => return Err(NoRoom::Shared(processes)),
        _ if !rank.retries.is_empty() => return Err(NoRoom::Retried),
        (_, steps @ ..FEWEST_STEPS) => return Err(NoRoom::FewSteps(steps)),
        (_, _) => {}
    }
    if WorkloadKey::new(command, launch).batch.is_none() {
        return Err(NoRoom::NoBatch);
    }
    let room = (|| {
        let device = state.device(rank.device.as_ref()?)?;
        Some(ProcessRoom {
            bytes: rank.reserved_peak + device.unused_in(run)?,
            is_alone: device.used.max_between(run.started, ended).is_none(),
        })
    })();
    let room = room.ok_or(NoRoom::Unseen)?;
    let traced = search_of(command, rank, room, launch, inputs);
    match traced.as_ref().map(TracedHint::new) {
        Some(TracedHint::Gain(found)) => Ok(found),
        Some(TracedHint::NoGain) => Err(NoRoom::NoGain),
        Some(TracedHint::NotBelieved) | None if has_settled(rank) => {
            larger(command, run, rank, room, launch, inputs).ok_or(NoRoom::NoGain)
        }
        Some(TracedHint::NotBelieved) | None => Err(NoRoom::Unsettled(rank.steps.count)),
    }
}
