//! The machine's memory as a whole: what is left of it, its swap, and /dev/shm.

use super::cgroup::pressure;
use super::files::{KeptFile, value_of};
use crate::event::ShmUse;
use crate::units::Bytes;
use nix::sys::statvfs::statvfs;
use std::path::{Path, PathBuf};

/// Where the machine says it.
#[derive(Debug)]
pub(super) struct Machine {
    meminfo: KeptFile,
    loadavg: KeptFile,
    vmstat: KeptFile,
    pressure: KeptFile,
    shm: PathBuf,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct MachineUse {
    pub total: Bytes,
    /// What is not available to programs.
    pub used: Bytes,
    pub cache: Option<Bytes>,
    pub shared: Option<Bytes>,
    pub swap: Option<Bytes>,
}

impl Machine {
    pub fn of(system: &Path) -> Machine {
        Machine {
            meminfo: KeptFile::list(system.join("proc/meminfo")),
            loadavg: KeptFile::new(system.join("proc/loadavg")),
            vmstat: KeptFile::list(system.join("proc/vmstat")),
            pressure: KeptFile::new(system.join("proc/pressure/memory")),
            shm: system.join("dev/shm"),
        }
    }

    pub fn used(&mut self) -> Option<MachineUse> {
        MachineUse::parse(self.meminfo.read()?)
    }

    /// How many processes of the whole machine the kernel has killed for memory.
    pub fn kills(&mut self) -> Option<u64> {
        value_of(self.vmstat.read()?, "oom_kill")
    }

    pub fn pressure(&mut self) -> Option<u32> {
        pressure(self.pressure.read()?)
    }

    /// The process that was started last: while it stays the same, there are no new ones.
    pub fn last_pid(&mut self) -> Option<u64> {
        let text = self.loadavg.read()?;
        text.split_ascii_whitespace().last()?.parse().ok()
    }

    pub fn shm(&self) -> Option<ShmUse> {
        let found = statvfs(&self.shm).ok()?;
        let unit = found.fragment_size();
        let bytes = |blocks: u64| Bytes(blocks.saturating_mul(unit));
        Some(ShmUse {
            used: bytes(found.blocks()) - bytes(found.blocks_free()),
            size: bytes(found.blocks()),
        })
        .filter(|shm| shm.size > Bytes::ZERO)
    }
}

impl MachineUse {
    fn parse(text: &str) -> Option<MachineUse> {
        let value = |name| value_of(text, name).map(|kib| Bytes(kib << 10));
        let total = value("MemTotal")?;
        let shared = value("Shmem");
        // Kernels before 3.14 do not say what is available.
        let free = value("MemAvailable")
            .or_else(|| Some(value("MemFree")? + value("Cached")? - shared.unwrap_or_default()))?;
        Some(MachineUse {
            total,
            used: total - free,
            cache: value("Cached").map(|cached| cached - shared.unwrap_or_default()),
            shared,
            swap: value("SwapTotal").and_then(|all| Some(all - value("SwapFree")?)),
        })
    }
}
