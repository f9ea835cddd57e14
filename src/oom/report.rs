//! What an OOM message says; `None` for what it does not say.

use super::kind::OomKind;
use crate::units::{Bytes, Pid, Rank};
use serde::{Deserialize, Serialize};

/// An OOM read from text.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OomReport {
    pub kind: OomKind,
    /// Whether it ended the program, as far as the text tells.
    pub outcome: OomOutcome,
    /// The line's number, from 1.
    pub line: u64,
    /// The rank, if a prefix has it.
    pub rank: Option<Rank>,
    /// CUDA's ordinal.
    pub device: Option<u32>,
    /// "Tried to allocate": the segment requested from the driver, not the tensor.
    pub requested: Option<Bytes>,
    /// The device's capacity.
    pub total: Option<Bytes>,
    /// Free on the device.
    pub free: Option<Bytes>,
    /// Allocated by PyTorch.
    pub allocated: Option<Bytes>,
    /// Reserved by PyTorch, allocated included.
    pub reserved: Option<Bytes>,
    /// Reserved but unallocated.
    pub unallocated: Option<Bytes>,
    /// This process's memory, non-PyTorch included.
    pub process_used: Option<Bytes>,
    /// A limit set by the program ("allowed").
    pub limit: Option<Bytes>,
    /// The part of allocated that is in private pools (CUDA graphs).
    pub private_pools: Option<Bytes>,
    /// Other processes on the device.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<OtherProcess>,
    /// A shell says "Killed", and nothing more: not why, and not whether anybody minds.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hearsay: bool,
}

impl OomReport {
    /// All its figures.
    pub(super) fn sizes(&self) -> [Option<Bytes>; 9] {
        [
            self.requested,
            self.total,
            self.free,
            self.allocated,
            self.reserved,
            self.unallocated,
            self.process_used,
            self.limit,
            self.private_pools,
        ]
    }
}

/// Another process on the device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherProcess {
    /// As NVML told PyTorch; in a container it may be the training itself.
    pub pid: Pid,
    /// Its memory on the device.
    pub used: Option<Bytes>,
}

/// Whether an OOM ended the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OomOutcome {
    Fatal,
    /// The program continued.
    Caught,
    /// The text does not tell.
    #[default]
    Unknown,
}
