//! A retry inside of `except`: the exception that is being handled keeps its traceback, that keeps the frames of the failed
//! step, and these keep its tensors; so the second try begins with a full GPU.

use super::finding::with_figures;
use super::oom_context::OomContext;
use super::{Cause, CauseSpec, Certainty, Finding, Phrase};

pub(super) const CAUSE: CauseSpec =
    CauseSpec::new("memory held by an exception", examine).explains_capacity();

/// The share of what the first try had allocated that must still be allocated.
const STILL: f64 = 0.5;

fn examine(case: &OomContext) -> Option<Finding> {
    let before = case.oom.report.as_ref()?.while_handling?;
    let allocated = case.allocated?;
    if allocated < before.scale(STILL) {
        return None;
    }
    let headline: Phrase = with_figures(
        "It was tried again while the first OOM was still being handled",
        format!("{before} allocated at the first, {allocated} at this one"),
    );
    Some(
        case.finding(Cause::HeldByException, Certainty::Likely, headline)
            .says("Inside of except, the exception's traceback keeps the frames of the failed step, and with them its tensors.")
            .shows([("allocated at the first OOM", before)])
            .advises([
                "retry after the except block has ended: set a flag in it, and call again below",
                "optimizer.zero_grad(set_to_none=True) and torch.cuda.empty_cache() before the retry",
                "in a notebook: restart the kernel, or run another cell that fails, which drops the last traceback",
            ])
            .at(case.stack.own().map(|call| call.source()).as_ref()),
    )
}
