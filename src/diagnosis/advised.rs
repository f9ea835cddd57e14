//! Advice that a remedy can follow as well: which change of the training it is. Where the remedy is refused, the advice has to say
//! why, so that both sides know it by this and not by its words alone.

use super::Phrase;

pub(super) const TO_KEEP_THE_EFFECTIVE_BATCH: [&str; 2] = [
    "a smaller batch size, with gradient accumulation to keep the effective batch",
    "half the batch size, with gradient accumulation to keep the effective batch",
];
pub(super) const CHECKPOINTING: &str = "activation checkpointing";
pub(super) const PRECISION: &str = "automatic mixed precision";

/// A change that is advised, and that a remedy may make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdvisedChange {
    SmallerBatch,
    Checkpointing,
    Precision,
}

impl AdvisedChange {
    /// The one that an advice is about.
    pub fn of(advice: &Phrase) -> Option<AdvisedChange> {
        let words = advice.as_str();
        match words {
            _ if TO_KEEP_THE_EFFECTIVE_BATCH.contains(&words) => Some(AdvisedChange::SmallerBatch),
            _ if words.starts_with(CHECKPOINTING) => Some(AdvisedChange::Checkpointing),
            _ if words.starts_with(PRECISION) => Some(AdvisedChange::Precision),
            _ => None,
        }
    }
}
