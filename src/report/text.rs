//! What happened and what to do about it, as text with commands to copy.

use crate::command::CommandLine;
use crate::diagnosis::Finding;
use crate::remedy::{Availability, Plan, Remedy};
use crate::state::{RunOutcome, State};
use crate::units::Bytes;
use crate::units::clock_face;
use std::fmt::Write;

/// The diagnosis of the current run's OOM: the cause, its numbers, the lines with the most memory,
/// and each remedy as a command to copy. Empty without an OOM.
///
/// Lines have no prefix or trailing newline; the caller adds `oomph: `.
pub fn diagnosis(
    state: &State,
    findings: &[Finding],
    remedies: &[Remedy],
    command: &CommandLine,
) -> Vec<String> {
    let Some(first) = findings.first() else {
        return Vec::new();
    };
    let mut lines = vec![format!("out of memory: {}", first.headline)];
    lines.extend(some(&first.explanation));
    if let Some(oom) = state.oom().and_then(|oom| oom.record.as_ref()) {
        for held in oom.lines.iter().take(3) {
            let mut line = format!(
                "allocated at {}:{} {}: {} in {} blocks",
                held.line.file, held.line.line, held.line.function, held.bytes, held.blocks
            );
            if let Some(inside) = &held.inside {
                let _ = write!(line, " (inside {}:{})", inside.file, inside.line);
            }
            lines.push(line);
        }
    }
    for other in findings.iter().skip(1) {
        lines.push(format!("also: {}", other.headline));
    }
    lines.extend(
        first
            .advice
            .iter()
            .map(|advice| format!("advice: {advice}")),
    );
    let offered: Vec<&Remedy> = remedies
        .iter()
        .filter(|remedy| remedy.availability == Availability::Offered)
        .filter(|remedy| remedy.expectation.fits != Some(false))
        .collect();
    if !offered.is_empty() {
        lines.push("to run it again:".into());
    }
    for remedy in offered {
        let plan = Plan::of(command, &[remedy]);
        lines.push(format!(
            "  {} ({}; {}):",
            remedy.title, remedy.expectation.words, remedy.cost
        ));
        lines.push(format!("    {}", plan.command.shown()));
    }
    lines
}

/// One line about the whole session, for the terminal after the screen has closed.
pub fn summary(state: &State) -> Option<String> {
    let run = state.run()?;
    let (ended, _) = run.ended?;
    let mut line = match run.outcome() {
        RunOutcome::Running => return None,
        RunOutcome::Finished => "finished".to_string(),
        RunOutcome::OutOfMemory => "ran out of memory".to_string(),
        RunOutcome::Stopped => "stopped".to_string(),
        RunOutcome::Failed(exit) => format!("ended with {exit}"),
    };
    let _ = write!(line, " after {}", clock_face(ended.since(run.started)));
    if let Some(peak) = run.peak() {
        let _ = write!(line, " · peak {peak}");
    }
    if run.steps() > 0 {
        let _ = write!(line, " · {} steps", run.steps());
    }
    if state.runs.len() > 1 {
        let _ = write!(line, " · run {}", run.number);
    }
    if let (Some(predicted), RunOutcome::Finished) = (run.predicted_peak, run.outcome()) {
        line.push_str(&foretold(predicted, run.peak()));
    }
    // A pipe (`python train.py | tee log`) has the last command's exit status, not the training's.
    if run.outcome() == RunOutcome::Finished && run.oom_count > 0 {
        line.push_str(" · the command still exited 0 (OOM caught, or masked by a pipe)");
    }
    Some(line)
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_string())
}

/// " (predicted 14.0 GiB, off by +1.4 %)"
fn foretold(predicted: Bytes, peak: Option<Bytes>) -> String {
    match peak.and_then(|peak| peak.fraction_of(predicted)) {
        Some(share) => format!(
            " (predicted {predicted}, off by {:+.1} %)",
            (share - 1.0) * 100.0
        ),
        None => format!(" (predicted {predicted})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prediction_stands_beside_what_came_of_it() {
        let said = |peak| foretold(Bytes::gib(10), peak);
        assert_eq!(
            said(Some(Bytes::gib(11))),
            " (predicted 10.0 GiB, off by +10.0 %)"
        );
        assert_eq!(said(None), " (predicted 10.0 GiB)");
    }
}
