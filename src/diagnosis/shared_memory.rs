//! Shared memory: /dev/shm is full, or what is in it counts for most of the limit. Workers pass batches on in it.

use super::host_figures::{Holder, HostFigures, more};
use super::oom_context::OomContext;
use super::wording::because;
use super::{Cause, CauseSpec, Finding, Help, Phrase};

pub(super) const CAUSE: CauseSpec = CauseSpec::new("shared memory", examine)
    .recurs("shared memory ran out, not GPU memory")
    .prefers(Help::LessHostMemory)
    .of_host();

fn examine(case: &OomContext) -> Option<Finding> {
    let figures = HostFigures::of(case)?;
    match figures.holder()? {
        Holder::FullShm(shm) => {
            let what = format!(
                "Shared memory is full (/dev/shm: {} of {})",
                shm.used, shm.size
            );
            let finding = figures.finding(Cause::SharedMemory, &what);
            let advice: [Phrase; 2] = [
                format!(
                    "a larger /dev/shm: docker run --shm-size={}g, or an emptyDir with medium: Memory",
                    more(shm.size)
                )
                .into(),
                "fewer DataLoader workers, or a smaller prefetch_factor".into(),
            ];
            Some(
                finding
                    .shows_first([("in /dev/shm", shm.used), ("size of /dev/shm", shm.size)])
                    .advises(advice),
            )
        }
        Holder::Shared(shared) => {
            let what = format!("Shared memory filled the RAM with {shared}");
            let finding = figures.finding(Cause::SharedMemory, &what);
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
