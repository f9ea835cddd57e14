//! What a session was, in one line, once it has ended.

use super::{hidden, score};
use crate::recognize::{LaunchEnvironment, WorkloadKey};
use crate::state::{Run, RunOutcome, State};
use crate::units::{Bytes, clock_face};
use std::fmt::Write;

/// Runs that are told one by one; of more only the last ones are.
const TOLD: usize = 4;

/// One line about the whole session, for the terminal after the screen has closed: "finished after
/// 0:14 · run 1 ran out of memory at step 25, run 2 (batch 32 × 2) peaked at 16.5 of 24.0 GiB".
pub fn summary(state: &State) -> Option<String> {
    let run = state.run()?;
    let (ended, _) = run.ended?;
    let mut line = match run.outcome() {
        RunOutcome::Running => return None,
        RunOutcome::Finished if run.is_hidden_failure() => {
            "ended with exit 0 though memory ran out,".to_string()
        }
        RunOutcome::Finished => "finished".to_string(),
        RunOutcome::TrainedNothing => "ended with exit 0 without a training step".to_string(),
        RunOutcome::OutOfMemory => "ran out of memory".to_string(),
        RunOutcome::Stopped => "stopped".to_string(),
        RunOutcome::Failed(exit) => format!("ended with {exit}"),
    };
    let _ = write!(line, " after {}", clock_face(ended.since(run.started)));
    match &state.runs[..] {
        [_] => {
            if let Some(peak) = peak(state, run) {
                let _ = write!(line, " · peak {peak}");
            }
        }
        runs => {
            let last = &runs[runs.len().saturating_sub(TOLD)..];
            let told: Vec<String> = last.iter().map(|run| of_run(state, run)).collect();
            let _ = write!(line, " · {}", told.join(", "));
        }
    }
    if run.steps() > 0 {
        let _ = write!(line, " · {} steps", run.steps());
    }
    if let (Some(predicted), RunOutcome::Finished) = (run.predicted_peak, run.outcome()) {
        line.push_str(&score::after_peak(run, predicted));
    }
    // Otherwise a notice of its own follows.
    let survived = run.outcome() == RunOutcome::Finished && hidden::notice(state).is_none();
    match run.oom_count {
        1 if survived => line.push_str(" · 1 OOM survived"),
        count @ 2.. if survived => {
            let _ = write!(line, " · {count} OOMs survived");
        }
        _ => {}
    }
    Some(line)
}

/// What to say of a last run that did not train, though one before it had, or had tried to.
pub fn nothing_trained(state: &State) -> Option<String> {
    let run = state.run()?;
    (run.outcome() == RunOutcome::TrainedNothing).then(|| {
        format!(
            "run {} ended with exit 0 without a training step, unlike an earlier run: it did not train",
            run.number
        )
    })
}

/// "run 2 (batch 32 × 2) peaked at 16.5 of 24.0 GiB"
fn of_run(state: &State, run: &Run) -> String {
    let named = match differs(state, run) {
        Some(how) => format!("run {} ({how})", run.number),
        None => format!("run {}", run.number),
    };
    if run.outcome() == RunOutcome::OutOfMemory {
        // The record counts ended steps; memory ran out in the next one.
        let step = run.oom().and_then(|oom| oom.record.as_ref());
        let step = step.map_or(String::new(), |record| {
            format!(" at step {}", record.step + 1)
        });
        return format!("{named} ran out of memory{step}");
    }
    match peak(state, run) {
        Some(peak) => format!("{named} peaked at {peak}"),
        None => format!("{named}, whose peak is unknown"),
    }
}

/// What a relaunch changed: the batch, or else the remedies' words.
fn differs(state: &State, run: &Run) -> Option<String> {
    let before = state
        .runs
        .iter()
        .rev()
        .find(|one| one.number < run.number)?;
    let [now, before] = [run, before].map(reading);
    if (now.at_once, now.accumulation) == (before.at_once, before.accumulation)
        || now.batch.is_none()
    {
        return (!run.remedies.is_empty()).then(|| run.remedies.join(" and "));
    }
    Some(match now.accumulation {
        1 => format!("batch {}", now.at_once),
        parts => format!("batch {} × {parts}", now.at_once),
    })
}

fn reading(run: &Run) -> WorkloadKey {
    WorkloadKey::new(
        &run.command.without_secrets(),
        &LaunchEnvironment::default(),
    )
}

/// "16.5 of 24.0 GiB"
fn peak(state: &State, run: &Run) -> Option<String> {
    let peak = run.peak()?;
    let device = run.ranks.iter().find_map(|rank| rank.device.as_ref());
    let capacity = device.and_then(|uuid| state.device(uuid)?.capacity);
    Some(
        match capacity.filter(|capacity| *capacity >= Bytes::gib(1) && peak >= Bytes::gib(1)) {
            Some(capacity) => format!("{:.1} of {:.1} GiB", peak.as_gib(), capacity.as_gib()),
            None => peak.to_string(),
        },
    )
}
