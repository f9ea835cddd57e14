//! How far the batch of a run could have gone that has ended and went well: by all that the whole run showed. Of a step that was
//! traced no later one has to confirm that its peak stays, since none comes.

use super::hint::{BatchRoom, ProcessRoom, TracedHint, has_settled, larger, search_of};
use super::largest::ForecastInputs;
use crate::command::CommandLine;
use crate::recognize::LaunchEnvironment;
use crate::state::State;

/// The first step makes the optimizer's state, the second one needs it.
const FEWEST_STEPS: u64 = 2;

/// The search takes up to a second. `None` also where another batch would be no gain, and where several processes share the
/// device: what is left is not one's alone.
pub fn room_after_end(
    command: &CommandLine,
    state: &State,
    launch: &LaunchEnvironment<'_>,
    inputs: &ForecastInputs<'_>,
) -> Option<BatchRoom> {
    let run = state.run()?;
    let (ended, _) = run.ended.filter(|_| run.went_well())?;
    let rank = run.ranks.iter().max_by_key(|rank| rank.allocated_peak)?;
    let shares = (run.ranks.iter()).filter(|other| other.device == rank.device);
    if shares.count() > 1 || !rank.retries.is_empty() || rank.steps.count < FEWEST_STEPS {
        return None;
    }
    let device = state.device(rank.device.as_ref()?)?;
    let room = ProcessRoom {
        bytes: rank.reserved_peak + device.unused_in(run)?,
        is_alone: device.used.max_between(run.started, ended).is_none(),
    };
    let traced = search_of(command, rank, room, launch, inputs);
    match traced.as_ref().map(TracedHint::new) {
        Some(TracedHint::Gain(found)) => Some(found),
        Some(TracedHint::NoGain) => None,
        Some(TracedHint::NotBelieved) | None if has_settled(rank) => {
            larger(command, run, rank, room, launch, inputs)
        }
        Some(TracedHint::NotBelieved) | None => None,
    }
}
