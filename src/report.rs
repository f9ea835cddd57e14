//! The same state for people who are not in front of the terminal: text.

mod text;

pub use text::{diagnosis, summary};
