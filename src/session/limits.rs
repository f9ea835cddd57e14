//! How large a recording may become. The first day of a session, its largest, stays below 50 MB for
//! any number of ranks; a test adds it up.

use super::allowance::Share;
use crate::units::{Bytes, Moment};
use std::time::Duration;

const MB: u64 = 1_000_000;

/// Most trainings end within hours: their readings are thinned out less.
const FIRST_HOURS: Moment = Moment(2 * 3_600 * 1_000_000);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes per second for thinned-out readings in the first two hours, …
    pub thinned_at_first: u32,
    /// … and after that.
    pub thinned_later: u32,
    /// For OOMs and the readings around them: a program that catches one in every step must not
    /// fill the disk.
    pub oom: Share,
    /// The part of that for the records only.
    pub oom_records: Bytes,
    /// For occasional events: processes that come and go, notes, the structure of memory.
    pub exact: Share,
    /// How long before an OOM, or the end, readings are kept at full rate, …
    pub before_oom: Duration,
    /// … how many bytes of them are kept in memory for that, …
    pub before_oom_held: Bytes,
    /// … and how long after it.
    pub after_oom: Duration,
    /// The minimum duration of a bucket of thinned-out readings.
    pub bucket: Duration,
    /// A bucket of this size accepts no new streams.
    pub bucket_held: Bytes,
}

impl Limits {
    /// Bytes per second for thinned-out readings at `now`.
    pub(super) fn thinned_rate(&self, now: Moment) -> f64 {
        f64::from(if now < FIRST_HOURS {
            self.thinned_at_first
        } else {
            self.thinned_later
        })
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            thinned_at_first: 1_200,
            thinned_later: 200,
            oom: Share {
                burst: Bytes(9 * MB),
                per_day: Bytes(7 * MB),
            },
            oom_records: Bytes(3 * MB),
            exact: Share {
                burst: Bytes(2 * MB),
                per_day: Bytes(2 * MB),
            },
            before_oom: Duration::from_secs(60),
            before_oom_held: Bytes(2 * MB),
            after_oom: Duration::from_secs(10),
            bucket: Duration::from_secs(1),
            bucket_held: Bytes(MB),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dearest_day_stays_under_fifty_megabytes() {
        let limits = Limits::default();
        let at_first = u64::from(limits.thinned_at_first) * 2 * 3_600;
        let later = u64::from(limits.thinned_later) * 22 * 3_600;
        let exact = limits.oom.most_in_a_day().0 + limits.exact.most_in_a_day().0;
        // The open bucket and the last minute are written at the end.
        let at_end = limits.bucket_held.0 + limits.before_oom_held.0;
        let most = at_first + later + exact + at_end;
        assert!(most <= 50 * MB, "{most}");
    }
}
