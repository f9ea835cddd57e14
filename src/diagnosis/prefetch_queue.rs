//! Batches that workers have fetched in advance: workers × prefetch_factor of them wait in shared memory, which counts against
//! the limit.

use super::finding::because;
use super::host_figures::{Holder, HostFigures};
use super::oom_context::OomContext;
use super::{Cause, CauseSpec, Certainty, Finding};
use crate::units::Bytes;

pub(super) const CAUSE: CauseSpec =
    CauseSpec::new("prefetched batches", examine).of_host("prefetched batches fill the RAM");

fn examine(case: &OomContext) -> Option<Finding> {
    let figures = HostFigures::of(case)?;
    let Some(Holder::Shared(shared)) = figures.holder() else {
        return None;
    };
    let loader = figures.loader()?;
    let what = format!("Batches that wait in shared memory filled the RAM with {shared}");
    let samples = loader
        .batch
        .map_or(String::new(), |batch| format!(" of {batch} samples"));
    let (workers, each, waiting) = (
        loader.workers,
        loader.prefetch.unwrap_or(2),
        loader.waiting(),
    );
    let of_one = match figures.memory.batch {
        Some(batch) => format!(
            "{batch} each, {} together",
            Bytes(batch.0.saturating_mul(waiting))
        ),
        None => format!(
            "{} each if all of it is theirs",
            Bytes(shared.0 / waiting.max(1))
        ),
    };
    let queue = format!(
        "{workers} workers × prefetch_factor {each} = {waiting} batches{samples} may wait at a time, {of_one}."
    );
    let advice = [
        because(
            &format!("prefetch_factor below {each}, or fewer than {workers} workers"),
            "the room that they take is the product of both",
        ),
        figures.more_memory(),
    ];
    Some(
        figures
            .finding(Cause::PrefetchQueue, Certainty::Likely, &what)
            .says(queue)
            .shows_first([("in shared memory", shared)])
            .advises(advice),
    )
}
