//! What a run needs above its allocated peak: the caching allocator's own habits.
//!
//! Measured as the smallest cap under which eight steps ran (torch 2.11; decoders, a vision
//! transformer, convolutional networks, BERT with random lengths): with expandable segments 0.3–4 %
//! above the allocated peak, without 2–37 %, and never more than the same batch reserved without a
//! cap (and 1 %). A U-Net needed less than its peak with expandable segments (cuDNN chooses smaller
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

/// Which share of what was reserved above the peak is needed: 0.5 to 1.4 times it was (decoders,
/// BERT, with and without recomputation), most often nearly all.
const NEEDED: f64 = 0.92;

/// Nearly all of what was reserved above the peak could be given back where no more than this share
/// of the peak ever lay in pieces beside blocks in use, or where so many times as much as that was
/// reserved above the peak: convolutional networks and vision transformers needed at most 1.02 of
/// their peak, whatever they had reserved (1.03 to 1.60). The others reserved 0.9 to 1.8 times their
/// pieces above the peak.
const FEW_PIECES: f64 = 0.10;
const MANY_TIMES: f64 = 1.9;
const OF_FEW_PIECES: Factors = (1.0, 1.02, 1.10);

/// By how much more than at an out-of-memory the pieces that cannot be given back may come to later
/// in the run. Not measured; a choice on the safe side.
const LATER: f64 = 0.12;

/// By how much more may be reserved, as a share of the peak, for each doubling of the batch beyond
/// the largest that was seen (measured on recomputed decoders: 1.06 at 16, 1.19 at 32, 1.27 at 61).
const GROWTH: f64 = 0.15;

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
        seen.reduce(f64::max)
    };
    let mut factors = FIXED;
    if let Some(seen) = most_of(|seen| seen.overhead).filter(|seen| *seen >= 1.0) {
        let most = (seen * 1.01 + 0.005 + growth).min(FIXED.2);
        let likely = 1.0 + (seen - 1.0) * NEEDED;
        factors = (1.0, likely.min(most), most);
        // Of the largest batch: the pieces of a small one are large against its peak.
        let largest = observations.iter().max_by_key(|seen| seen.batch);
        if largest.is_some_and(lies_in_few_pieces) {
            let (low, likely, high) = OF_FEW_PIECES;
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

fn lies_in_few_pieces(seen: &Observation) -> bool {
    let (Some(overhead), Some(pieces)) = (seen.overhead, seen.pieces) else {
        return false;
    };
    pieces <= FEW_PIECES || overhead - 1.0 >= MANY_TIMES * pieces
}

/// How many doublings this batch is beyond the largest that was seen.
fn beyond(observations: &[Observation], batch: u64) -> f64 {
    let largest = observations.iter().map(|seen| seen.batch).max();
    largest.map_or(0.0, |largest| {
        (batch as f64 / largest.max(1) as f64).log2().max(0.0)
    })
}
