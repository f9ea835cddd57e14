//! An evaluation that builds the autograd graph: the model is in eval mode, but gradients are
//! enabled, so each forward pass keeps its activations as long as its output lives.

use super::evaluation_outputs::{gathers_without_graphs, outweighs_the_cache};
use super::finding::with_figures;
use super::oom_context::OomContext;
use super::{Cause, CauseSpec, Certainty, Finding, LittleUse};
use crate::event::{Phase, SourceLine};

pub(super) const CAUSE: CauseSpec = CauseSpec::new("evaluation with gradients enabled", examine)
    .explains_capacity()
    .recurs("evaluation keeps its graphs: it would run out again (torch.inference_mode() around it fixes that)")
    .ineffective_against(
        LittleUse::UnlikelyToHelp,
        "every evaluation batch keeps its activations",
    );

fn examine(case: &OomContext) -> Option<Finding> {
    if case.phase != Phase::Evaluation || case.record()?.grad_enabled != Some(true) {
        return None;
    }
    if gathers_without_graphs(case) {
        return None;
    }
    // If freeing fragments or another process's memory would have been enough, those are the cause.
    // Enough means with the overhead that every allocator has.
    if !case.is_full()? && !outweighs_the_cache(case) {
        return None;
    }
    let allocated = case.allocated?;
    let baseline = case.rank.and_then(|rank| rank.steps.baselines.last());
    let figures = match baseline {
        Some((_, baseline)) if *baseline < allocated => {
            let more = allocated - *baseline;
            format!("{more} on top of the {baseline} allocated after a training step")
        }
        _ => format!("{allocated} allocated"),
    };
    let headline = with_figures("Evaluation runs with gradients enabled", figures);
    Some(
        case.finding(Cause::EvaluationGraph, Certainty::Likely, headline)
            .says("The model is in eval mode, but gradients are enabled, so every output that is kept also keeps its activations.")
            .kept_by(case.retainer())
            .advises([
                "with torch.inference_mode(): around the evaluation",
                ".item() or .detach() on what you keep from each batch",
            ])
            .at(caller_of_the_model(&case.record()?.stack)),
    )
}

/// The line that called the outermost module on a stack (innermost first).
fn caller_of_the_model(stack: &[SourceLine]) -> Option<&SourceLine> {
    let is_call = |line: &SourceLine| line.file.ends_with("/torch/nn/modules/module.py");
    let outermost = stack.iter().rposition(is_call)?;
    stack.get(outermost + 1)
}
