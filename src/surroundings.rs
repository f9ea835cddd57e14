//! What the disk knows of a command, without running anything of it.
//!
//! The pure parts of the house decide on what is read here. A thing that cannot be found out is
//! `None`, never a guess: the remedies then say that they do not know.

mod checkpoints;
mod config_files;
mod interpreter;
mod torch;

pub use checkpoints::{CheckpointPath, CheckpointSearch, newest_checkpoint};
pub use config_files::config_text;
pub use interpreter::{Starter, interpreter};
pub use torch::torch_version;
