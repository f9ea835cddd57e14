//! The device itself failed: it is lost, or the driver no longer responds. CUDA may then report an
//! OOM that has nothing to do with memory.

use super::finding::{because, with_figures};
use super::oom_context::OomContext;
use super::{Cause, CauseSpec, Certainty, Finding, Phrase};
use crate::oom::OomSource;

pub(super) const CAUSE: CauseSpec = CauseSpec::new("GPU fault", examine).recurs("the GPU failed");

pub(super) fn advice() -> [Phrase; 3] {
    let resume = "resume from the last checkpoint on another GPU";
    [
        because("look for an Xid in the kernel log", "dmesg | grep -i xid"),
        "reset the GPU (nvidia-smi --gpu-reset) or reboot; if it happens again, have the GPU replaced".into(),
        because(resume, "CUDA_VISIBLE_DEVICES"),
    ]
}

pub(super) fn headline(fault: &str) -> Phrase {
    with_figures("The GPU itself failed", fault)
}

fn examine(case: &OomContext) -> Option<Finding> {
    let fault = case.fault.as_ref()?;
    let certainty = match (case.kind.spec().source, case.is_full()) {
        // The allocator's figures show a full GPU: it may have been lost later.
        (OomSource::PytorchAllocator, Some(true)) => Certainty::Possible,
        (OomSource::DriverCall, _) => Certainty::Certain,
        (OomSource::PytorchAllocator | OomSource::Framework | OomSource::Host, _) => {
            Certainty::Likely
        }
    };
    let finding = case.finding(Cause::DeviceFault, certainty, headline(fault));
    Some(
        finding
            .says("A call to a GPU that does not respond can fail with any error, including out of memory.")
            .advises(advice()),
    )
}
