//! What a command would need at other batch sizes, by what recorded runs of it showed. Runs nothing.

use super::recordings;
use super::told::{name_of, read_state};
use crate::calibration::NON_TORCH_USUAL;
use crate::command::CommandLine;
use crate::forecast::{ActivationReduction, Allocator, Forecast, Model, Observation, Target};
use crate::recognize::{LaunchEnvironment, WorkloadKey};
use crate::report::predicted::{BatchNeed, PredictedBatches};
use crate::report::story::capacity_of;
use std::ffi::OsString;

/// The recordings are files or beginnings of sessions' names; without one it is the latest.
///
/// # Errors
/// A recording cannot be found or read.
pub fn predicted(
    command: &CommandLine,
    named: &[OsString],
    batches: &[u64],
) -> anyhow::Result<PredictedBatches> {
    let launch = LaunchEnvironment::default();
    let reading = WorkloadKey::new(&command.without_secrets(), &launch);
    let found = match named {
        [] => vec![recordings::find(None)?],
        named => (named.iter())
            .map(|name| recordings::find(Some(name)))
            .collect::<Result<_, _>>()?,
    };
    let mut observations = Vec::new();
    let mut allocator = Allocator::Fixed;
    let (mut sources, mut capacity) = (Vec::new(), None);
    for path in found {
        let state = read_state(&path)?;
        let mut ranks = state.runs.iter().flat_map(|run| &run.ranks);
        if ranks.any(|rank| rank.hello.expandable_segments == Some(true)) {
            allocator = Allocator::Expandable;
        }
        sources.push(name_of(&state, &path));
        capacity = state
            .run()
            .and_then(|run| capacity_of(&state, run))
            .or(capacity);
        observations.extend(Observation::of_runs(&state.runs, &reading, &launch));
    }
    let why_unknown = if reading.batch.is_none() {
        "the command does not say its batch size: write it there, as in --batch-size 64"
    } else if observations.is_empty() {
        "no run of this command is recorded there with a peak (another directory, program or option is another command)"
    } else {
        "no run that is recorded there was seen through a whole step"
    };
    // A batch that nobody says would count as one.
    let says_batch = reading.batch.is_some() || reading.at_once > 1;
    let model = Model::of_sessions(if says_batch { observations } else { Vec::new() });
    let need = |batch| {
        let target = Target {
            batch,
            keeps_gradients: reading.keeps_gradients(),
            treatment: ActivationReduction::default(),
            allocator,
        };
        match (model.peak(&target), model.needs(&target)) {
            (Forecast::Within(peak), Forecast::Within(needs)) => BatchNeed::Within { peak, needs },
            (Forecast::AtLeast(least, _), _) => BatchNeed::AtLeast(least),
            (Forecast::Extrapolated(peak, progress), Forecast::Extrapolated(needs, _)) => {
                BatchNeed::Extrapolated {
                    peak,
                    needs,
                    progress,
                }
            }
            (Forecast::Unknown | Forecast::Within(_) | Forecast::Extrapolated(..), _) => {
                BatchNeed::Unknown
            }
        }
    };
    Ok(PredictedBatches {
        command: command.without_secrets().shown(),
        needs: batches.iter().map(|batch| (*batch, need(*batch))).collect(),
        sources,
        room: capacity.map(|capacity| capacity - NON_TORCH_USUAL),
        why_unknown,
    })
}
