//! Out-of-memory in text: a scanner over a byte stream, one file per family of wording.
//!
//! [`Scanner`] reads a live stream, [`Transcript`] a whole text, whose end tells the outcomes.
//!
//! ```text
//! bytes ─ lines ─ plain ─ prefix ─ messages ─────────────── seen ─ reports
//!         (words) (escapes) (ranks)    │ joins wrapped lines
//!                                      ├ cuda · mps · cuda_runtime · cublas_cudnn · nccl
//!                                      ├ nvml_assert · libraries · jax_tf · host
//!                                      └ not_oom
//! ```

mod cublas_cudnn;
mod cuda;
mod cuda_runtime;
#[cfg(test)]
mod fixture;
mod host;
mod jax_tf;
mod kind;
mod libraries;
mod lines;
mod messages;
mod mps;
mod nccl;
mod not_oom;
mod nvml_assert;
mod plain;
mod prefix;
mod report;
mod scanner;
mod seen;
mod signs;
mod squeezed;
mod transcript;
mod wording;

pub use kind::{OomKind, OomKindSpec, OomSource};
pub(crate) use plain::strip_escapes;
pub(crate) use prefix::pieces;
pub use report::{OomOutcome, OomReport, OtherProcess};
pub use scanner::Scanner;
pub use transcript::{Transcript, read};
