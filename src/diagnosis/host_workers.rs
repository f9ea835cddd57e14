//! Worker processes of the data's loading held most of the host's memory: each has its own copy of what it touches of the data
//! set's Python objects, and batches fetched in advance.

use super::host_figures::{Holder, HostFigures};
use super::oom_context::OomContext;
use super::{Cause, CauseSpec, Finding};

pub(super) const CAUSE: CauseSpec =
    CauseSpec::new("workers' memory", examine).of_host("worker processes fill the RAM");

fn examine(case: &OomContext) -> Option<Finding> {
    let figures = HostFigures::of(case)?;
    let Some(Holder::Workers(workers)) = figures.holder() else {
        return None;
    };
    let what = format!(
        "{} filled the RAM with {}",
        workers.role.words(workers.count),
        workers.held
    );
    let finding = figures.finding(
        Cause::HostWorkers,
        figures.certainty(),
        &super::finding::capitalized(&what),
    );
    let advice = [
        "fewer DataLoader workers, or a smaller prefetch_factor".into(),
        super::finding::because(
            "the data set in NumPy arrays or tensors, not in lists of Python objects",
            "each worker gets its own copy of objects as it counts references to them",
        ),
        figures.more_memory(),
    ];
    Some(
        finding
            .shows_first([("workers", workers.held)])
            .advises(advice),
    )
}
