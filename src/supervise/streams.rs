//! A trainer's streams, by their names between front and keeper.

use serde::{Deserialize, Serialize};

/// Where a byte of output came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputStream {
    /// The trainer's terminal, stdout and stderr in the order in which they were written.
    Terminal,
    /// Its stdout, where that is a pipe or file; stderr too where both are the same one.
    Out,
    /// Its stderr, where that is a pipe or file of its own.
    Err,
}

/// What the keeper gave a trainer for its streams, where it did not hand the user's own down.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrainerStreams {
    /// A terminal of the keeper's: it hangs up when the keeper dies.
    pub terminal: bool,
    /// Pipes, by the keeper's descriptor of the reading end.
    pub pipes: Vec<(OutputStream, i32)>,
}
