//! A step of the training as seen by PyTorch's allocator: each allocation and free, its phase, and
//! the line that allocated each block.

use super::{MemoryKind, Phase, SourceLine};
use crate::units::{Bytes, Pid};
use serde::{Deserialize, Serialize};

/// A traced step. The probe sends the third step, occasional later ones, and the one that ran out
/// of memory if it was traced.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StepTrace {
    pub pid: Pid,
    /// The device's index in that process.
    pub device: u32,
    /// Counted from 1.
    pub step: u64,
    /// Whether it ran out of memory, and ends there.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
    /// The blocks alive at its start, and its events (`forecast::trace`).
    pub trace: String,
    /// Where each phase begins, by the number of its first event.
    pub phases: Vec<PhaseStart>,
    pub origins: Vec<BlockOrigin>,
    /// The origin of each block, first those alive at the start: `2*40 0 1` means forty of the
    /// second origin, one of unknown origin and one of the first.
    pub blocks: String,
    /// The names of modules: `transformer.h.3.mlp`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub modules: Vec<String>,
    /// The module of each block, written like `blocks`; empty if no module is known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub block_modules: String,
}

impl StepTrace {
    /// The most that was allocated at any time; zero where the trace cannot be read.
    pub fn peak(&self) -> Bytes {
        let (mut sizes, mut now, mut most) = (Vec::new(), 0_u64, 0);
        for word in self.trace.split_ascii_whitespace() {
            if let Some(back) = word.strip_prefix('-') {
                let place = back.parse().ok();
                let place = place.and_then(|back: usize| sizes.len().checked_sub(back));
                let freed = place.and_then(|place| sizes.get(place));
                now = now.saturating_sub(freed.copied().unwrap_or(0));
            } else if let Ok(size) = word.split('@').next().unwrap_or_default().parse() {
                sizes.push(size);
                now = now.saturating_add(size);
            }
            most = now.max(most);
        }
        Bytes(most)
    }
}

/// Where a phase begins in a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PhaseStart {
    pub phase: Phase,
    /// The number of its first event, from 0.
    pub from: usize,
}

/// What allocated a block, and what it contains, as far as is known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct BlockOrigin {
    /// The program's own line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<SourceLine>,
    /// The library's line that it called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inside: Option<SourceLine>,
    /// What an optimizer knows it to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<MemoryKind>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_that_of_all_blocks_alive_at_once() {
        let peak = |trace: &str| {
            let step = StepTrace {
                trace: trace.into(),
                ..StepTrace::default()
            };
            step.peak()
        };
        // 12 alive at first, 112 with the next, 102 without the first, 202.
        assert_eq!(peak("10 2 | 100 -3 100@1 -1 empty"), Bytes(202));
        assert_eq!(peak("10 | -1"), Bytes(10));
        assert_eq!(peak("no such -9 -x | thing"), Bytes::ZERO);
    }
}
