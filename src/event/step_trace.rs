//! One step of the training as PyTorch's allocator saw it: each allocation and free, the phase that
//! it belongs to, and the line that allocated each block.

use super::{MemoryKind, Phase, SourceLine};
use crate::units::Pid;
use serde::{Deserialize, Serialize};

/// A traced step. The probe sends the third one, one now and then after it, and the one that ran out
/// of memory if it was traced.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StepTrace {
    /// Which process.
    pub pid: Pid,
    /// The device's ordinal in that process.
    pub device: u32,
    /// Which step, from 1.
    pub step: u64,
    /// Whether memory ran out in it: then it ends there.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
    /// What was alive at its beginning, and its events (`forecast::trace`).
    pub trace: String,
    /// Where each phase begins, by the number of its first event.
    pub phases: Vec<PhaseStart>,
    /// Where blocks come from.
    pub origins: Vec<BlockOrigin>,
    /// For each block, those alive at the beginning first, its origin: `2*40 0 1` are forty of the
    /// second, one of unknown origin and one of the first.
    pub blocks: String,
}

/// Where a phase begins in a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PhaseStart {
    pub phase: Phase,
    /// The number of its first event, from 0.
    pub from: usize,
}

/// What allocated a block, and what it holds, as far as either is known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct BlockOrigin {
    /// The program's own line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<SourceLine>,
    /// The library's line below it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inside: Option<SourceLine>,
    /// What an optimizer knows it as.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<MemoryKind>,
}
