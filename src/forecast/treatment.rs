//! What remedies beside the batch do to the part that grows with it.
//!
//! Measured on a few models each (torch 2.11): autocast in bf16 left 83 % of a decoder's
//! activations (the loss and the logits stay in float32) and put half-sized copies of the weights
//! beside them; recomputation left 17–69 %. Half is what less precise arithmetic can do at best.

/// What is done to the activations.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Treatment {
    /// Mixed precision is switched on.
    pub mixed: bool,
    /// Activations are recomputed in backward.
    pub recomputed: bool,
}

const MIXED: (f64, f64, f64) = (0.5, 0.8, 1.0);
const RECOMPUTED: (f64, f64, f64) = (0.15, 0.42, 0.75);

impl Treatment {
    /// Base and activations together after the treatment, in bytes: low, likely, high.
    pub(super) fn passes(self, base: f64, activations: f64) -> (f64, f64, f64) {
        let mut factors = (1.0, 1.0, 1.0);
        for (applies, by) in [(self.mixed, MIXED), (self.recomputed, RECOMPUTED)] {
            if applies {
                factors = (factors.0 * by.0, factors.1 * by.1, factors.2 * by.2);
            }
        }
        // The casts of the weights: at most half of what stays in float32.
        let casts = if self.mixed { base * 0.17 } else { 0.0 };
        (
            base + activations * factors.0,
            base + activations * factors.1,
            base + casts + activations * factors.2,
        )
    }

    /// Whether anything is done.
    pub fn is_none(self) -> bool {
        self == Treatment::default()
    }
}
