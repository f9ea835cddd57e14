//! A free block that was large enough, in PyTorch's own cache, and was not given out: it belongs to another stream or to a
//! private pool, or is larger than what the settings let be split.

use super::finding::{because, with_figures};
use super::oom_context::OomContext;
use super::private_pools;
use super::{Cause, CauseSpec, Certainty, Finding, Help};

pub(super) const CAUSE: CauseSpec =
    CauseSpec::new("a free block that was not used", examine).prefers(Help::NoFragmentation);

/// The allocator waits for streams that still use blocks which were freed, gives whole segments back, and asks the driver; for a
/// block that has become free meanwhile it does not look (a change that does is open as of August 2026: pull request 191302).
const NOT_MENDED: &str = "Nor does it look again for a block that became free while it gave up (PyTorch issue 189504; no release is known to fix it).";

/// Whether the allocator's own snapshot shows a free block as large as the request, where the GPU had no room.
pub(super) fn is_unused(case: &OomContext) -> bool {
    let fits = (case.largest_free.zip(case.requested)).is_some_and(|(free, asked)| free >= asked);
    let full = (case.free.zip(case.requested)).is_some_and(|(free, asked)| free < asked);
    fits && full && !case.by_last_sample
}

fn examine(case: &OomContext) -> Option<Finding> {
    if !is_unused(case) {
        return None;
    }
    let (free, requested) = (case.largest_free?, case.requested?);
    let figures = format!("{free} in one piece, {requested} requested");
    let pools = private_pools::sentence(case);
    Some(
        case.finding(
            Cause::UnusedBlock,
            Certainty::Likely,
            with_figures("A free block that is large enough was not used", figures),
        )
        .says("PyTorch gives a block only to the stream and the pool that it belongs to.")
        .says(NOT_MENDED)
        .says_if(pools.map(|words| format!("{words}.")))
        .says_if(case.failed_where())
        .shows([("largest free piece", free)])
        .advises([
            because(
                "the same call once more",
                "its memory is there then, if only a stream had not let go of it",
            ),
            because(
                "one stream for large tensors",
                "no torch.cuda.stream around what is large",
            ),
            because(
                "let go of other streams' blocks",
                "torch.cuda.empty_cache() behind the side stream's work",
            ),
            because("no max_split_size_mb", "blocks above it are never split"),
        ]),
    )
}
