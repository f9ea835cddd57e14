//! Out-of-memory in text: a scanner over a byte stream, one file per family of wording.

mod report;

pub use report::{Kind, OtherProcess, Outcome, Report};
