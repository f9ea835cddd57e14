//! The same state for people who are not in front of the terminal: text.

pub mod explain;
mod text;

pub use text::{diagnosis, summary};
