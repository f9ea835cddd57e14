//! What a run needs above its allocated peak: the caching allocator's own habits.
//!
//! Measured as the smallest cap under which eight steps ran (torch 2.11; decoders, a vision
//! transformer, convolutional networks, BERT with random lengths): with expandable segments 0.3–4 %
//! above the allocated peak, without 2–29 %, and never more than the run reserved without a cap
//! (and 1 %). A U-Net needed less than its peak with expandable segments (cuDNN chooses smaller
//! workspaces where memory is short); that is left to the safe side.

use super::observation::Observation;

/// How the allocator holds its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allocator {
    /// Segments of fixed size.
    Fixed,
    /// `expandable_segments:True`.
    Expandable,
}

/// Factors on the allocated peak: at the least, likely, at the most.
pub(super) type Factors = (f64, f64, f64);

const EXPANDABLE: Factors = (1.0, 1.01, 1.04);
const FIXED: Factors = (1.0, 1.06, 1.40);

/// What is reserved up to this was all needed.
const NEEDED: f64 = 1.09;

/// By how much more than at an out-of-memory the pieces that cannot be given back may come to later
/// in the run. Not measured; a choice on the safe side.
const LATER: f64 = 0.12;

/// By how much more may be reserved, as a share of the peak, for each doubling of the batch beyond
/// the largest that was seen (measured on recomputed decoders: 1.06 at 16, 1.19 at 32, 1.27 at 61).
const GROWTH: f64 = 0.15;

/// How much more than what was seen in passing the pieces that cannot be given back may come to:
/// likely, and at the most.
const UNSEEN: (f64, f64) = (0.015, 0.08);

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
    let growth = GROWTH * beyond(observations, batch);
    let most_of = |of: fn(&Observation) -> Option<f64>| {
        let seen = observations.iter().filter_map(of);
        seen.filter(|seen| *seen >= 1.0).reduce(f64::max)
    };
    let mut factors = FIXED;
    if let Some(seen) = most_of(|seen| seen.overhead) {
        let most = (seen * 1.01 + 0.005 + growth).min(FIXED.2);
        // Up to here runs needed what they reserved; above, much of it could be given back.
        let likely = if seen <= NEEDED { seen } else { FIXED.1 };
        factors = (1.0, likely.min(most), most);
    }
    if let Some(seen) = most_of(|seen| seen.held) {
        let most = (seen + UNSEEN.1 + growth).min(factors.2);
        factors = (1.0, (seen + UNSEEN.0).min(most), most);
    }
    // The latest out-of-memory says most: its batch is nearest to what is asked next.
    let left_over = observations.iter().rev().find_map(|seen| seen.left_over);
    if let Some(seen) = left_over.filter(|seen| *seen >= 1.0) {
        let most = (seen + LATER).min(factors.2);
        factors = (1.0, seen.clamp(1.0, most), most);
    }
    factors
}

/// How many doublings this batch is beyond the largest that was seen.
fn beyond(observations: &[Observation], batch: u64) -> f64 {
    let largest = observations.iter().map(|seen| seen.batch).max();
    largest.map_or(0.0, |largest| {
        (batch as f64 / largest.max(1) as f64).log2().max(0.0)
    })
}
