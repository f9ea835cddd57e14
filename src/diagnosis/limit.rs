//! A cap: the program or its environment limits itself to less than the device has.
//!
//! By `set_per_process_memory_fraction`, or by `per_process_memory_fraction` in the allocator's
//! settings (torch ≥ 2.10); CuPy's pool has a limit of its own. Free memory on the device does not help then, since the allocator
//! itself refuses.

use super::finding::Sum;
use super::finding::with_figures;
use super::oom_context::OomContext;
use super::{Cause, CauseSpec, Certainty, Finding};
use crate::oom::OomKind;
use crate::units::Bytes;

pub(super) const CAUSE: CauseSpec = CauseSpec::new("memory limit", examine).of_one_rank();

/// Messages print hundredths of a GiB; three of these are compared.
const ROUNDING: Bytes = Bytes::mib(16);

/// Where such a limit is set.
fn whose(kind: OomKind) -> &'static str {
    match kind {
        OomKind::Cupy => {
            "The limit is CuPy's own: set_limit of its memory pool, or CUPY_GPU_MEMORY_LIMIT."
        }
        _ => {
            "The limit comes from set_per_process_memory_fraction in the program or per_process_memory_fraction in the allocator settings."
        }
    }
}

fn examine(case: &OomContext) -> Option<Finding> {
    let limit = case.limit?;
    if case.capacity.is_some_and(|capacity| limit >= capacity) {
        // A fraction of 1.0 is printed as a limit too.
        return None;
    }
    let reached = case
        .reserved
        .zip(case.requested)
        .map(|(reserved, requested)| reserved + requested + ROUNDING > limit);
    let room_beyond = case
        .free
        .zip(case.requested)
        .map(|(free, requested)| free >= requested);
    let certainty = match (reached, room_beyond) {
        (Some(false), _) => return None,
        (Some(true), Some(true)) => Certainty::Certain,
        (Some(true), None) | (None, Some(true)) => Certainty::Likely,
        (None, None) | (_, Some(false)) => Certainty::Possible,
    };
    let of_the_gpu = case
        .capacity
        .map(|capacity| format!(" of the GPU's {capacity}"))
        .unwrap_or_default();
    let held = case
        .reserved
        .zip(case.requested)
        .map(|(reserved, requested)| {
            Sum(&[(reserved, "reserved"), (requested, "requested")]).against(limit)
        });
    let free = match (room_beyond, case.free) {
        (Some(true), Some(free)) => Some(format!("{free} is free on the GPU.")),
        (Some(false), Some(free)) => Some(format!(
            "Only {free} is free on the GPU, so it would not have fit without the limit either."
        )),
        (_, _) => None,
    };
    let headline = match held {
        Some(held) => with_figures(
            "A memory limit was reached",
            format!("{held} allowed{of_the_gpu}"),
        ),
        None => format!("A memory limit allows the program only {limit}{of_the_gpu}.").into(),
    };
    Some(
        case.finding(Cause::Limit, certainty, headline)
            .says_if(case.failed_where())
            .says_if(free)
            .says(whose(case.kind))
            .shows_first([("limit", limit)])
            .advises(["raise or remove the limit"]),
    )
}
