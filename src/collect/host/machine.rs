//! The machine's memory as a whole: what is left of it, its swap, and /dev/shm.

use super::cgroup::pressure;
use super::files::{read_small, value_of};
use crate::event::ShmUse;
use crate::units::Bytes;
use nix::sys::statvfs::statvfs;
use std::path::Path;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct MachineUse {
    pub total: Bytes,
    /// What is not available to programs.
    pub used: Bytes,
    pub cache: Option<Bytes>,
    pub shared: Option<Bytes>,
    pub swap: Option<Bytes>,
}

impl MachineUse {
    pub fn read(system: &Path) -> Option<MachineUse> {
        MachineUse::parse(&read_small(&system.join("proc/meminfo"))?)
    }

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

/// How many processes of the whole machine the kernel has killed for memory.
pub(super) fn kills(system: &Path) -> Option<u64> {
    value_of(&read_small(&system.join("proc/vmstat"))?, "oom_kill")
}

pub(super) fn pressure_of(system: &Path) -> Option<u32> {
    pressure(&read_small(&system.join("proc/pressure/memory"))?)
}

/// The process that was started last: while it stays the same, there are no new ones.
pub(super) fn last_pid(system: &Path) -> Option<u64> {
    let text = read_small(&system.join("proc/loadavg"))?;
    text.split_ascii_whitespace().last()?.parse().ok()
}

pub(super) fn shm(system: &Path) -> Option<ShmUse> {
    let found = statvfs(&system.join("dev/shm")).ok()?;
    let unit = found.fragment_size();
    let bytes = |blocks: u64| Bytes(blocks.saturating_mul(unit));
    Some(ShmUse {
        used: bytes(found.blocks()) - bytes(found.blocks_free()),
        size: bytes(found.blocks()),
    })
    .filter(|shm| shm.size > Bytes::ZERO)
}
