//! A leak: what stays allocated between steps climbs from step to step.

use super::baseline_growth::{WARM_UP, baseline_growth};
use super::case::{Case, number, text};
use super::{Cause, Certainty, Finding};
use crate::units::Bytes;

pub(super) fn examine(case: &Case) -> Option<Finding> {
    let steps = &case.rank?.steps;
    let climb = baseline_growth(steps, case.capacity)?;
    let per_step = Bytes(climb.per_step as u64);
    let first_step = steps.baselines.first()?.0;
    // It climbed before the oldest baseline that is kept, too.
    let since_start = per_step.scale((steps.count.saturating_sub(WARM_UP)) as f64);
    let leaked = if first_step <= WARM_UP + 1 {
        climb.total
    } else {
        since_start
    };
    let would_fit = case
        .needed()
        .zip(case.own_room())
        .is_some_and(|(needed, room)| needed - leaked <= room);
    let certainty = if would_fit {
        Certainty::Likely
    } else {
        Certainty::Possible
    };
    let mut finding = case.finding(
        Cause::Leak,
        certainty,
        format!(
            "Memory leak: +{per_step} per step, {leaked} by step {}.",
            steps.count
        ),
    );
    finding.explanation = text([
        Some(format!(
            "What is allocated between steps has grown steadily over the last {} steps. A smaller batch leaks less per step and so only delays the OOM.",
            climb.steps
        )),
        growing_line(case),
        (!would_fit).then(|| "Even without the leak it would not fit here.".into()),
    ]);
    finding.evidence = vec![number("leak per step", per_step), number("leaked", leaked)];
    finding.evidence.extend(case.evidence());
    finding.advice = advice();
    Some(finding)
}

/// The program's line that grows most, where lines were recorded.
fn growing_line(case: &Case) -> Option<String> {
    let most = case.oom.record.as_ref()?.growing.first()?;
    let file = most.line.file.rsplit('/').next().unwrap_or_default();
    let (number, function) = (most.line.line, &most.line.function);
    Some(format!(
        "Growing allocations come from {file}:{number} {function}: +{} per step.",
        most.per_step
    ))
}

/// What to do about one.
pub(super) fn advice() -> Vec<String> {
    vec![
        ".item() or .detach() on what is kept of a step (a running loss keeps its whole graph)"
            .into(),
        "look for lists that grow with the steps: outputs, losses, hooks".into(),
    ]
}
