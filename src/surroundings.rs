//! What is known of a command from disk, without running any of it.
//!
//! The modules without I/O use what is read here. What can't be found out is `None`, never a guess;
//! the remedies then say that they don't know.

mod checkpoints;
mod config_files;
mod interpreter;
mod source_lines;
mod torch;

pub use checkpoints::{CheckpointPath, CheckpointSearch, newest_checkpoint};
pub use config_files::config_text;
pub use interpreter::{Starter, interpreter};
pub use source_lines::source_lines;
pub use torch::{TorchBuild, python_version, torch_build, torch_directory, torch_version};
