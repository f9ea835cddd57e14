//! What a relaunch was predicted to need when it was chosen, and what came of it.

use crate::units::{Bytes, RunNumber};
use serde::{Deserialize, Serialize};

/// What a figure rests on: each one that is shown says it in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// Steps that were seen whole, of this batch or another.
    Measured,
    /// The failed step's allocations, computed without running it.
    Rehearsed,
    /// What a remedy did to other trainings.
    Estimated,
}

impl Basis {
    /// In one word.
    pub fn word(self) -> &'static str {
        match self {
            Basis::Measured => "measured",
            Basis::Rehearsed => "rehearsed",
            Basis::Estimated => "estimated",
        }
    }
}

/// Of a run, before it started.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Prediction {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basis: Option<Basis>,
    /// The peak of allocated memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak: Option<Bytes>,
    /// The memory that the allocator must be able to reserve, and between what it lies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs: Option<Bytes>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<(Bytes, Bytes)>,
    /// The memory that was available to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub room: Option<Bytes>,
    /// Whether it would fit, where that was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fits: Option<bool>,
}

/// How a run that was predicted has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunEnd {
    Finished,
    OutOfMemory,
    Stopped,
    Failed,
}

/// What came of a prediction, once its run has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PredictionOutcome {
    pub run: RunNumber,
    pub end: RunEnd,
    /// Optimizer steps that ended.
    pub steps: u64,
    /// The peak of allocated memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak: Option<Bytes>,
    /// The most that the allocator had reserved: what it needed, and what it kept as a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved: Option<Bytes>,
}
