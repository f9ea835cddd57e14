//! The state for users who are not in front of the terminal: as text, as a page, for other programs.

pub mod anonymous;
mod changes;
pub mod comparison;
pub mod explain;
pub mod export;
pub mod markdown;
pub mod metrics;
pub mod page;
pub mod story;
mod text;

pub use text::{diagnosis, summary};
