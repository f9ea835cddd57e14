//! The one clock that stamps events. Sources hold a copy of it; pure modules never see it.

use crate::units::Moment;
use nix::time::{ClockId, clock_gettime};

/// `CLOCK_MONOTONIC` counted from the session's origin: the same clock as Python's
/// `time.monotonic_ns()`, so that the probe's stamps need no translation but a subtraction.
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

    /// The clock of a session that began when `CLOCK_MONOTONIC` showed `origin_us`.
    pub fn with_origin(origin_us: u64) -> Clock {
        Clock { origin_us }
    }

    /// `CLOCK_MONOTONIC` in microseconds at this clock's zero.
    pub fn origin_us(self) -> u64 {
        self.origin_us
    }

    /// This instant.
    pub fn now(self) -> Moment {
        Moment(monotonic_us().saturating_sub(self.origin_us))
    }

    /// The instant at which `CLOCK_MONOTONIC` showed `ns` nanoseconds; never later than now, so
    /// that a stamp from outside cannot lie in the future.
    pub fn at_monotonic_ns(self, ns: u64) -> Moment {
        Moment((ns / 1_000).saturating_sub(self.origin_us)).min(self.now())
    }
}

fn monotonic_us() -> u64 {
    // CLOCK_MONOTONIC cannot fail on Linux; a zero would only misplace marks on a chart.
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
