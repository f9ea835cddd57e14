//! How long the gate waits.

use std::time::Duration;

/// The gate's durations; tests run them scaled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GateTiming {
    /// How long to wait for the memory.
    pub deadline: Duration,
    /// Without NVML: how long after the tree is gone.
    pub blind_wait: Duration,
}

impl Default for GateTiming {
    fn default() -> GateTiming {
        GateTiming {
            deadline: Duration::from_secs(60),
            blind_wait: Duration::from_secs(5),
        }
    }
}

impl GateTiming {
    /// Everything `divisor` times shorter.
    pub(crate) fn scaled(divisor: u32) -> GateTiming {
        let whole = GateTiming::default();
        GateTiming {
            deadline: whole.deadline / divisor.max(1),
            blind_wait: whole.blind_wait / divisor.max(1),
        }
    }
}
