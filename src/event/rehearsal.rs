//! The rehearsal of a training step: the memory that it would allocate and free, computed on fake
//! tensors inside the process that ran out of memory.

use super::Phase;
use crate::units::{Bytes, Pid};
use serde::{Deserialize, Serialize};

/// The rehearsal of the step that ran out of memory.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rehearsal {
    pub pid: Pid,
    /// The device's index in that process.
    pub device: u32,
    /// Where memory ran out.
    pub phase: Phase,
    /// The duration of the rehearsals, in microseconds.
    pub micros: u64,
    /// Samples in the call of the model.
    pub batch: u64,
    /// Allocated when the model was called: its parameters, its arguments and everything else.
    pub before: Bytes,
    /// The part of that in the call's arguments.
    pub arguments: Bytes,
    /// Sizes of the model's parameters and buffers on the device, in bytes.
    pub weights: Vec<u64>,
    /// Sizes of the trained ones.
    pub trained: Vec<u64>,
    /// How the optimizer will use memory, if one was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimizer: Option<OptimizerMemory>,
    /// How the inputs of the model's calls differed in size up to then, if they did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inputs: Option<InputSizes>,
    /// Whether the model returned its own loss; otherwise the usual one is assumed.
    pub own_loss: bool,
    /// Whether the model has convolutions, whose workspaces are not part of a rehearsal.
    pub convolutions: bool,
    /// The step as it was, and with changes.
    pub variants: Vec<RehearsedVariant>,
    /// Why there are no variants.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
}

impl Rehearsal {
    /// Why the step as it was could not be rehearsed, if so.
    pub fn why_not(&self) -> Option<&str> {
        let plain = self.variants.first();
        match plain {
            Some(plain) if plain.trace.is_some() => None,
            Some(plain) => plain.why_not.as_deref(),
            None => self.why_not.as_deref(),
        }
    }
}

/// The sizes of a model's inputs, in elements for each sample: texts of random lengths differ from
/// call to call, and a later one may be larger than all before it. The largest is what was rehearsed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct InputSizes {
    /// The number of calls that were seen.
    pub calls: u64,
    pub least: u64,
    pub most: u64,
    /// The most that the model takes, where texts are as long as they happen to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub possible: Option<u64>,
}

/// How an optimizer uses memory, from its class and settings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OptimizerMemory {
    pub class: String,
    /// State tensors per trained parameter, of the parameter's size; `None` for an unknown class.
    pub states: Option<u32>,
    /// Whether the state is already allocated.
    pub has_state: bool,
    /// Whether its step makes temporaries of all parameters at once (`foreach`).
    pub foreach: bool,
}

/// One way of running the step.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RehearsedVariant {
    /// With activation checkpointing of the repeated blocks.
    pub checkpointing: bool,
    /// Under bf16 autocast.
    pub amp: bool,
    /// The trace, with sizes as functions of the batch (`forecast::trace`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// The number of its events in the forward pass.
    pub forward: usize,
    /// Floating-point operations of forward and backward, all variants at one batch; 0 where they
    /// were not counted.
    pub flops: u64,
    /// Why it could not be rehearsed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
}

impl InputSizes {
    /// Whether calls differed.
    pub fn differ(&self) -> bool {
        self.calls > 1 && self.least < self.most
    }

    /// By what share a later one may be larger than the largest seen; zero where none is to be expected.
    /// Of the range of those seen `ranges` parts of (calls − 1) are allowed for, at most the whole, and no
    /// more than the model takes.
    pub fn beyond(&self, ranges: f64) -> f64 {
        let most = self.most.max(1) as f64;
        let possible = self
            .possible
            .map(|size| (size as f64 / most - 1.0).max(0.0));
        if !self.differ() {
            return possible.unwrap_or(0.0);
        }
        let range = (self.most - self.least) as f64 / most;
        let likely = range * (ranges / (self.calls - 1) as f64).min(1.0);
        possible.map_or(likely, |possible| likely.min(possible))
    }
}
