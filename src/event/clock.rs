//! The clock that stamps events. Sources have a copy of it; modules without I/O never use it.

use crate::units::Moment;
use nix::time::{ClockId, clock_gettime};

/// `CLOCK_MONOTONIC` since the session's origin. Python's `time.monotonic_ns()` is the same clock,
/// so the probe's stamps only need a subtraction.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    origin_us: u64,
}

impl Clock {
    /// A clock whose zero is now.
    pub fn start() -> Clock {
        Clock {
            origin_us: monotonic_us(),
        }
    }

    /// The clock of a session that began at `origin_us` on `CLOCK_MONOTONIC`.
    pub fn with_origin(origin_us: u64) -> Clock {
        Clock { origin_us }
    }

    /// `CLOCK_MONOTONIC` in microseconds at this clock's zero.
    pub fn origin_us(self) -> u64 {
        self.origin_us
    }

    pub fn now(self) -> Moment {
        Moment(monotonic_us().saturating_sub(self.origin_us))
    }

    /// The instant of `ns` nanoseconds on `CLOCK_MONOTONIC`; at most now, so that a stamp from
    /// outside can't be in the future.
    pub fn at_monotonic_ns(self, ns: u64) -> Moment {
        Moment((ns / 1_000).saturating_sub(self.origin_us)).min(self.now())
    }
}

fn monotonic_us() -> u64 {
    // CLOCK_MONOTONIC can't fail on Linux; a zero would only misplace marks on a chart.
    clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map(|t| t.tv_sec() as u64 * 1_000_000 + t.tv_nsec() as u64 / 1_000)
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_from_outside_never_lie_in_the_future() {
        let clock = Clock::start();
        assert!(clock.at_monotonic_ns(u64::MAX) <= clock.now());
        assert_eq!(clock.at_monotonic_ns(0), Moment::ZERO);
    }
}
