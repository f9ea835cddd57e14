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

mod allocator;
mod bars;
mod catalog;
mod consequences;
mod last_error;
mod lines;
mod other_libraries;
mod report;
mod scanner;
mod table;
#[cfg(test)]
mod tests;
mod tracebacks;
mod transcript;
mod wording;
mod words;

pub use catalog::{MessageText, aftermath_texts, message_texts, texts_of_none};
pub use consequences::{ConsequenceKind, ConsequenceLines, HintLines};
pub use last_error::{ErrorLines, LastError};
pub(crate) use lines::{LineReader, LineSplitter, RawLine, pieces};
pub use report::{OomKind, OomKindSpec, OomSign, OomSource};
pub use report::{OomOutcome, OomReport, OtherProcess};
pub use scanner::Scanner;
pub use tracebacks::TracedCall;
pub use transcript::{Transcript, read};
pub(crate) use words::Words;
