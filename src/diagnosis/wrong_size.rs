//! A size that no GPU has, and no batch needs: a number in a shape is wrong. PyTorch refuses more than an exabyte at once; what
//! is below that is told by the GPU's capacity. No remedy of memory helps, and none is the point.

use super::finding::{because, with_figures};
use super::oom_context::OomContext;
use super::{Cause, CauseSpec, Certainty, Finding, LittleUse, Phrase};
use crate::oom::{OomKind, OomSign};
use crate::units::Bytes;

pub(super) const CAUSE: CauseSpec = CauseSpec::new("a size that cannot be right", examine)
    .explains_capacity()
    .ineffective_against(LittleUse::UnlikelyToHelp, "no memory is large enough");

/// From this many times the GPU on a size is no real one.
const ABSURD: f64 = 100.0;

/// The same where the GPU's size is not known: the largest one has less than a thirtieth of it.
const ABSURD_ANYWHERE: Bytes = Bytes::gib(10 * 1024);

/// Whether what was requested is no real size.
pub(super) fn applies(case: &OomContext) -> bool {
    let overflowed = case.sign() == Some(OomSign::Overflow);
    let requested = case.requested.filter(|_| case.kind != OomKind::HostOom);
    let absurd = requested.is_some_and(|requested| {
        requested > case.capacity.map_or(ABSURD_ANYWHERE, |of| of.scale(ABSURD))
    });
    overflowed || absurd
}

fn examine(case: &OomContext) -> Option<Finding> {
    if !applies(case) {
        return None;
    }
    let headline: Phrase = match (case.requested, case.capacity) {
        (Some(requested), Some(capacity)) => with_figures(
            "One allocation is many times what the GPU has",
            format!("{requested} requested, {capacity} on the GPU"),
        ),
        (Some(requested), None) => with_figures(
            "One allocation is many times what any GPU has",
            format!("{requested} requested"),
        ),
        (None, _) => "More than an exabyte was requested at once.".into(),
    };
    let line = match case.stack.own() {
        Some(call) => call.place(),
        None => "the line that failed".into(),
    };
    Some(
        case.finding(Cause::WrongSize, Certainty::Certain, headline)
            .says("No batch is that large: a number in a shape is wrong (negative, overflowed, or read from damaged data).")
            .says_if(case.failed_where())
            .advises([
                Phrase::from(format!("print the shapes at {line}")),
                because(
                    "look for an earlier error above",
                    "a damaged checkpoint, a collective call that timed out, an index out of range",
                ),
                "if a compiled extension made it (a rasterizer, sparse convolutions): build it again for this GPU and this torch".into(),
            ])
            .at(case.stack.own().map(|call| call.source()).as_ref()),
    )
}
