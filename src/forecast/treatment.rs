//! What remedies beside the batch do to the part that grows with it.

use crate::measured::{AUTOCAST_CASTS, AUTOCAST_LEAVES, CHECKPOINTING_LEAVES};

/// What is done to the activations.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Treatment {
    /// Mixed precision is switched on.
    pub mixed: bool,
    /// Activations are recomputed in backward.
    pub recomputed: bool,
}

impl Treatment {
    /// Base and activations together after the treatment, in bytes: low, likely, high.
    pub(super) fn passes(self, base: f64, activations: f64) -> (f64, f64, f64) {
        let mut factors = (1.0, 1.0, 1.0);
        for (applies, by) in [
            (self.mixed, AUTOCAST_LEAVES),
            (self.recomputed, CHECKPOINTING_LEAVES),
        ] {
            if applies {
                factors = (factors.0 * by.0, factors.1 * by.1, factors.2 * by.2);
            }
        }
        let casts = if self.mixed {
            base * AUTOCAST_CASTS
        } else {
            0.0
        };
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
