//! What happened and what to do about it, as text with commands to copy.

use crate::command::CommandLine;
use crate::diagnosis::{AmongRanks, Finding};
use crate::remedy::{Availability, Plan, Remedy};
use crate::state::State;
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
    lines.extend(first.ranks.iter().flat_map(AmongRanks::sentences));
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
        let plan = Plan::new(command, &[remedy]);
        lines.push(format!(
            "  {} ({}; {}):",
            remedy.title, remedy.expectation.words, remedy.cost
        ));
        lines.push(format!("    {}", plan.command.shown()));
    }
    lines.extend(for_all_parts(remedies, command));
    lines
}

/// The remedies of one part of a job, which every part needs: nothing is started here.
fn for_all_parts(remedies: &[Remedy], command: &CommandLine) -> Vec<String> {
    let may_help = |remedy: &&Remedy| {
        !remedy.is_offered() && !remedy.edits.is_empty() && remedy.expectation.fits != Some(false)
    };
    let mut lines = Vec::new();
    for remedy in remedies.iter().filter(may_help) {
        if let (true, Availability::NotOffered(why)) = (lines.is_empty(), &remedy.availability) {
            lines.push(format!("not started again, {why}:"));
        }
        let facts = [&remedy.expectation.words, &remedy.cost];
        let facts: Vec<&str> = (facts.into_iter().map(|fact| fact.as_str()))
            .filter(|fact| !fact.is_empty())
            .collect();
        lines.push(format!(
            "  {} ({}), on every node {}; on this one:",
            remedy.title,
            facts.join("; "),
            remedy.changes
        ));
        let plan = Plan::new(command, &[remedy]);
        lines.push(format!("    {}", plan.command.shown()));
    }
    lines
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_string())
}
