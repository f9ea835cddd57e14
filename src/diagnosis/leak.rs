//! A leak: memory allocated between steps grows from step to step.

use super::baseline_growth::{BaselineGrowth, WARM_UP, baseline_growth};
use super::case::OomContext;
use super::wording::{because, with_figures};
use super::{Cause, Certainty, Finding, Phrase};
use crate::event::GrowingLine;
use crate::units::Bytes;

pub(super) fn examine(case: &OomContext) -> Option<Finding> {
    let steps = &case.rank?.steps;
    let climb = baseline_growth(steps, case.capacity)?;
    let per_step = Bytes(climb.per_step as u64);
    let first_step = steps.baselines.first()?.0;
    // It was already growing before the oldest recorded baseline.
    let since_start = per_step.scale((steps.count.saturating_sub(WARM_UP)) as f64);
    let (leaked, over) = if first_step <= WARM_UP + 1 {
        (climb.total, climb.steps)
    } else {
        (since_start, steps.count.saturating_sub(WARM_UP))
    };
    let would_fit = case
        .needed()
        .zip(case.own_room())
        .is_some_and(|(needed, room)| needed - leaked <= room);
    let finding = case.finding(
        Cause::Leak,
        Certainty::likely_if(would_fit),
        with_figures(
            "Memory leak",
            format!(
                "+{per_step} per step × {over} steps = {leaked} by step {}",
                steps.count
            ),
        ),
    );
    let kept_by = case.retainer();
    // With its name there is nothing to look for.
    let told = match kept_by {
        Some(_) => 1,
        None => 2,
    };
    let line = kept_by.and_then(|retainer| retainer.line.as_ref());
    Some(
        finding
            .kept_by(kept_by)
            .says(grown(&climb))
            .says("A smaller batch leaks less per step and so only delays the OOM.")
            .says_if(growing_line(case))
            .says_if((!would_fit).then_some("Even without the leak it would not fit here."))
            .shows_first([("leak per step", per_step), ("leaked", leaked)])
            .advises(advice().into_iter().take(told))
            .at(line.or(growing(case).map(|most| &most.line))),
    )
}

fn growing<'a>(case: &OomContext<'a>) -> Option<&'a GrowingLine> {
    case.record()?.growing.first()
}

pub(super) fn grown(climb: &BaselineGrowth) -> String {
    format!(
        "What is allocated between steps has grown steadily over the last {} steps.",
        climb.steps
    )
}

/// The program's line that grows most, if lines were recorded.
fn growing_line(case: &OomContext) -> Option<String> {
    let most = growing(case)?;
    Some(format!(
        "Growing allocations come from {} {}: +{} per step.",
        most.line.place(),
        most.line.function,
        most.per_step
    ))
}

pub(super) fn advice() -> [Phrase; 2] {
    [
        because(
            ".item() or .detach() on what you keep from each step",
            "a running loss keeps its whole graph",
        ),
        "look for lists that grow with every step: outputs, losses, hooks".into(),
    ]
}
