//! What a run needs by a sum of its parts, each of which was recorded, where a remedy takes one of them away.

use super::RemedyPredictor;
use super::verdict::{at_least, beyond, fits_within, tight};
use crate::calibration::{EXPANDABLE, FEW_PIECES_NEED};
use crate::event::Basis;
use crate::forecast::{Allocator, Estimate, Need};
use crate::remedy::plan::Expectation;
use crate::units::Bytes;

impl RemedyPredictor<'_> {
    /// What a peak of so many allocated bytes needs, of which `there` was allocated when the step began: what lay between that
    /// is `pieces`, cached and too small to be used when memory ran out, and only what comes can lie in further ones. Where a
    /// moment of the run is not in the sum (`is_whole` is false), nothing says that it fits.
    pub fn summed(&self, peak: Bytes, there: Bytes, pieces: Bytes, is_whole: bool) -> Expectation {
        // Its parts are whole tensors as large as the parameters, which leave few pieces.
        let factors = match self.allocator {
            Allocator::Expandable => EXPANDABLE,
            Allocator::Fixed => FEW_PIECES_NEED,
        };
        let there = there.min(peak);
        let needs = Estimate::exact(peak - there).times(factors) + there;
        let needs = match self.allocator {
            Allocator::Fixed => {
                Estimate::new(needs.low, needs.likely, needs.high.max(peak + pieces))
            }
            Allocator::Expandable => needs,
        };
        Expectation {
            peak: Some(Estimate::exact(peak)),
            ..self.estimated(needs, is_whole)
        }
    }

    /// Where so much was allocated before what a remedy takes away, and nothing is known of what comes then.
    pub fn then_unseen(&self, before: Bytes) -> Expectation {
        let words = format!(
            "unknown: {before} was allocated before it, and what the training needs then was not seen"
        );
        at_least(before, self.room, words.into())
    }

    /// An estimate beside the memory that there is; `may_fit` is false where nothing says that all of the run is in it.
    pub fn estimated(&self, needs: Estimate, may_fit: bool) -> Expectation {
        let need = Need::of(needs);
        let said = match self.room {
            None => beyond(need),
            Some(room) if needs.high <= room && may_fit => {
                fits_within(need, room, Some(Basis::Estimated))
            }
            Some(room) => tight(need, room, Some(Basis::Estimated)),
        };
        Expectation {
            basis: Some(Basis::Estimated),
            ..said
        }
    }
}
