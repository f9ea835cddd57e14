//! The gate's durations.

use std::time::Duration;

#[derive(Debug, Clone, Copy)]
pub(crate) struct GateTiming {
    /// The deadline for the memory to be free.
    pub deadline: Duration,
    /// Without NVML: the wait after all processes are gone.
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
    /// Divided by `divisor` (tests).
    pub(crate) fn scaled(divisor: u32) -> GateTiming {
        let whole = GateTiming::default();
        GateTiming {
            deadline: whole.deadline / divisor.max(1),
            blind_wait: whole.blind_wait / divisor.max(1),
        }
    }
}
