//! The state as text, for users who are not in front of the terminal.

mod ended;
pub mod explain;
mod text;

pub use ended::summary;
pub use text::diagnosis;
