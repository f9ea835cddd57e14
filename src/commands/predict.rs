//! `oomph plan --predict`: what a command would need at other batch sizes, predicted from recordings.
//! Runs nothing.

use crate::command::CommandLine;
use crate::forecast::{ActivationReduction, Allocator, Forecast, Model, Observation, Target};
use crate::live::Ending;
use crate::live::print;
use crate::query::recordings;
use crate::query::told::each_event;
use crate::recognize::{LaunchEnvironment, WorkloadKey};
use crate::state::State;
use serde_json::json;
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;

/// Prints one JSON object a line for each batch: the allocated peak and what the allocator must be
/// able to reserve, each `{"low", "likely", "high"}` in bytes; a bound as `"at_least"`. Where they
/// were extrapolated from the step that ran out of memory, `"reckoned"` is how far it got; where nothing is
/// known, `"unknown"` says why, and if that is so of all of them the exit status is 1. The recordings
/// are files or beginnings of sessions' names; without one it is the latest.
///
/// # Errors
/// A recording cannot be read, or standard output not written.
pub(super) fn predict(
    command: &CommandLine,
    named: &[OsString],
    batches: &[u64],
) -> anyhow::Result<Ending> {
    let launch = LaunchEnvironment::default();
    let reading = WorkloadKey::new(&command.without_secrets(), &launch);
    let mut observations = Vec::new();
    let mut allocator = Allocator::Fixed;
    let found: Vec<PathBuf> = match named {
        [] => vec![recordings::find(None)?],
        named => (named.iter())
            .map(|name| recordings::find(Some(name)))
            .collect::<Result<_, _>>()?,
    };
    for path in found {
        let mut state = State::default();
        each_event(&path, |event| {
            state.apply(&event);
            Ok(())
        })?;
        let ranks = state.runs.iter().flat_map(|run| &run.ranks);
        for rank in ranks {
            if rank.hello.expandable_segments == Some(true) {
                allocator = Allocator::Expandable;
            }
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
    let mut known = false;
    let mut out = print::out();
    for batch in batches {
        let target = Target {
            batch: *batch,
            keeps_gradients: reading.keeps_gradients(),
            treatment: ActivationReduction::default(),
            allocator,
        };
        let line = match (model.peak(&target), model.needs(&target)) {
            (Forecast::Within(peak), Forecast::Within(needs)) => {
                json!({"version": 1, "batch": batch, "peak": peak, "needs": needs})
            }
            (Forecast::AtLeast(least, _), _) => {
                json!({"version": 1, "batch": batch, "at_least": least})
            }
            (Forecast::Extrapolated(peak, progress), Forecast::Extrapolated(needs, _)) => {
                json!({"version": 1, "batch": batch, "peak": peak, "needs": needs, "reckoned": progress})
            }
            (Forecast::Unknown | Forecast::Within(_) | Forecast::Extrapolated(..), _) => {
                json!({"version": 1, "batch": batch, "unknown": why_unknown})
            }
        };
        known |= line.get("unknown").is_none();
        writeln!(out, "{line}")?;
    }
    if known {
        return Ok(Ending::Code(0));
    }
    print::complain(&format!("nothing is known: {why_unknown}"));
    Ok(Ending::Code(1))
}
