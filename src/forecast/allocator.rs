//! What a run needs above its allocated peak: the caching allocator's own habits.

use super::observation::Observation;
use super::target::Allocator;
use crate::measured::{
    EXPANDABLE, FEW_PIECES, FEW_PIECES_NEED, FIXED, Factors, GROWTH_PER_DOUBLING, MANY_TIMES,
    OVERHEAD_NEEDED_SAFELY,
};

/// By how much more than at an out-of-memory the pieces that cannot be given back may come to later
/// in the run. Not measured; a choice on the safe side.
const LATER: f64 = 0.12;

impl Allocator {
    /// The factors for this batch, narrowed by what runs of the same program reserved.
    pub(super) fn factors(self, observations: &[Observation], batch: u64) -> Factors {
        match self {
            Allocator::Expandable => EXPANDABLE,
            Allocator::Fixed => fixed(observations, batch),
        }
    }
}

fn fixed(observations: &[Observation], batch: u64) -> Factors {
    let growth = GROWTH_PER_DOUBLING * beyond(observations, batch);
    let most_of = |of: fn(&Observation) -> Option<f64>| {
        let seen = observations.iter().filter_map(of);
        seen.reduce(f64::max)
    };
    let mut factors = FIXED;
    if let Some(seen) = most_of(|seen| seen.overhead).filter(|seen| *seen >= 1.0) {
        let most = (seen * 1.01 + 0.005 + growth).min(FIXED.2);
        let likely = 1.0 + (seen - 1.0) * OVERHEAD_NEEDED_SAFELY;
        factors = (1.0, likely.min(most), most);
        // Of the largest batch: the pieces of a small one are large against its peak.
        let largest = observations.iter().max_by_key(|seen| seen.batch);
        if largest.is_some_and(Observation::lies_in_few_pieces) {
            let (low, likely, high) = FEW_PIECES_NEED;
            factors = (low, likely.min(factors.1), high.min(most));
        }
    }
    // The latest out-of-memory says most: its batch is nearest to what is asked next.
    let left_over = observations.iter().rev().find_map(|seen| seen.left_over);
    if let Some(seen) = left_over.filter(|seen| *seen >= 1.0) {
        let most = (seen + LATER).min(factors.2);
        factors = (1.0, seen.clamp(1.0, most), most);
    }
    factors
}

impl Observation {
    /// Whether nearly all of what it reserved above its peak could have been given back.
    pub fn lies_in_few_pieces(&self) -> bool {
        let (Some(overhead), Some(pieces)) = (self.overhead, self.pieces) else {
            return false;
        };
        pieces <= FEW_PIECES || overhead - 1.0 >= MANY_TIMES * pieces
    }
}

/// How many doublings this batch is beyond the largest that was seen.
fn beyond(observations: &[Observation], batch: u64) -> f64 {
    let largest = observations.iter().map(|seen| seen.batch).max();
    largest.map_or(0.0, |largest| {
        (batch as f64 / largest.max(1) as f64).log2().max(0.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forecast::{Estimate, Passes};
    use crate::units::Bytes;

    fn seen(batch: u64, overhead: f64, pieces: f64) -> Observation {
        Observation {
            batch,
            base: Estimate::exact(Bytes::gib(1)),
            gradients: None,
            parameters: None,
            keeps_gradients: false,
            passes: Passes::Seen(Bytes::gib(8)),
            optimizer: Estimate::exact(Bytes::ZERO),
            varies: false,
            overhead: Some(overhead),
            pieces: Some(pieces),
            partial_step: None,
            left_over: None,
        }
    }

    /// Runs of two batches: what they reserved above their peak and what lay in pieces, and the factor
    /// that was really needed at a third batch.
    #[test]
    fn what_was_really_needed_is_within_the_factors() {
        for (name, runs, batch, needed) in [
            ("decoder", [(8, 1.085, 0.23), (16, 1.105, 0.23)], 36, 1.084),
            (
                "decoder bf16",
                [(8, 1.107, 0.29), (16, 1.216, 0.24)],
                37,
                1.121,
            ),
            (
                "recomputed",
                [(16, 1.059, 0.24), (32, 1.193, 0.27)],
                61,
                1.270,
            ),
            (
                "wide, recomputed",
                [(16, 1.283, 0.26), (32, 1.139, 0.25)],
                65,
                1.291,
            ),
            (
                "BERT bf16",
                [(16, 1.204, 0.22), (32, 1.402, 0.27)],
                55,
                1.369,
            ),
            ("ViT", [(32, 1.069, 0.05), (64, 1.034, 0.05)], 149, 1.020),
            (
                "ResNet",
                [(64, 1.598, 0.07), (128, 1.555, 0.20)],
                282,
                1.005,
            ),
        ] {
            let runs = runs.map(|(batch, overhead, pieces)| seen(batch, overhead, pieces));
            let (low, likely, high) = Allocator::Fixed.factors(&runs, batch);
            assert!(low <= needed && needed <= high, "{name}: {low}–{high}");
            assert!(
                (likely / needed - 1.0).abs() <= 0.08,
                "{name}: {likely} for {needed}"
            );
            assert_eq!(Allocator::Expandable.factors(&runs, batch), EXPANDABLE);
        }
    }

    #[test]
    fn a_larger_batch_than_any_that_was_seen_is_less_certain() {
        let runs = [seen(16, 1.06, 0.25)];
        let high = |batch| Allocator::Fixed.factors(&runs, batch).2;
        assert_eq!(high(8), high(16));
        assert!(high(16) < high(32) && high(32) < high(64));
        assert_eq!(high(1 << 20), FIXED.2);
        assert_eq!(Allocator::Fixed.factors(&[], 16), FIXED);
    }
}
