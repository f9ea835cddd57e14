//! Recognises what a command runs, and where its batch, precision and other settings are.
//!
//! A command is split into launchers and program (`launcher`). The program is looked up among known
//! ones (`program`, `programs.toml`) or read by common spellings (`family`). Its settings are then
//! found among its arguments (`argument`), in its environment or in its config files (`file`). No
//! I/O: what the disk and the environment say is passed in ([`LaunchEnvironment`]).

pub mod alloc_conf;
pub(crate) mod argument;
pub(crate) mod batch;
mod checkpoint;
mod environment;
pub(crate) mod family;
pub(crate) mod file;
mod job;
pub(crate) mod launcher;
pub(crate) mod program;
mod reach;
mod reading;
pub(crate) mod recognition;
pub(crate) mod spellings;
mod standard_input;
pub(crate) mod variable;

pub use argument::ArgumentForm;
pub use batch::{Batch, batch_of};
pub(crate) use checkpoint::directory;
pub use checkpoint::{Wanted, wanted as checkpoints_wanted};
pub use environment::{Checkpoint, ConfigFile, LaunchEnvironment, environment_read};
pub use file::{NamedFile, named_files};
pub use launcher::{Anatomy, Launcher, Passage, ProgramKind};
pub use program::{Catalogue, ProgramEntry, Scope};
pub use reach::{Reach, reach};
pub use reading::Reading;
pub use recognition::{Recognised, recognise};
pub use standard_input::reads_standard_input;
