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
const FIXED: Factors = (1.0, 1.06, 1.30);

/// What is reserved up to this was all needed.
const NEEDED: f64 = 1.09;

/// By how much more than at an out-of-memory the pieces that cannot be given back may come to later
/// in the run. Not measured; a choice on the safe side.
const LATER: f64 = 0.12;

impl Allocator {
    /// The factors, narrowed by what runs of the same program reserved.
    pub(super) fn factors(self, observations: &[Observation]) -> Factors {
        match self {
            Allocator::Expandable => EXPANDABLE,
            Allocator::Fixed => {
                // The latest says most: its batch is nearest to what is asked next.
                let latest = |of: fn(&Observation) -> Option<f64>| {
                    observations
                        .iter()
                        .rev()
                        .find_map(of)
                        .filter(|seen| *seen >= 1.0)
                };
                let mut factors = FIXED;
                if let Some(seen) = latest(|seen| seen.overhead) {
                    let most = (seen * 1.01 + 0.005).min(FIXED.2);
                    // Up to here runs needed what they reserved; above, much of it could be given back.
                    let likely = if seen <= NEEDED { seen } else { FIXED.1 };
                    factors = (1.0, likely.min(most), most);
                }
                if let Some(seen) = latest(|seen| seen.left_over) {
                    let most = (seen + LATER).min(factors.2);
                    factors = (1.0, seen.clamp(1.0, most), most);
                }
                factors
            }
        }
    }
}
