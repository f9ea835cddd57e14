//! A step of the training as seen by PyTorch's allocator: each allocation and free, its phase, and
//! the line that allocated each block.

use super::{MemoryKind, Phase, SourceLine};
use crate::units::Pid;
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
