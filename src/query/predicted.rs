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
use crate::state::{OomIncident, Run, RunOutcome, State};
use crate::units::Bytes;
use std::ffi::OsString;

/// The recordings are files or beginnings of sessions' names; without one they are the latest of the same command. Without batches it is those that one
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
    let (mut found, looked_at) = match named {
        [] => recordings::like(command),
        named => {
            let found = named.iter().map(|name| recordings::find(Some(name)));
            (found.collect::<Result<Vec<_>, _>>()?, named.len())
        }
    };
    // Of runs that contradict each other the later one counts.
    found.reverse();
    let mut observations = Vec::new();
    let mut allocator = Allocator::Fixed;
    let (mut sources, mut capacity, mut ended_room) = (Vec::new(), None, None);
    let (mut limit, mut ran) = (None, Vec::new());
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
        let recorded = EndedSession::new(&state, None);
        let room = recorded.and_then(|recorded| recorded.room_for_batch().ok());
        let steps = state.run().map_or(0, |run| run.steps());
        ended_room = room
            .map(|room| (room, room.is_shown_by(steps)))
            .or(ended_room);
        // Its process may have told what sets the batch, and this command is read as those of its runs are.
        let launch = LaunchEnvironment {
            told: state.knobs.as_ref(),
            ..LaunchEnvironment::default()
        };
        let reading = WorkloadKey::new(&command.without_secrets(), &launch);
        limit = limit_of(&state);
        ran = (state.runs.iter())
            .filter_map(|run| came_to(run, &WorkloadKey::new(&run.command, &launch)))
            .collect();
        observations.extend(Observation::of_runs(&state.runs, &reading, &launch));
    }
    let why_unknown: String = if reading.batch.is_none() {
        "the command does not say its batch size: write it there, as in --batch-size 64".into()
    } else if observations.is_empty() {
        match named {
            [] => no_run_among(looked_at),
            _ => "no run of this command is recorded there with a peak (another directory, program or option is another command)".into(),
        }
    } else {
        "no run that is recorded there was seen through a whole step".into()
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
    let is_limited = limit.is_some_and(|limit| room.is_none_or(|room| limit < room));
    let room = if is_limited { limit } else { room };
    // What a report says of the same recording goes before what the peaks say.
    let larger = ended_room.filter(|(room, _): &(BatchRoom, bool)| room.now == reading.at_once);
    let largest = larger.map(|(room, _)| room.could);
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
        is_limited,
        // What a single run came to is what the table is made of.
        ran: if ran.len() > 1 { ran } else { Vec::new() },
        larger,
        why_unknown,
    })
}

/// The limit of its own that the latest run had.
fn limit_of(state: &State) -> Option<Bytes> {
    let run = state.run()?;
    let usages = run.ranks.iter().flat_map(|rank| &rank.usages);
    let sampled = usages.filter_map(|usage| usage.sample.limit).min();
    sampled.or_else(|| run.ooms.iter().filter_map(OomIncident::limit).min())
}

/// "run 1, batch 8, ran out of memory".
fn came_to(run: &Run, reading: &WorkloadKey) -> Option<String> {
    let batch = reading.batch?;
    let what = match run.outcome() {
        RunOutcome::OutOfMemory => "ran out of memory".to_string(),
        _ if run.trained_well() => format!("ran: peak {}", run.peak()?),
        RunOutcome::Running
        | RunOutcome::Finished
        | RunOutcome::TrainedNothing
        | RunOutcome::Stopped
        | RunOutcome::Failed(_) => return None,
    };
    Some(format!("run {}, batch {batch}, {what}", run.number))
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

fn no_run_among(sessions: usize) -> String {
    let looked = match sessions {
        1 => "the latest session".to_string(),
        several => format!("the {several} latest sessions"),
    };
    format!(
        "no run of this command is recorded with a peak in {looked} (another directory, program or option is another command); \
         --recording ID names another"
    )
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

    #[test]
    fn a_run_whose_process_told_of_its_batch_is_one_of_this_command() {
        let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/replay/leak.jsonl");
        let recorded = std::fs::read_to_string(recorded).expect("a recording");
        let knobs = r#"{"at":16000000,"event":"knobs","pid":2471,"device":0,"given":[{"at":"0","shape":[64,192]}],"batch_first":null,"world":1,"parsed":[{"name":"batch_size","options":["--batch-size"],"value":64,"default":64,"typed":true,"reads_command":true,"by":"argparse"}],"names":[],"literals":[]}"#;
        let (before, end) = recorded
            .split_once(r#"{"at":16504328,"event":"exited""#)
            .expect("the run's end");
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("told.jsonl");
        let told = format!("{before}{knobs}\n{{\"at\":16504328,\"event\":\"exited\"{end}");
        std::fs::write(&path, told).expect("a file");
        let state = read_state(&path).expect("a recording");
        assert!(state.knobs.is_some());
        let command = state.run().expect("a run").command.clone();
        let said = predicted(&command, &[path.into_os_string()], &[8]).expect("a recording");
        assert!(said.is_known(), "{}", said.why_unknown);
    }

    #[test]
    fn why_nothing_is_known_says_what_was_looked_at() {
        let recording = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/replay/unet.jsonl");
        let other = CommandLine::typed("python3 other.py --batch-size 16");
        let named = [recording.into_os_string()];
        let said = predicted(&other, &named, &[8]).expect("a recording");
        assert!(!said.is_known());
        assert_eq!(
            said.why_unknown,
            "no run of this command is recorded there with a peak (another directory, program or option is another command)"
        );
        assert_eq!(
            no_run_among(5),
            "no run of this command is recorded with a peak in the 5 latest sessions (another directory, program or option is another command); \
             --recording ID names another"
        );
    }
}
