//! A run of an earlier session: what one command took, to the letter, where the same command is to be started again.

use crate::command::CommandLine;
use crate::units::Bytes;

/// A run of another session of the same program, whose text has not changed since.
#[derive(Debug, Clone, PartialEq)]
pub struct EarlierRun {
    /// Without secrets.
    pub command: CommandLine,
    /// The session's name.
    pub session: String,
    /// Steps that ended.
    pub steps: u64,
    pub outcome: EarlierOutcome,
    /// The capacity of the GPU that it ran on.
    pub capacity: Bytes,
}

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EarlierOutcome {
    /// It made steps, and memory did not run out: the most that was allocated and reserved.
    Trained {
        allocated: Bytes,
        reserved: Bytes,
    },
    RanOut,
}

/// GPUs of one kind differ by what the driver keeps.
const SAME_GPU: f64 = 0.01;

impl EarlierRun {
    /// Whether it was of this command, on a GPU of this size.
    pub fn is_of(&self, command: &CommandLine, capacity: Bytes) -> bool {
        let apart = self.capacity.max(capacity) - self.capacity.min(capacity);
        apart <= capacity.scale(SAME_GPU) && self.command == *command
    }
}
