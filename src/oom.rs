//! Finds out-of-memory messages in text.
//!
//! [`Scanner`] reads a live stream, [`Transcript`] a whole text, whose end tells the outcomes. The
//! recognized messages are the rows of `wordings.toml`; `phrases.toml` has what programs print
//! around them.
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
mod consequences;
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

pub use consequences::{ConsequenceKind, ConsequenceLines};
pub use kind::{OomKind, OomKindSpec, OomSource};
pub(crate) use lines::{LineReader, LineSplitter, RawLine};
pub(crate) use prefix::pieces;
pub use report::{OomOutcome, OomReport, OtherProcess};
pub use scanner::Scanner;
pub use transcript::{Transcript, read};
