//! A rank beside the one whose OOM is shown, and what is known of its need.

use super::rehearsed::Rehearsed;
use crate::units::Bytes;

/// A rank beside the one whose OOM is shown.
#[derive(Debug, Clone)]
pub struct OtherRank {
    /// `rank 0`.
    pub name: String,
    pub need: OtherNeed,
}

/// What it needs.
#[derive(Debug, Clone)]
pub enum OtherNeed {
    /// What its own step needs: it ran out of memory as well, and that was rehearsed.
    Rehearsed(Box<Rehearsed>),
    /// What the one needs that ran out, and so much more: it holds that at the same point of a step.
    Holds(Bytes),
}

impl OtherRank {
    /// This rank, where what was counted as `of` is really `batch`.
    pub(super) fn counted(self, batch: u64, of: u64) -> OtherRank {
        let need = match self.need {
            OtherNeed::Rehearsed(step) => OtherNeed::Rehearsed(Box::new(step.counted(batch, of))),
            holds @ OtherNeed::Holds(_) => holds,
        };
        OtherRank { need, ..self }
    }
}
