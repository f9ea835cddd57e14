//! Out-of-memory in text: a scanner over a byte stream.
//!
//! [`Scanner`] reads a live stream, [`Transcript`] a whole text, whose end tells the outcomes. What
//! is recognised is one table, `wordings.toml`: a new wording is a row of it. What stands around a
//! message is in `phrases.toml`.
//!
//! ```text
//! bytes ─ lines ──── sanitize ─ prefix ─ messages ─ dedup ─ reports
//!         prefilter  (escapes)  (ranks)  joins wrapped lines
//!           │                              │
//!           └──────── wordings.toml ───────┴ table, template; allocator · mps · nccl · tensor
//! ```

mod aftermath;
mod allocator;
mod compact;
mod dedup;
#[cfg(test)]
mod fixture;
mod kind;
mod lines;
mod messages;
mod mps;
mod nccl;
mod phrases;
mod prefilter;
mod prefix;
mod report;
mod sanitize;
mod scanner;
mod table;
mod template;
mod tensor;
mod transcript;
mod wording;

pub use kind::{OomKind, OomKindSpec, OomSource};
pub(crate) use lines::{LineReader, LineSplitter, RawLine};
pub(crate) use prefix::pieces;
pub use report::{OomOutcome, OomReport, OtherProcess};
pub use scanner::Scanner;
pub use transcript::{Transcript, read};
