//! What DeepSpeed's ZeRO held when memory ran out, by its own buffers.

use crate::units::Bytes;
use serde::{Deserialize, Serialize};

/// One process's, on the device that ran out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ZeroLedger {
    /// 1 to 3.
    pub stage: u8,
    /// Ranks among which the parts are divided.
    pub world: u32,
    /// Parameters as the model computes with them: all of them below stage 3, there a shard.
    pub parameters: Bytes,
    /// All of them, where each rank has a shard; else as many as above.
    pub whole: Bytes,
    /// Parameters that are gathered at this moment (stage 3).
    pub gathered: Bytes,
    /// The copy in 32 bits that the optimizer steps, divided among the ranks.
    pub master: Bytes,
    pub gradients: Bytes,
    /// The optimizer's state, divided among the ranks.
    pub state: Bytes,
    /// Gradients on their way to other ranks.
    pub buckets: Bytes,
    /// Elements of a bucket (`reduce_bucket_size`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bucket_elements: Option<u64>,
    /// Whether copy and state are in RAM.
    pub offloads_optimizer: bool,
    /// Whether the parameters are (stage 3).
    pub offloads_parameters: bool,
}

impl ZeroLedger {
    /// Its parts with their names, as DeepSpeed's users call them.
    pub fn parts(&self) -> [(&'static str, Bytes); 6] {
        let parameters = match self.stage {
            3 => "parameter shards",
            _ => "parameters",
        };
        [
            (parameters, self.parameters),
            ("gathered", self.gathered),
            ("fp32 copy", self.master),
            ("optimizer state", self.state),
            ("gradients", self.gradients),
            ("ZeRO's buckets", self.buckets),
        ]
    }

    pub fn total(&self) -> Bytes {
        self.parts().into_iter().map(|(_, bytes)| bytes).sum()
    }
}
