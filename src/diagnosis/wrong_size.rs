//! A size that no GPU has, and no batch needs: a number in a shape is wrong. PyTorch refuses more than an exabyte at once; what
//! is below that is told by the GPU's capacity. No remedy of memory helps, and none is the point.

use super::finding::{because, with_figures};
use super::oom_context::OomContext;
use super::{Cause, CauseSpec, Certainty, Finding, LittleUse, Phrase};
use crate::oom::OomSign;

pub(super) const CAUSE: CauseSpec = CauseSpec::new("a size that cannot be right", examine)
    .explains_capacity()
    .ineffective_against(LittleUse::UnlikelyToHelp, "no memory is large enough");

/// From this many times the GPU on a size is no real one.
const ABSURD: f64 = 100.0;

/// Whether what was requested is no real size.
pub(super) fn applies(case: &OomContext) -> bool {
    let overflowed = case.sign() == Some(OomSign::Overflow);
    let absurd = case.requested.zip(case.capacity);
    overflowed || absurd.is_some_and(|(requested, capacity)| requested > capacity.scale(ABSURD))
}

fn examine(case: &OomContext) -> Option<Finding> {
    if !applies(case) {
        return None;
    }
    let headline: Phrase = match case.requested.zip(case.capacity) {
        Some((requested, capacity)) => with_figures(
            "One allocation is many times what the GPU has",
            format!("{requested} requested, {capacity} on the GPU"),
        ),
        None => "More than an exabyte was requested at once.".into(),
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
            ])
            .at(case.stack.own().map(|call| call.source()).as_ref()),
    )
}
