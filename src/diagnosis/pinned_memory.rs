//! Memory that the program has locked in RAM held most of it: pinned, so that the GPU can copy from it.

use super::finding::because;
use super::host_figures::{Holder, HostFigures};
use super::oom_context::OomContext;
use super::{Cause, CauseSpec, Certainty, Finding, Phrase};
use crate::oom::OomSign;

pub(super) const CAUSE: CauseSpec =
    CauseSpec::new("pinned memory", examine).of_host("pinned memory fills the RAM");

/// cudaHostAlloc was refused: no page could be pinned.
fn refused(case: &OomContext) -> Finding {
    let what = "Pinned memory was refused, not GPU memory";
    let finding = HostFigures::of_or_text(case, Cause::PinnedMemory, Certainty::Certain, what);
    let more = HostFigures::of(case).map(|figures| figures.more_memory());
    let copies = case
        .stack
        .calls()
        .any(|call| call.code.contains("non_blocking"));
    let fewer = match copies {
        true => because(
            "copies to the CPU that wait",
            "non_blocking=False: only a copy that does not wait needs pinned memory; or fewer blocks that are swapped",
        ),
        false => "pin_memory=False, or a smaller prefetch_factor".into(),
    };
    let advice = [
        Some(fewer),
        Some("a limit of locked memory, if there is one: ulimit -l unlimited; WSL2 and Windows let only a part of the RAM be pinned (memory= in .wslconfig)".into()),
        more,
    ];
    finding
        .says("CUDA could not lock pages of the host's RAM; it says so with the words for GPU memory.")
        .advises(advice.into_iter().flatten().collect::<Vec<Phrase>>())
}

/// A network card's pages could not be locked: what a limit forbids, not what is missing.
fn not_locked(case: &OomContext) -> Finding {
    let what = "Locked memory was refused to the network card's driver, not GPU memory";
    let finding = HostFigures::of_or_text(case, Cause::PinnedMemory, Certainty::Certain, what);
    finding
        .says("NCCL locks pages of RAM for InfiniBand; ulimit -l bounds them, 64 KiB or 8 MiB where nobody raised it.")
        .advises([
            "ulimit -l unlimited (containers: --ulimit memlock=-1; SLURM: PropagateResourceLimitsExcept=MEMLOCK)".into(),
            Phrase::from("to see that it is this: NCCL_IB_DISABLE=1, which is slower"),
        ])
}

fn examine(case: &OomContext) -> Option<Finding> {
    if case.host_sign() == Some(OomSign::LockedPages) {
        return Some(not_locked(case));
    }
    if case.host_sign() == Some(OomSign::Pinned) {
        return Some(refused(case));
    }
    let figures = HostFigures::of(case)?;
    let Some(Holder::Pinned(locked)) = figures.holder() else {
        return None;
    };
    let what = format!("Pinned memory filled the RAM with {locked}");
    let finding = figures.finding(Cause::PinnedMemory, Certainty::Certain, &what);
    let advice = [
        "pin_memory=False, or a smaller prefetch_factor".into(),
        figures.more_memory(),
    ];
    Some(finding.shows_first([("pinned", locked)]).advises(advice))
}
