//! What a command would need at other batch sizes, by what recorded runs of it showed. Runs nothing.

use super::recordings;
use super::told::{name_of, read_state};
use crate::calibration::NON_TORCH_USUAL;
use crate::command::CommandLine;
use crate::forecast::{
    ActivationReduction, Allocator, BatchRoom, Forecast, MARGIN, Model, Observation, Target,
    rounded,
};
use crate::live::recorded::EndedSession;
use crate::recognize::{LaunchEnvironment, WorkloadKey};
use crate::report::predicted::{BatchNeed, PredictedBatches};
use crate::report::story::capacity_of;
use std::ffi::OsString;

/// The recordings are files or beginnings of sessions' names; without one it is the latest. Without batches it is those that one
/// would ask for next.
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
    let (mut sources, mut capacity, mut ended_room) = (Vec::new(), None, None);
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
        if batches.is_empty() {
            let recorded = EndedSession::new(&state, None);
            ended_room = recorded
                .and_then(|recorded| recorded.room_for_batch())
                .or(ended_room);
        }
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
    let room = capacity.map(|capacity| capacity - NON_TORCH_USUAL);
    // What a report says of the same recording goes before what the peaks say.
    let ended_room = ended_room.filter(|room: &BatchRoom| room.now == reading.at_once);
    let largest = ended_room.map(|room| room.could);
    let largest = largest.or_else(|| {
        let room = room?;
        let like = Target {
            batch: reading.at_once,
            keeps_gradients: reading.keeps_gradients(),
            treatment: ActivationReduction::default(),
            allocator,
        };
        let largest = model.largest(&like, room, MARGIN, u64::MAX / 2);
        largest.map(rounded)
    });
    let asked = match batches {
        [] => usual_batches(reading.at_once, largest),
        asked => asked.to_vec(),
    };
    Ok(PredictedBatches {
        command: command.without_secrets().shown(),
        needs: asked.iter().map(|batch| (*batch, need(*batch))).collect(),
        sources,
        room,
        why_unknown,
    })
}

/// Half of what runs, that, twice and four times as much, and the largest that fits.
fn usual_batches(at_once: u64, largest: Option<u64>) -> Vec<u64> {
    let around = [at_once / 2, at_once, at_once * 2, at_once * 4];
    let mut batches: Vec<u64> = around.into_iter().chain(largest).collect();
    batches.retain(|batch| *batch > 0);
    batches.sort_unstable();
    batches.dedup();
    batches
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn without_batches_those_are_asked_for_that_come_next() {
        let recording = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/replay/unet.jsonl");
        let command = CommandLine::typed("python3 grid.py --model unet --batch-size 16 --steps 12");
        let named = [recording.into_os_string()];
        let asked = |batches: &[u64]| {
            let said = predicted(&command, &named, batches).expect("a recording");
            let batches = said.needs.iter().map(|(batch, _)| *batch);
            batches.collect::<Vec<u64>>()
        };
        let usual = asked(&[]);
        assert_eq!(usual[..4], [8, 16, 32, 64]);
        let state = read_state(Path::new(&named[0])).expect("a recording");
        let recorded = EndedSession::new(&state, None).expect("a run");
        let room = recorded.room_for_batch().expect("room on 139.8 GiB");
        assert_eq!(usual[4..], [room.could], "as a report says it");
        assert_eq!(asked(&[24]), [24]);
    }
}
