//! Recognizes what a command runs, and where its batch, precision and other settings are.
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
pub(crate) mod launcher;
pub(crate) mod program;
pub(crate) mod recognized;
pub(crate) mod spellings;
mod standard_input;
pub(crate) mod variable;
mod workload;

pub use argument::ArgumentForm;
pub use batch::Batch;
pub use checkpoint::Wanted;
pub(crate) use checkpoint::directory;
pub use environment::{Checkpoint, ConfigFile, LaunchEnvironment, environment_read};
pub use file::NamedFile;
pub use launcher::{CommandLayout, EnvPropagation, Launcher, ProgramKind};
pub use program::{Catalogue, ProgramEntry, Scope};
pub use recognized::{Reach, Recognized};
pub use standard_input::reads_standard_input;
pub use workload::WorkloadKey;
