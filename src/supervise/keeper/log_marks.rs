//! Says now and then how much of the output the log was given by when, so that a replay shows it in time.

use crate::event::Clock;
use crate::supervise::KeeperReport;
use crate::units::Bytes;
use std::time::{Duration, Instant};

/// How often, while there is output.
const EVERY: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct LogMarks {
    given: u64,
    told: u64,
    last: Option<Instant>,
}

impl LogMarks {
    /// Counts output. After a pause there is a mark before it, or else it would seem to have come bit by
    /// bit since the last one.
    pub(super) fn given(&mut self, bytes: usize, now: Instant) -> Option<KeeperReport> {
        let was_quiet = self.told == self.given && self.last.is_none_or(|last| now > last + EVERY);
        let mark = was_quiet.then(|| self.mark(now));
        self.given += bytes as u64;
        mark
    }

    /// When the next mark is due.
    pub(super) fn due(&self) -> Option<Instant> {
        let last = self.last.filter(|_| self.told < self.given);
        last.map(|last| last + EVERY)
    }

    /// What has come since the last mark, if anything has.
    pub(super) fn rest(&mut self, now: Instant) -> Option<KeeperReport> {
        (self.told < self.given).then(|| self.mark(now))
    }

    fn mark(&mut self, now: Instant) -> KeeperReport {
        self.last = Some(now);
        self.told = self.given;
        KeeperReport::Logged {
            bytes: Bytes(self.given),
            monotonic: Clock::with_origin(0).now().0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(report: Option<KeeperReport>) -> Option<u64> {
        match report? {
            KeeperReport::Logged { bytes, .. } => Some(bytes.0),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_mark_a_second_and_one_after_each_pause() {
        let began = Instant::now();
        let at = |millis| began + Duration::from_millis(millis);
        let mut marks = LogMarks::default();
        assert_eq!(marks.due(), None);
        assert_eq!(bytes(marks.given(10, at(0))), Some(0));
        assert_eq!(bytes(marks.given(10, at(500))), None);
        assert_eq!(marks.due(), Some(at(1_000)));
        assert_eq!(bytes(marks.rest(at(1_000))), Some(20));
        assert_eq!((marks.due(), bytes(marks.rest(at(1_000)))), (None, None));
        // It goes on soon, and after a pause.
        assert_eq!(bytes(marks.given(5, at(1_200))), None);
        assert_eq!(bytes(marks.rest(at(2_000))), Some(25));
        assert_eq!(bytes(marks.given(5, at(9_000))), Some(25));
        assert_eq!(marks.due(), Some(at(10_000)));
        assert_eq!(bytes(marks.rest(at(9_500))), Some(30));
    }
}
