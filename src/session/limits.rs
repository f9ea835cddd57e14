//! What a recording may cost. The shares are laid out so that the first day of a session, the
//! dearest, stays under 50 MB whatever the number of ranks; a test adds them up.

use super::allowance::Share;
use crate::units::Bytes;
use std::time::Duration;

const MB: u64 = 1_000_000;

/// Bounds of one recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// For readings thinned with age.
    pub thinned: Share,
    /// For the records of out-of-memory themselves: a program that catches one in every step must
    /// not fill the disk.
    pub oom: Share,
    /// For the readings at full rate around an out-of-memory.
    pub around_oom: Share,
    /// For what happens now and then: processes that come and go, notes, the structure of memory.
    pub exact: Share,
    /// How much each of the two generations of the last minutes may hold.
    pub generation: Bytes,
    /// How long a generation may be written to before the older one is given up.
    pub generation_span: Duration,
    /// How long before an out-of-memory readings are kept at full rate, …
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

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            thinned: Share {
                burst: Bytes(8 * MB),
                per_day: Bytes(14 * MB),
            },
            oom: Share {
                burst: Bytes(3 * MB),
                per_day: Bytes(3 * MB),
            },
            around_oom: Share {
                burst: Bytes(6 * MB),
                per_day: Bytes(4 * MB),
            },
            exact: Share {
                burst: Bytes(2 * MB),
                per_day: Bytes(2 * MB),
            },
            generation: Bytes(3 * MB),
            generation_span: Duration::from_secs(300),
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
        let written: u64 = [limits.thinned, limits.oom, limits.around_oom, limits.exact]
            .map(|share| share.most_in_a_day().0)
            .iter()
            .sum();
        // Both generations end in the file at a clean end; each begins with the open bucket.
        let recent = 2 * (limits.generation.0 + limits.bucket_held.0);
        assert!(written + recent <= 50 * MB, "{written} + {recent}");
    }
}
