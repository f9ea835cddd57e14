//! What a rule answers: a cause, how sure, the evidence, what follows.

use crate::units::{Bytes, Pid, Rank, Uuid};
use serde::Serialize;

/// Why memory ran out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// What is allocated and what was asked for do not fit together on the device.
    Capacity,
    /// The optimizer's state, allocated in its first step, does not fit.
    OptimizerState,
    /// Enough lies unallocated in PyTorch's cache, but in pieces that are too small.
    Fragmentation,
    /// Another process holds the device's memory.
    ForeignProcess,
    /// A cap set by the program or its environment.
    Limit,
    /// Memory that stays from step to step.
    Leak,
    /// An evaluation that builds the graph.
    EvaluationGraph,
    /// One batch larger than the others.
    OddBatch,
    /// Memory of this process outside PyTorch's allocator.
    NonPytorch,
    /// The allocator gives its cache back again and again.
    Thrashing,
    /// The host's memory, not the device's.
    HostMemory,
    /// The device itself failed.
    DeviceFault,
}

/// How sure a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// It may be.
    Possible,
    /// The numbers point to it.
    Likely,
    /// The numbers leave nothing else.
    Certain,
}

/// One number that a finding rests on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// What it is, in the words of the house: "allocated", "requested", "largest free piece".
    pub what: String,
    /// How much.
    pub bytes: Bytes,
}

/// A cause found, with what it rests on and what follows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// The cause.
    pub cause: Cause,
    /// How sure.
    pub certainty: Certainty,
    /// The cause in one line, numbers included: the dialog's first line.
    pub headline: String,
    /// One or two sentences more: what was ruled out, what follows.
    pub explanation: String,
    /// The numbers.
    pub evidence: Vec<Evidence>,
    /// What to do in words, the most useful first, where oomph cannot do it.
    pub advice: Vec<String>,
    /// The device.
    pub device: Option<Uuid>,
    /// The rank.
    pub rank: Option<Rank>,
    /// The other process, for [`Cause::ForeignProcess`].
    pub foreign: Option<Pid>,
}
