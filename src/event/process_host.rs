//! What a process of the training says of its use of the host's memory: how its DataLoaders are set, where it grows, and what it
//! has pinned. Also the wire format of the probe.

use crate::event::SourceLine;
use crate::units::{Bytes, Pid};
use serde::{Deserialize, Serialize};

/// What is new of it; the rest is as it was told before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessHost {
    pub pid: Pid,
    /// All of its DataLoaders that have had workers, if any of them is new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loaders: Option<Vec<LoaderSettings>>,
    /// It is larger than ever, and got there within seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub growth: Option<HostGrowthSpot>,
    /// What torch's allocator of pinned memory holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned: Option<Bytes>,
}

/// A DataLoader with workers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoaderSettings {
    pub workers: u32,
    /// Batches that each worker fetches in advance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefetch: Option<u32>,
    /// Samples in a batch, where the loader itself makes them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<u64>,
    pub pin_memory: bool,
    /// Whether its workers stay from one epoch to the next.
    pub persistent: bool,
    /// Whether the data is divided by the number of workers.
    pub iterable: bool,
    /// Its latest workers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pids: Vec<Pid>,
}

impl LoaderSettings {
    /// Batches that may wait at a time.
    pub fn waiting(&self) -> u64 {
        u64::from(self.workers) * u64::from(self.prefetch.unwrap_or(2))
    }
}

/// Where a process grew fast.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostGrowthSpot {
    /// Without files and shared memory.
    pub held: Bytes,
    pub grew: Bytes,
    pub over_ms: u64,
    /// The line in the program's own code, and the library's that it called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<SourceLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inside: Option<SourceLine>,
    /// What is done there, by the names of the functions that were running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doing: Option<HostActivity>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostActivity {
    /// A checkpoint or a model is saved, or gathered for that.
    Checkpoint,
    Evaluation,
    #[serde(other)]
    Other,
}
