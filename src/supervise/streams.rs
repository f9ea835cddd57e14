//! The trainer's output streams, as front and keeper name them.

use serde::{Deserialize, Serialize};

/// Where a byte of output came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputStream {
    /// The trainer's terminal: stdout and stderr in the order in which they were written.
    Terminal,
    /// Its stdout if that is a pipe or file, and its stderr if that is the same one.
    Out,
    /// Its stderr if that is a pipe or file of its own.
    Err,
}

impl OutputStream {
    pub(super) const ALL: [OutputStream; 3] =
        [OutputStream::Terminal, OutputStream::Out, OutputStream::Err];
}

/// What the keeper put in place of the user's own streams.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrainerStreams {
    /// Whether there is a pseudo-terminal, which hangs up when the keeper dies.
    pub terminal: bool,
    /// Pipes, by the keeper's descriptor number of the reading end.
    pub pipes: Vec<(OutputStream, i32)>,
}
