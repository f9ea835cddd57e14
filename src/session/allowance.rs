//! A budget of bytes for a kind of event: a burst, then a rate per day.
//!
//! Time is that of the events, so that a simulated week costs the same as a real one. This knows
//! nothing of events or files.

use crate::units::{Bytes, Moment};

const DAY: f64 = 86_400.0;

/// A share of a recording's growth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Available at once, at the beginning or after a quiet time.
    pub burst: Bytes,
    pub per_day: Bytes,
}

impl Share {
    /// The maximum cost of a day.
    pub const fn most_in_a_day(self) -> Bytes {
        Bytes(self.burst.0 + self.per_day.0)
    }
}

/// What is left of a [`Share`] at the last query.
#[derive(Debug)]
pub(super) struct Allowance {
    share: Share,
    left: f64,
    at: Moment,
}

impl Allowance {
    pub(super) fn full(share: Share) -> Allowance {
        Allowance {
            share,
            left: share.burst.0 as f64,
            at: Moment::ZERO,
        }
    }

    fn per_second(&self) -> f64 {
        self.share.per_day.0 as f64 / DAY
    }

    /// What may be spent at `now`.
    pub(super) fn left(&mut self, now: Moment) -> Bytes {
        let passed = now.since(self.at).as_secs_f64();
        self.at = self.at.max(now);
        self.left = (self.left + passed * self.per_second()).min(self.share.burst.0 as f64);
        Bytes(self.left as u64)
    }

    /// Spends `cost` if enough is left.
    pub(super) fn spend(&mut self, cost: Bytes, now: Moment) -> bool {
        let enough = self.left(now) >= cost;
        if enough {
            self.left -= cost.0 as f64;
        }
        enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARE: Share = Share {
        burst: Bytes(1_000),
        per_day: Bytes(86_400),
    };

    #[test]
    fn a_burst_is_spent_once_and_comes_back_slowly() {
        let mut allowance = Allowance::full(SHARE);
        assert!(allowance.spend(Bytes(1_000), Moment::ZERO));
        assert!(!allowance.spend(Bytes(1), Moment::ZERO));
        let later = Moment::from_secs_f64(10.0);
        assert!(!allowance.spend(Bytes(11), later));
        assert!(allowance.spend(Bytes(10), later));
        assert_eq!(allowance.left(Moment::from_secs_f64(1e6)), SHARE.burst);
    }

    #[test]
    fn stamps_out_of_order_give_nothing_back_twice() {
        let mut allowance = Allowance::full(SHARE);
        assert!(allowance.spend(Bytes(1_000), Moment::from_secs_f64(100.0)));
        for _ in 0..10 {
            allowance.left(Moment::from_secs_f64(50.0));
            allowance.left(Moment::from_secs_f64(101.0));
        }
        assert_eq!(allowance.left(Moment::from_secs_f64(101.0)), Bytes(1));
    }
}
