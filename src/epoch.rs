//! Epochs in text: where the program's own output says that another one has begun.
//!
//! ```text
//! bytes ─ lines ──────── wording ─────────── count ─ an epoch's number, when it is another
//!         (with a hint)  (one line's number) (ranks, stragglers, pace)
//! ```
//!
//! Nobody else knows it: PyTorch has optimizers and steps, and no epochs. The number is the one that
//! the program prints, whether it counts from 0 or from 1. It knows no files and no clock, and nothing
//! here decides what an epoch means.

mod count;
mod lines;
mod wording;

pub use count::Count;
pub use lines::{EpochLines, EpochMention};
