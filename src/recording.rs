//! Recordings: where they are, how they are written and read.
//!
//! A session is one invocation of oomph. Its recording has every event, one JSON object per line,
//! from which a replay, a report or a new front rebuilds the same state. `limits` decides what is
//! kept in full and what is thinned out, and how large it may become. This knows files and
//! events, not what follows from an event.

mod base_dirs;
mod directories;
mod elsewhere;
mod following;
mod journal;
mod limits;
mod outline;
mod output_log;
mod read;
mod recorder;
mod replaced_file;
mod sessions;
mod spool_directory;

pub use base_dirs::{BaseDir, BaseDirs, is_safe_to_load, open_own, place_below_home};
pub use directories::{Directories, Examined, examine};
pub use elsewhere::{Presence, RemoteSession, clear_dead, elsewhere};
pub use following::GrowingRecording;
pub use limits::{Limits, Share};
pub use outline::{header, outline};
pub use output_log::{NAMED_LOG, OutputLog, last_logged, log_beside};
pub use read::{Events, ReadError, open_regular, open_stored, read};
pub use recorder::{Claimed, Recorder, RecorderOptions};
pub use replaced_file::ReplacedFile;
pub use sessions::{FoundSession, Life, PidScope, SessionFile, Stored, find, latest, list};
pub use spool_directory::{SpoolPlace, clear_dead_spools, make_spool, shared_file_system};

/// The recording's file name in a session's directory.
pub const RECORDING: &str = "events.jsonl";

/// The file name of the output log in a session's directory.
pub const OUTPUT_LOG: &str = "output.log";

/// The probe's socket in a session's private directory.
pub const PROBE_SOCKET: &str = "probe.sock";

/// The keeper's socket in a session's private directory.
pub const KEEPER_SOCKET: &str = "keeper.sock";

#[cfg(test)]
mod tests;
