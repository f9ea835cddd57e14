//! Shared memory: /dev/shm is full, or what is in it counts for most of the limit. Workers pass batches on in it.

use super::finding::because;
use super::host_figures::{Holder, HostFigures, more};
use super::oom_context::OomContext;
use super::{Cause, CauseSpec, Certainty, Finding, Phrase};
use crate::oom::OomSign;

pub(super) const CAUSE: CauseSpec =
    CauseSpec::new("shared memory", examine).of_host("shared memory ran out, not GPU memory");

/// GiB of /dev/shm to ask for where nothing says how much is needed.
const USUAL: u64 = 8;

/// Its own words say that it is full; no figure does.
fn by_text(case: &OomContext) -> Finding {
    let what = "Shared memory is full (/dev/shm), not GPU memory";
    let finding = HostFigures::of_or_text(case, Cause::SharedMemory, Certainty::Certain, what);
    let needed = HostFigures::of(case).and_then(|figures| figures.needed_of_batches());
    let size = needed.map_or(USUAL, more);
    let larger = format!(
        "a larger /dev/shm: docker run --shm-size={size}g (or --ipc=host), or an emptyDir with medium: Memory"
    );
    finding
        .says("DataLoader workers pass batches on in /dev/shm, and NCCL data between the ranks of a node; in a container it has 64 MiB unless it was given more.")
        .advises([
            larger,
            "fewer DataLoader workers, or a smaller prefetch_factor".into(),
        ])
}

/// The kernel refused to map what another process has shared.
fn not_mapped(case: &OomContext) -> Finding {
    let what = "Shared memory could not be mapped (errno 12), not GPU memory";
    let finding = HostFigures::of_or_text(case, Cause::SharedMemory, Certainty::Certain, what);
    finding
        .says("A process may have so many mappings (vm.max_map_count, 65,530 as a rule), and each tensor that is shared by name is one; or ulimit -v, or a limit of RAM, leaves it no more.")
        .advises([
            because(
                "fewer, larger tensors: a batch as one tensor, not as a list of many",
                "each that is passed on is a mapping until it is freed",
            ),
            "sysctl -w vm.max_map_count=262144, and ulimit -v unlimited".into(),
            "torch.multiprocessing.set_sharing_strategy(\"file_descriptor\"), if it was changed".into(),
        ])
}

fn examine(case: &OomContext) -> Option<Finding> {
    if case.host_sign() == Some(OomSign::Mappings) {
        return Some(not_mapped(case));
    }
    let figures = HostFigures::of(case);
    let holder = figures.as_ref().and_then(HostFigures::holder);
    if case.host_sign() == Some(OomSign::SharedMemory)
        && !matches!(holder, Some(Holder::FullShm(_)))
    {
        return Some(by_text(case));
    }
    let figures = figures?;
    match holder? {
        Holder::FullShm(shm) => {
            let what = format!(
                "Shared memory is full (/dev/shm: {} of {})",
                shm.used, shm.size
            );
            let finding = figures.finding(Cause::SharedMemory, Certainty::Certain, &what);
            let advice: [Phrase; 2] = [
                format!(
                    "a larger /dev/shm: docker run --shm-size={}g, or an emptyDir with medium: Memory",
                    more(figures.needed_shm(shm))
                )
                .into(),
                "fewer DataLoader workers, or a smaller prefetch_factor".into(),
            ];
            Some(
                finding
                    .says_if(figures.queue())
                    .shows_first([("in /dev/shm", shm.used), ("size of /dev/shm", shm.size)])
                    .advises(advice),
            )
        }
        Holder::Shared(shared) => {
            let what = format!("Shared memory filled the RAM with {shared}");
            let finding = figures.finding(Cause::SharedMemory, figures.certainty(), &what);
            let advice = [
                because(
                    "fewer DataLoader workers, or a smaller prefetch_factor",
                    "batches wait in shared memory",
                ),
                figures.more_memory(),
            ];
            Some(finding.advises(advice))
        }
        Holder::Pinned(_) | Holder::Workers(_) | Holder::Process(_) => None,
    }
}
