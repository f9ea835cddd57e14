//! One device: NVML's view and the sum of what the probes hold on it.

use super::non_torch::NonTorch;
use super::{Series, State};
use crate::event::{DeviceReading, NvmlState};
use crate::units::{Bytes, Moment, Pid, Uuid};

/// One device.
#[derive(Debug, Clone, Default)]
pub struct DeviceState {
    pub uuid: Uuid,
    pub name: String,
    /// NVML's index, or CUDA's ordinal where NVML does not know the device.
    pub index: u32,
    /// The memory that processes can have: NVML's total less what the driver keeps, or what CUDA
    /// says where there is no NVML.
    pub capacity: Option<Bytes>,
    /// A cap that the program set, if one.
    pub limit: Option<Bytes>,
    /// The processes of NVML's latest reading, and when each was first seen on the device.
    pub first_seen: Vec<(Pid, Moment)>,
    /// What the training holds outside PyTorch, by NVML's readings and the probes' samples.
    pub(super) non_torch: NonTorch,
    /// NVML's latest reading.
    pub reading: Option<(Moment, DeviceReading)>,
    /// Used on the device, as NVML says it, over the session.
    pub used: Series,
    /// Allocated by the training's processes on this device together, over the session.
    pub allocated: Series,
    /// Reserved by them together.
    pub reserved: Series,
}

impl DeviceState {
    /// A device of which only this is known.
    pub(super) fn of(uuid: Uuid, name: &str, index: u32) -> DeviceState {
        DeviceState {
            uuid,
            name: name.to_string(),
            index,
            ..DeviceState::default()
        }
    }

    /// What is wrong with the device, if anything is: NVML says that it is lost, or answered for it
    /// before and does not any more.
    pub fn fault(&self, state: &State) -> Option<String> {
        let (_, reading) = self.reading.as_ref()?;
        match (&reading.lost, &state.nvml) {
            (Some(lost), _) => Some(lost.clone()),
            (None, Some(NvmlState::Unavailable { reason })) => Some(reason.clone()),
            (None, _) => None,
        }
    }
}

/// What a device's memory is made of right now. The parts add up to `capacity` where it and all
/// of them are known; a part that is not known is `None` and drawn as unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Breakdown {
    /// Parameters held by optimizers.
    pub parameters: Option<Bytes>,
    pub gradients: Option<Bytes>,
    pub optimizer_state: Option<Bytes>,
    /// The rest of what is allocated: activations, buffers, batches, whatever has no name. All of
    /// it, while no optimizer was seen.
    pub activations_and_other: Option<Bytes>,
    /// Reserved but unallocated.
    pub cached: Option<Bytes>,
    /// The training's device memory outside PyTorch: context, libraries, NCCL.
    pub non_pytorch: Option<Bytes>,
    pub other_processes: Option<Bytes>,
    pub free: Option<Bytes>,
}
