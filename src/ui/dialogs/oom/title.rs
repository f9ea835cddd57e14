//! The OOM dialog's title: what ran out of memory, where and when.

use crate::event::{OomRecord, Phase};
use crate::state::RunOutcome;
use crate::ui::canvas::columns;
use crate::ui::scene::Scene;
use crate::ui::words::count;
use crate::units::RunNumber;

/// As many of its parts as have room, from the first on.
pub(super) fn within(scene: &Scene, number: RunNumber, separator: &str, room: u16) -> String {
    let mut fitting = String::new();
    for part in parts(scene, number) {
        let longer = match fitting.is_empty() {
            true => part,
            false => format!("{fitting}{separator}{part}"),
        };
        if !fitting.is_empty() && columns(&longer) > room {
            break;
        }
        fitting = longer;
    }
    fitting
}

pub(super) fn parts(scene: &Scene, number: RunNumber) -> Vec<String> {
    let state = scene.state;
    let run = state.run_numbered(number);
    let oom = run.and_then(|run| run.oom().or(run.ooms.last()));
    let kind = oom
        .and_then(|oom| oom.report.as_ref())
        .map(|report| report.kind);
    if run.is_some_and(|run| run.ooms.is_empty()) {
        // Opened because the program rejected a remedy's change.
        return vec![format!("Run {number} rejected the change")];
    }
    let mut parts = vec![kind.unwrap_or_default().spec().title.to_string()];
    if let Some(device) = oom
        .and_then(|oom| oom.device.as_ref())
        .and_then(|uuid| state.device(uuid))
    {
        parts.push(device.label());
    }
    if let Some(rank) = oom.and_then(|oom| oom.rank) {
        parts.push(format!("rank {rank}"));
    }
    parts.push(match run.map(|run| run.outcome()) {
        Some(RunOutcome::Running) => format!("run {number}, still running"),
        Some(
            RunOutcome::Finished
            | RunOutcome::TrainedNothing
            | RunOutcome::Stopped
            | RunOutcome::Failed(_),
        ) => format!("run {number}, which continued"),
        Some(RunOutcome::OutOfMemory) | None => format!("run {number}"),
    });
    if let Some(record) = oom.and_then(|oom| oom.record.as_ref()) {
        parts.push(place(record));
    }
    parts
}

/// Where in the training. The record counts ended steps; the OOM was in the next one.
fn place(record: &OomRecord) -> String {
    let ended = record.step;
    let step = count(ended + 1);
    match record.phase {
        Phase::Load => String::from("while loading"),
        Phase::Forward => format!("in the forward pass of step {step}"),
        Phase::Backward => format!("in the backward pass of step {step}"),
        Phase::Optimizer => format!("in optimizer step {step}"),
        Phase::Evaluation if ended == 0 => String::from("during evaluation"),
        Phase::Evaluation => format!("during evaluation after step {}", count(ended)),
        Phase::Unknown => format!("in step {step}"),
    }
}
