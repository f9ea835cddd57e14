//! Recordings: where they lie, how they are written, how they are read back.
//!
//! A session is one invocation of oomph; its recording is every event of it, one JSON object a line,
//! from which a replay, a report or a new front rebuilds the same state. What is exact and what is
//! thinned is decided in `fidelity`, what it may cost in `limits`. This module knows files and
//! events; what follows from an event it does not know.

mod alive;
mod allowance;
mod base_dirs;
mod bucket;
mod catalog;
mod directories;
mod fidelity;
mod index;
mod journal;
mod limits;
mod line;
mod private;
mod read;
mod recent;
mod recorder;
mod recording_file;
mod tame;

pub use alive::{FoundSession, Life, PidScope, SessionFile, clear_dead, find};
pub use allowance::Share;
pub use base_dirs::{BaseDir, BaseDirs};
pub use catalog::{Stored, latest, list};
pub use directories::Directories;
pub use limits::Limits;
pub use read::{Events, ReadError, read};
pub use recorder::{Recorder, RecorderOptions};

/// The recording's name in a session's directory.
pub const RECORDING: &str = "events.jsonl";

/// The name of the keeper's log of the output in a session's directory.
pub const OUTPUT_LOG: &str = "output.log";

/// The name of the probe's socket in a session's private directory.
pub const PROBE_SOCKET: &str = "probe.sock";

/// The name of the keeper's socket there.
pub const KEEPER_SOCKET: &str = "keeper.sock";

#[cfg(test)]
mod tests;
