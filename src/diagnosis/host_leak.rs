//! A leak of the host's memory: one kind of process has grown at one rate for minutes, and that is most of what is used. It is told
//! for certain or not at all.

use super::host_figures::HostFigures;
use super::host_growth::{advice, said, words};
use super::oom_context::OomContext;
use super::{Cause, CauseSpec, Certainty, Finding};

pub(super) const CAUSE: CauseSpec =
    CauseSpec::new("RAM leak", examine).of_host("RAM leaks: it would run out again later");

/// What has leaked is at least this share of what is used.
const MOST_OF_IT: f64 = 0.4;

fn examine(case: &OomContext) -> Option<Finding> {
    let figures = HostFigures::of(case)?;
    let leak = figures.leak()?;
    if leak.total < figures.memory.used.scale(MOST_OF_IT) {
        return None;
    }
    let what = format!("RAM leak: {}", words(&leak));
    let advice = advice(leak.role).into_iter().chain([figures.more_memory()]);
    Some(
        figures
            .finding(Cause::HostLeak, Certainty::Certain, &what)
            .says(said(&leak))
            .says("More memory, or fewer processes that grow, only delays it.")
            .shows_first([("leaked", leak.total), ("a minute", leak.per_minute)])
            .advises(advice.collect::<Vec<_>>()),
    )
}
