//! What one out-of-memory says in text. A figure that the text does not have is `None`.

use super::kind::OomKind;
use crate::units::{Bytes, Pid, Rank};
use serde::{Deserialize, Serialize};

/// An out-of-memory as it was read.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OomReport {
    /// Who ran out of memory.
    pub kind: OomKind,
    /// Whether it ended the program, as far as the text shows.
    pub outcome: OomOutcome,
    /// The line's number in the stream, from 1.
    pub line: u64,
    /// The rank that printed it, where a prefix says one.
    pub rank: Option<Rank>,
    /// CUDA's ordinal, where the text has it.
    pub device: Option<u32>,
    /// "Tried to allocate": the segment asked of the driver, not the tensor.
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
    /// A cap set by the program ("allowed").
    pub limit: Option<Bytes>,
    /// Of the allocated, in private pools (CUDA graphs).
    pub private_pools: Option<Bytes>,
    /// Other processes on the device.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<OtherProcess>,
}

impl OomReport {
    /// Its figures of memory.
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

/// Another process that the text names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherProcess {
    /// Its id, as NVML told PyTorch (in a container it may be the run itself).
    pub pid: Pid,
    /// Its memory on the device.
    pub used: Option<Bytes>,
}

/// Whether an out-of-memory ended the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OomOutcome {
    /// It did.
    Fatal,
    /// The program went on.
    Caught,
    /// The text does not tell.
    #[default]
    Unknown,
}
