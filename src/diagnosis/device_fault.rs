//! The device itself failed: it is lost, or the driver does not answer any more. What CUDA then
//! says of memory has nothing to do with memory.

use super::case::{Case, text};
use super::{Cause, Certainty, Finding};
use crate::event::NvmlState;
use crate::oom::OomSource;
use crate::state::{DeviceState, State};

/// What is wrong with a device, in words, if anything is: NVML says that it is lost, or answered
/// for it before and does not any more.
pub(super) fn fault(state: &State, device: &DeviceState) -> Option<String> {
    let (_, reading) = device.reading.as_ref()?;
    if let Some(lost) = &reading.lost {
        return Some(lost.clone());
    }
    match &state.nvml {
        Some(NvmlState::Unavailable { reason }) => Some(reason.clone()),
        Some(NvmlState::Live { .. } | NvmlState::Stale | NvmlState::Off) | None => None,
    }
}

/// What follows from it.
pub(super) fn advice() -> Vec<String> {
    vec![
        "look at the kernel's log for an Xid (dmesg | grep -i xid)".into(),
        "reset the GPU (nvidia-smi --gpu-reset) or reboot; if it comes again, have the card replaced".into(),
        "resume from the last checkpoint on another GPU (CUDA_VISIBLE_DEVICES)".into(),
    ]
}

pub(super) fn examine(case: &Case) -> Option<Finding> {
    let fault = case.fault.as_ref()?;
    let certainty = match (case.kind.spec().source, case.is_full()) {
        // The allocator's own figures show a full card: that it was lost may have come later.
        (OomSource::PytorchAllocator, Some(true)) => Certainty::Possible,
        (OomSource::DriverCall, _) => Certainty::Certain,
        (OomSource::PytorchAllocator | OomSource::Framework | OomSource::Host, _) => {
            Certainty::Likely
        }
    };
    let mut finding = case.finding(
        Cause::DeviceFault,
        certainty,
        format!("The GPU itself failed: {fault}."),
    );
    finding.explanation = text([Some(
        "A call to a device that does not answer can fail with any error, of memory too.".into(),
    )]);
    finding.evidence = case.evidence();
    finding.advice = advice();
    Some(finding)
}
