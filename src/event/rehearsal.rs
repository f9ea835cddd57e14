//! What a rehearsal of one training step says: which memory it would allocate and free, computed on
//! fake tensors inside the process that ran out of memory.

use super::Phase;
use crate::units::{Bytes, Pid};
use serde::{Deserialize, Serialize};

/// The step that memory ran out in, rehearsed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rehearsal {
    /// Which process.
    pub pid: Pid,
    /// The device's ordinal in that process.
    pub device: u32,
    /// Where memory ran out.
    pub phase: Phase,
    /// How long the rehearsals took, in microseconds.
    pub micros: u64,
    /// Samples in the call of the model.
    pub batch: u64,
    /// Allocated when the model was called: its parameters, its arguments and all else.
    pub before: Bytes,
    /// Of that, the call's arguments.
    pub arguments: Bytes,
    /// Sizes of the model's parameters and buffers on the device, in bytes.
    pub weights: Vec<u64>,
    /// Sizes of those that are trained.
    pub trained: Vec<u64>,
    /// How the optimizer will use memory, where one was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimizer: Option<OptimizerMemory>,
    /// Whether the model returned its own loss; where not, the usual one was assumed.
    pub own_loss: bool,
    /// Whether the model has convolutions, whose workspaces a rehearsal does not see.
    pub convolutions: bool,
    /// The step as it was, and with changes.
    pub variants: Vec<RehearsedVariant>,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
}

impl Rehearsal {
    /// Why the step as it was could not be rehearsed; `None` where it was.
    pub fn why_not(&self) -> Option<&str> {
        let plain = self.variants.first();
        match plain {
            Some(plain) if plain.trace.is_some() => None,
            Some(plain) => plain.why_not.as_deref(),
            None => self.why_not.as_deref(),
        }
    }
}

/// How an optimizer uses memory, by its class and settings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OptimizerMemory {
    /// Its class.
    pub class: String,
    /// State tensors of each trained parameter's size; `None` where the class is not known.
    pub states: Option<u32>,
    /// Whether the state is there already.
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
    /// The trace, sizes as functions of the batch (`forecast::trace`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// How many of its events belong to the forward pass.
    pub forward: usize,
    /// Why it could not be rehearsed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
}
