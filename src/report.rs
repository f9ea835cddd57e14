//! The state as text, for users who are not in front of the terminal.

pub mod explain;
mod text;

pub use text::{diagnosis, summary};
