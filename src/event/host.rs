//! The host's memory: what a run's processes hold of it, what they may hold, and what the kernel killed for it.

use crate::units::{Bytes, Pid};
use serde::{Deserialize, Serialize};

/// A reading of the host's memory. What cannot be read is `None`, never zero.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostMemory {
    /// What counts against the limit and cannot simply be given back: without the cache of files.
    pub used: Bytes,
    /// Where the kernel starts to kill.
    pub limit: Bytes,
    pub limited_by: LimitedBy,
    /// All RAM of the machine, where that is another; told once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<Bytes>,
    /// The cache of files, which the kernel gives back when memory is short.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<Bytes>,
    /// Shared memory and tmpfs: /dev/shm, and tensors that workers pass on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared: Option<Bytes>,
    /// Of /dev/shm.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shm: Option<ShmUse>,
    /// What one batch takes of shared memory that a worker has fetched and nobody has taken yet; by the worker's open files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<Bytes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap: Option<Bytes>,
    /// The share of the last ten seconds in which some process waited for memory, in thousandths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pressure: Option<u32>,
    /// By role, largest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<RoleUse>,
    /// The largest processes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<HostProcess>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unseen: Vec<HostUnseen>,
    /// What the kernel had killed by then, where that is new: a front that was killed itself has said so before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kills: Option<KillCount>,
}

/// The kernel's counter of processes killed for memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KillCount {
    pub total: u64,
    /// Whether it counts all of the machine, or the run's own control group.
    pub of_machine: bool,
}

/// Whose limit it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitedBy {
    /// A control group without a name that says whose it is.
    Cgroup,
    Slurm,
    Container,
    Systemd,
    /// The machine has no more.
    #[default]
    #[serde(other)]
    Machine,
}

impl LimitedBy {
    /// "the SLURM job's limit"
    pub fn words(self) -> &'static str {
        match self {
            LimitedBy::Cgroup => "the cgroup's limit",
            LimitedBy::Slurm => "the SLURM job's limit",
            LimitedBy::Container => "the container's limit",
            LimitedBy::Systemd => "the systemd unit's limit",
            LimitedBy::Machine => "all RAM of this machine",
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShmUse {
    pub used: Bytes,
    pub size: Bytes,
}

/// What a process of the run is there for, by what its probe says, else by its command line and its parent.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum HostRole {
    /// The command itself, and programs that it starts.
    Main,
    /// Has initialised CUDA, as its probe says: a process that trains.
    Rank,
    /// Names itself a worker of a DataLoader.
    LoaderWorker,
    /// Forked from a Python program, or spawned by its multiprocessing: most often of a DataLoader.
    Worker,
    /// Compiles for torch.compile.
    CompileWorker,
    #[default]
    #[serde(other)]
    Other,
}

impl HostRole {
    /// Whether it loads data, as far as is known.
    pub fn is_worker(self) -> bool {
        matches!(self, HostRole::LoaderWorker | HostRole::Worker)
    }

    /// As in a recording.
    pub fn name(self) -> &'static str {
        match self {
            HostRole::Main => "main",
            HostRole::Rank => "rank",
            HostRole::LoaderWorker => "loader_worker",
            HostRole::Worker => "worker",
            HostRole::CompileWorker => "compile_worker",
            HostRole::Other => "other",
        }
    }

    /// For a column: at most 14 characters.
    pub fn label(self) -> &'static str {
        match self {
            HostRole::Main => "main",
            HostRole::Rank => "training",
            HostRole::LoaderWorker => "data worker",
            HostRole::Worker => "worker",
            HostRole::CompileWorker => "compile worker",
            HostRole::Other => "other",
        }
    }

    /// "4 data loader workers", "the main process"
    pub fn words(self, count: u32) -> String {
        let plural = if count == 1 { "" } else { "s" };
        match (self, count) {
            (HostRole::Main, 1) => "the main process".into(),
            (HostRole::Main, n) => format!("{n} processes of the program"),
            (HostRole::Rank, 1) => "the training process".into(),
            (HostRole::Rank, n) => format!("{n} training processes"),
            (HostRole::LoaderWorker, n) => format!("{n} data loader worker{plural}"),
            (HostRole::Worker, n) => {
                format!("{n} worker process{}", if n == 1 { "" } else { "es" })
            }
            (HostRole::CompileWorker, n) => format!("{n} compile worker{plural}"),
            (HostRole::Other, n) => format!("{n} other process{}", if n == 1 { "" } else { "es" }),
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RoleUse {
    pub role: HostRole,
    pub count: u32,
    /// Together; what processes share counts once if `exact`, else in each of them.
    pub held: Bytes,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub exact: bool,
    /// Together, with what they share counted in each.
    #[serde(skip_serializing_if = "is_nothing")]
    pub mapped: Bytes,
}

fn is_nothing(bytes: &Bytes) -> bool {
    *bytes == Bytes::ZERO
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostProcess {
    pub pid: Pid,
    pub role: HostRole,
    pub name: String,
    /// All of it, shared or not.
    pub resident: Bytes,
    /// The part of it that is files and shared memory.
    pub shared: Bytes,
    /// Its own part, where it is a fork or was looked at closely: what forks share with their parent counts as the parent's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own: Option<Bytes>,
    /// The part that is locked in RAM: pinned by the program itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locked: Option<Bytes>,
}

impl HostProcess {
    /// What it holds besides files and shared memory; an upper bound where it shares that with a parent.
    pub fn held(&self) -> Bytes {
        self.own.unwrap_or(self.resident - self.shared)
    }
}

/// What could not be read, so that nobody takes silence for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostUnseen {
    /// No file of a control group says a limit; there may be one above what a container shows.
    CgroupLimit,
    /// No file counts what the kernel killed.
    Kills,
    /// /proc does not show the run's processes.
    Processes,
    #[serde(other)]
    Unknown,
}

impl HostUnseen {
    pub fn words(self) -> &'static str {
        match self {
            HostUnseen::CgroupLimit => "no cgroup limit to be seen here",
            HostUnseen::Kills => "the kernel's count of killed processes is not readable here",
            HostUnseen::Processes => "/proc does not show the run's processes here",
            HostUnseen::Unknown => "something of the host's memory",
        }
    }
}

/// The kernel's counter of processes killed for memory has risen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostKill {
    /// By how much, and to what: of two with the same total the later one says more of the same.
    pub count: u64,
    pub total: u64,
    /// Whether it counts the run's own control group, or all of the machine.
    pub of_machine: bool,
    /// Processes of the run that ended since the look before, as they were then, largest first.
    pub gone: Vec<HostProcess>,
}
