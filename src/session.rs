//! Recordings: where they are, how they are written and read.
//!
//! A session is one invocation of oomph. Its recording has every event, one JSON object per line,
//! from which a replay, a report or a new front rebuilds the same state. `fidelity` decides what is
//! kept in full and what is thinned out, `limits` how large it may become. This knows files and
//! events, not what follows from an event.

mod alive;
mod allowance;
mod base_dirs;
mod bucket;
mod catalog;
mod clearing;
mod directories;
mod elsewhere;
mod examine;
mod fidelity;
mod following;
mod journal;
mod limits;
mod line;
mod lines;
mod open_regular;
mod outline;
mod output_log;
mod presence;
mod private;
mod read;
mod recent;
mod recorder;
mod recording_file;
mod replaced_file;
mod server_time;
mod spool_directory;
mod strip_controls;

pub use alive::{FoundSession, Life, PidScope, SessionFile, find};
pub use allowance::Share;
pub use base_dirs::{BaseDir, BaseDirs};
pub use catalog::{Stored, latest, list};
pub use clearing::clear_dead;
pub use directories::Directories;
pub use elsewhere::{RemoteSession, elsewhere};
pub use examine::{Examined, examine};
pub use following::GrowingRecording;
pub use limits::Limits;
pub use open_regular::open_regular;
pub use outline::{header, outline};
pub use output_log::{NAMED_LOG, OutputLog, last_logged, log_beside};
pub use presence::Presence;
pub use private::{is_safe_to_load, open_own, place_below_home};
pub use read::{Events, ReadError, read};
pub use recorder::{Claimed, Recorder, RecorderOptions};
pub use replaced_file::ReplacedFile;
pub use spool_directory::{SpoolPlace, clear_dead_spools, make_spool, shared_file_system};

/// The recording's file name in a session's directory.
pub const RECORDING: &str = "events.jsonl";

/// The file name of the output log in a session's directory.
pub const OUTPUT_LOG: &str = "output.log";

/// The probe's socket in a session's private directory.
pub const PROBE_SOCKET: &str = "probe.sock";

/// The keeper's socket in the same directory.
pub const KEEPER_SOCKET: &str = "keeper.sock";

#[cfg(test)]
mod tests;
