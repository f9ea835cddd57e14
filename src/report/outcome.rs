//! What a session did, as one line of JSON for whoever drives many of them: its runs with batch, prediction and outcome.

use crate::document::RunProof;
use crate::event::displayed;
use crate::recognize::{LaunchEnvironment, WorkloadKey};
use crate::state::{Run, RunOutcome, State};
use serde_json::{Value, json};

/// Of the JSON: one more whenever a field goes or means something else.
const JSON_VERSION: u32 = 1;

/// The line, without its newline. `status` is oomph's own exit status as a shell sees it.
pub fn outcome_json(state: &State, status: i32, is_requeued: bool) -> Value {
    let session = state.session.as_ref();
    let last = state.run();
    let workload = last.map(|run| reading(state, run));
    json!({
        "version": JSON_VERSION,
        "session": session.map(|session| &session.id),
        "job": session.and_then(|session| session.job.as_ref()).map(ToString::to_string),
        "outcome": last.map_or("not_started", word),
        "status": status,
        "requeued": is_requeued,
        "relaunches": state.runs.len().saturating_sub(1),
        "batch": workload.as_ref().and_then(|of| of.batch.map(|_| of.at_once)),
        "accumulation": workload.as_ref().map(|of| of.accumulation),
        "command": last.map(|run| displayed(&run.command)),
        "runs": state.runs.iter().map(|run| of_run(state, run)).collect::<Vec<_>>(),
    })
}

fn reading(state: &State, run: &Run) -> WorkloadKey {
    let launch = LaunchEnvironment {
        told: run.knobs.as_deref().or(state.knobs.as_ref()),
        ..LaunchEnvironment::default()
    };
    WorkloadKey::new(&run.command, &launch)
}

/// An outcome's name in JSON.
fn word(run: &Run) -> &'static str {
    match run.outcome() {
        RunOutcome::Running => "running",
        RunOutcome::Finished if run.is_hidden_failure() => "out_of_memory",
        RunOutcome::Finished => "finished",
        RunOutcome::TrainedNothing => "trained_nothing",
        RunOutcome::OutOfMemory => "out_of_memory",
        RunOutcome::Stopped => "stopped",
        RunOutcome::Failed(_) => "failed",
    }
}

fn of_run(state: &State, run: &Run) -> Value {
    let of = reading(state, run);
    json!({
        "run": run.number,
        "outcome": word(run),
        "exit": run.ended.map(|(_, exit)| exit),
        "seconds": run.ended.map(|(at, _)| at.since(run.started).as_secs_f64()),
        "steps": run.steps(),
        "batch": of.batch.map(|_| of.at_once),
        "accumulation": of.accumulation,
        "remedies": run.remedies,
        "predicted": run.prediction,
        "losses": RunProof::new(&state.runs, run),
        "peak": run.peak(),
        "reserved": run.ranks.iter().map(|rank| rank.reserved_peak).max(),
    })
}
