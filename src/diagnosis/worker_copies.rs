//! Each worker has made a copy of the data set of its own: a forked worker shares its parent's memory until one of them writes
//! to it, and counting references to Python's objects writes to them.

use super::finding::because;
use super::host_figures::HostFigures;
use super::oom_context::OomContext;
use super::{Cause, CauseSpec, Certainty, Finding};

pub(super) const CAUSE: CauseSpec = CauseSpec::new("workers' copies of the data set", examine)
    .of_host("workers copy the data set as they touch it");

fn examine(case: &OomContext) -> Option<Finding> {
    let figures = HostFigures::of(case)?;
    let copied = figures.copied()?;
    let workers = figures.workers()?;
    let what = super::finding::capitalized(&format!(
        "{} copied {copied} of what they shared",
        workers.role.words(workers.count)
    ));
    let advice = [
        because(
            "the data set in NumPy arrays or tensors, not in lists and dicts of Python objects",
            "reading an object counts a reference to it, which copies its page",
        ),
        "fewer DataLoader workers: each makes a copy of its own".into(),
        figures.more_memory(),
    ];
    Some(
        figures
            .finding(Cause::WorkerCopies, Certainty::Certain, &what)
            .says(format!(
                "What is used grew by {copied} while no process became larger: pages that a worker shared with its parent became its own."
            ))
            .shows_first([("copied", copied)])
            .advises(advice),
    )
}
