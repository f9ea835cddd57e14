//! What a recording may cost. The figures are chosen so that the first day of a session, the
//! largest, stays under 50 MB whatever the number of ranks; a test adds them up.

use super::allowance::Share;
use crate::units::{Bytes, Moment};
use std::time::Duration;

const MB: u64 = 1_000_000;

/// Most trainings end within hours: their readings are thinned less.
const FIRST_HOURS: Moment = Moment(2 * 3_600 * 1_000_000);

/// Bounds of one recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes a second for thinned readings in the first two hours, …
    pub thinned_at_first: u32,
    /// … and after them.
    pub thinned_later: u32,
    /// For out-of-memory and the readings around it: a program that catches one in every step must
    /// not fill the disk.
    pub oom: Share,
    /// What of that is for the records alone.
    pub oom_records: Bytes,
    /// For what happens now and then: processes that come and go, notes, the structure of memory.
    pub exact: Share,
    /// How long before an out-of-memory, or the end, readings are kept at full rate, …
    pub before_oom: Duration,
    /// … how many bytes of them are held in memory for that, …
    pub before_oom_held: Bytes,
    /// … and how long after it.
    pub after_oom: Duration,
    /// A bucket of thinned readings is at least this long.
    pub bucket: Duration,
    /// New streams are turned away from a bucket that holds this much.
    pub bucket_held: Bytes,
}

impl Limits {
    /// Bytes a second that thinned readings may cost at `now`.
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
        // The bucket that is open and the last minute are written at the end.
        let at_end = limits.bucket_held.0 + limits.before_oom_held.0;
        let most = at_first + later + exact + at_end;
        assert!(most <= 50 * MB, "{most}");
    }
}
