//! An evaluation that builds the graph: the model is in eval mode, but gradients are recorded, so
//! that each forward keeps its activations for as long as its output is kept.

use super::case::{Case, text};
use super::{Cause, Certainty, Finding};
use crate::event::Phase;

pub(super) fn examine(case: &Case) -> Option<Finding> {
    let record = case.oom.record.as_ref()?;
    if case.phase != Phase::Evaluation || record.grad_enabled != Some(true) {
        return None;
    }
    // Fragments or another process's memory would have been enough: those are the cause. What they
    // would do only without any waste, they would not have done.
    if !case.is_full()? {
        return None;
    }
    let allocated = case.allocated?;
    let baseline = case
        .rank
        .and_then(|rank| rank.steps.baselines.last())
        .map(|(_, baseline)| *baseline);
    let headline = match baseline.filter(|baseline| *baseline < allocated) {
        Some(baseline) => format!(
            "Evaluation runs with gradients enabled: {} more than the {baseline} allocated between steps.",
            allocated - baseline
        ),
        None => format!("Evaluation runs with gradients enabled: {allocated} allocated."),
    };
    let mut finding = case.finding(Cause::EvaluationGraph, Certainty::Likely, headline);
    finding.explanation = text([
        Some("The model is in eval mode, but gradients are enabled, so every output that is kept also keeps its activations.".into()),
    ]);
    finding.evidence = case.evidence();
    finding.advice = vec![
        "with torch.inference_mode(): around the evaluation".into(),
        ".item() or .detach() on what is kept of each batch".into(),
    ];
    Some(finding)
}
