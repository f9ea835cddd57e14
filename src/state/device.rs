//! A device: NVML's readings and the sums of the probes' samples.

use super::non_torch::NonTorch;
use super::{DeviceUsage, Keyed, RankState, Resolution, Run, Series, State};
use crate::event::{DeviceReading, NvmlState};
use crate::units::{Bytes, Moment, Pid, Uuid};

#[derive(Debug, Clone, Default)]
pub struct DeviceState {
    pub uuid: Uuid,
    pub name: String,
    /// The other node that it is on.
    pub node: Option<String>,
    /// NVML's index, or CUDA's ordinal if NVML does not list the device.
    pub index: u32,
    /// The memory for processes: NVML's total less the driver's, or CUDA's total without NVML.
    pub capacity: Option<Bytes>,
    /// A limit that the program set.
    pub limit: Option<Bytes>,
    /// Processes that have used it, of the current run or one before; others may be among them.
    pub(super) holders: Vec<Pid>,
    /// The processes of the latest reading, and when each was first seen.
    pub first_seen: Vec<(Pid, Moment)>,
    /// The training's memory outside PyTorch.
    pub(super) non_torch: NonTorch,
    /// NVML's latest reading.
    pub reading: Option<(Moment, DeviceReading)>,
    /// Device use by NVML.
    pub used: Series,
    /// Allocated by all the training's processes.
    pub allocated: Series,
    /// Reserved by all of them.
    pub reserved: Series,
}

impl Keyed for DeviceState {
    type Key = Uuid;

    fn key(&self) -> &Uuid {
        &self.uuid
    }
}

impl DeviceState {
    pub(super) fn new(uuid: Uuid, name: &str, index: u32) -> DeviceState {
        DeviceState {
            uuid,
            name: name.to_string(),
            index,
            ..DeviceState::default()
        }
    }

    /// A run's live processes with a sample of this device, and the latest one.
    pub(super) fn usages_in<'a>(
        &'a self,
        run: &'a Run,
    ) -> impl Iterator<Item = (&'a RankState, &'a DeviceUsage)> {
        let holders = self.holders.iter().filter_map(|pid| run.rank_with(*pid));
        let alive = holders.filter(|rank| rank.disconnected.is_none());
        alive.filter_map(|rank| Some((rank, rank.usage_on(&self.uuid)?)))
    }

    /// Keeps less of its series, for one of very many devices that is new.
    pub(super) fn keep_little(&mut self) {
        for series in [&mut self.used, &mut self.allocated, &mut self.reserved] {
            *series = Series::with(Resolution::Small);
        }
    }

    /// `GPU 0`, or on another node `gpu-2 GPU 0`.
    pub fn label(&self) -> String {
        match &self.node {
            None => format!("GPU {}", self.index),
            Some(node) => format!("{node} GPU {}", self.index),
        }
    }

    /// What is wrong with the device: it is lost, or NVML does not answer any more.
    pub fn fault(&self, state: &State) -> Option<String> {
        let (_, reading) = self.reading.as_ref()?;
        match (&reading.lost, &state.nvml) {
            (Some(lost), _) => Some(lost.clone()),
            (None, Some(NvmlState::Unavailable { reason })) if self.node.is_none() => {
                Some(reason.clone())
            }
            (None, _) => None,
        }
    }
}

/// The breakdown of a device's memory; unknown parts are `None`. All parts add up to the capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Breakdown {
    /// Known from the optimizers.
    pub parameters: Option<Bytes>,
    pub gradients: Option<Bytes>,
    pub optimizer_state: Option<Bytes>,
    /// The rest of what is allocated: activations, buffers, batches. Everything, before an
    /// optimizer was seen.
    pub activations_and_other: Option<Bytes>,
    /// Reserved but unallocated.
    pub cached: Option<Bytes>,
    /// The training's memory outside PyTorch: context, libraries, NCCL.
    pub non_pytorch: Option<Bytes>,
    pub other_processes: Option<Bytes>,
    pub free: Option<Bytes>,
}
