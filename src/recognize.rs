//! Recognizes what a command runs, and where its batch, precision and other settings are.
//!
//! [`Recognized::new`] splits a command into launchers and program (`layout`) and looks the program up
//! among known ones (`program`, `programs.toml`); one without an entry is read by common spellings
//! (`family`). Settings are then found among its arguments (`argument`), in its environment or in its
//! config files (`config_file`); before anything ran, in the program's own text (`text`). No I/O: what the
//! disk and the environment say is passed in ([`LaunchEnvironment`]).

pub mod alloc_conf;
pub(crate) mod argument;
pub(crate) mod batch;
mod batch_source;
mod checkpoint;
pub(crate) mod config_file;
mod config_formats;
pub(crate) mod family;
mod file_settings;
mod hocon;
mod host_view;
pub(crate) mod knob;
mod launch;
mod launcher_grammar;
pub(crate) mod layout;
mod learned;
mod learning_rate_rule;
mod loader_setting;
pub(crate) mod memory_limit;
mod overrides;
mod per_device;
pub(crate) mod program;
mod program_settings;
mod python_config;
mod python_number;
mod python_options;
pub(crate) mod recognized;
mod shell_script;
mod source_tokens;
pub(crate) mod spellings;
pub(crate) mod text;
mod unknown_program;
mod workload;

pub use argument::ArgumentForm;
pub use batch::Batch;
pub use checkpoint::Wanted;
pub(crate) use checkpoint::directory;
pub use config_file::{NamedFile, named_bases};
pub use host_view::{HostView, host_view};
pub use launch::{
    BaseFile, BaseFiles, Checkpoint, ConfigFile, LaunchEnvironment, environment_read,
};
pub use layout::{CommandLayout, EnvPropagation, Launcher, ProgramKind, reads_standard_input};
pub use learned::{KnobEffect, KnobPlace, LearnedKnob};
pub use program::{Catalogue, ProgramEntry};
pub use program_settings::Scope;
pub(crate) use python_number::written_numbers;
pub use recognized::{Reach, Recognized};
pub use shell_script::{ScriptCommand, script_commands};
pub use text::{BatchFinding, BatchRules, BatchSpot, HowSure, ProgramText, SpotKind};
pub use workload::WorkloadKey;
