//! Which of the numbers that a program's output names is its epoch now, and when it is another.
//!
//! EpochLines repeat it hundreds of times, several ranks print the same, and one lags behind another. Pure:
//! time comes as an argument.

use super::EpochMention;
use crate::oom::pieces;
use crate::units::{Moment, Rank};
use std::time::Duration;

/// Two epochs that are told lie at least so far apart …
const APART: Duration = Duration::from_secs(1);
/// … and by at least one part in so many of the time since the first: a program whose epochs take
/// milliseconds fills neither recording nor chart, on which it would be less than a column.
const PARTS: u32 = 512;

/// The epochs of one run, of all its streams.
#[derive(Debug, Default)]
pub struct Count {
    /// The epoch that was told last.
    current: Option<u64>,
    /// A lower one that has come since. One process behind another, as long as it does not go on
    /// from there while nobody says the current one.
    lower: Option<u64>,
    /// The lowest rank that has told one, of those that name themselves: the others say nothing new.
    followed: Option<Rank>,
    /// When the first and the latest were told.
    told: Option<(Moment, Moment)>,
}

impl Count {
    /// A count that goes on from an epoch that is known already.
    pub fn from(current: Option<u64>) -> Count {
        Count {
            current,
            ..Count::default()
        }
    }

    /// Takes what a line said; the epoch's number, if that is news.
    pub fn take(&mut self, line: EpochMention<'_>, at: Moment) -> Option<u64> {
        let number = line.number;
        if self.current == Some(number) {
            self.lower = None;
            return None;
        }
        match self.current {
            None if line.ended && number == 0 => return None,
            Some(current) if number < current => {
                // A second training in one program counts from the beginning; a process that lags is
                // one epoch behind, or two.
                let begins_anew = number <= 1 && current > number + 2;
                let goes_on = self.lower.is_some_and(|lower| number == lower + 1);
                if !(begins_anew || goes_on) {
                    self.lower = Some(number);
                    return None;
                }
            }
            None | Some(_) => {}
        }
        if !self.is_followed(line.before) || !self.is_in_pace(at) {
            return None;
        }
        self.current = Some(number);
        self.lower = None;
        let first = self.told.map_or(at, |(first, _)| first);
        self.told = Some((first, at));
        Some(number)
    }

    /// Whether the line is of the rank whose lines count, or of nobody in particular.
    fn is_followed(&mut self, before: &[u8]) -> bool {
        let before = String::from_utf8_lossy(before);
        let Some(rank) = pieces(&before).last().and_then(|piece| piece.rank) else {
            return true;
        };
        let followed = self.followed.map_or(rank, |followed| followed.min(rank));
        self.followed = Some(followed);
        rank == followed
    }

    /// A line that comes too soon is passed over; where the epoch lasts, others say it again.
    fn is_in_pace(&self, at: Moment) -> bool {
        self.told.is_none_or(|(first, latest)| {
            at.since(latest) >= APART.max(latest.since(first) / PARTS)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(count: &mut Count, at: f64, before: &str, number: u64) -> Option<u64> {
        let line = EpochMention {
            number,
            ended: false,
            before: before.as_bytes(),
        };
        count.take(line, Moment::from_secs_f64(at))
    }

    /// What is news of these numbers, ten seconds apart.
    fn news(numbers: &[u64]) -> Vec<u64> {
        let mut count = Count::default();
        let times = (1..).map(|n| f64::from(n) * 10.0);
        times
            .zip(numbers)
            .filter_map(|(at, number)| take(&mut count, at, "", *number))
            .collect()
    }

    #[test]
    fn a_change_is_told_once() {
        for (numbers, expected) in [
            (&[1, 1, 1, 2, 2, 3][..], &[1, 2, 3][..]),
            (&[0, 1, 1, 0, 1, 2], &[0, 1, 2]),
            // A rank that lags, by one epoch or by two, and a best one of long ago.
            (&[4, 5, 4, 5, 4, 4, 5, 6], &[4, 5, 6]),
            (&[7, 5, 5, 7, 8, 3, 9], &[7, 8, 9]),
            // A second training counts anew: from the beginning, or from the middle.
            (&[8, 9, 1, 1, 2], &[8, 9, 1, 2]),
            (&[2, 3, 0, 1], &[2, 3, 0, 1]),
            (&[8, 9, 5, 5, 6, 7], &[8, 9, 6, 7]),
            // Resumed.
            (&[40, 41], &[40, 41]),
        ] {
            assert_eq!(news(numbers), expected, "{numbers:?}");
        }
    }

    #[test]
    fn only_one_of_several_ranks_counts() {
        let mut count = Count::default();
        for (at, before, number, news) in [
            (1.0, "[rank2]: ", 1, Some(1)),
            (2.0, "[rank3]: ", 2, None),
            (3.0, "[rank0]: ", 2, Some(2)),
            (4.0, "[rank2]: ", 3, None),
            (5.0, "[default2]:0.9 it/s[default0]:", 3, Some(3)),
            (6.0, "[default0]:0.9 it/s[default1]:", 4, None),
            (7.0, "(W rank=1 pid=7) ", 4, None),
            (8.0, "12:00:01 INFO ", 4, Some(4)),
        ] {
            assert_eq!(
                take(&mut count, at, before, number),
                news,
                "{before}{number}"
            );
        }
    }

    #[test]
    fn a_share_of_no_epoch_is_no_news() {
        let mut count = Count::default();
        let mut ended = |at, number| {
            let before = b"{'loss': 2.5, ";
            let line = EpochMention {
                number,
                ended: true,
                before,
            };
            count.take(line, Moment::from_secs_f64(at))
        };
        assert_eq!(ended(10.0, 0), None);
        assert_eq!(ended(20.0, 1), Some(1));
        assert_eq!(ended(30.0, 1), None);
        assert_eq!(ended(40.0, 2), Some(2));
    }

    #[test]
    fn it_goes_on_from_what_is_known() {
        let mut count = Count::from(Some(6));
        assert_eq!(take(&mut count, 1.0, "", 6), None);
        assert_eq!(take(&mut count, 2.0, "", 7), Some(7));
    }

    #[test]
    fn epochs_of_milliseconds_fill_no_recording() {
        let mut count = Count::default();
        let hours = 3_600_u64 * 10;
        let told = (0..24 * hours)
            .filter(|n| take(&mut count, *n as f64 / 10.0, "", *n).is_some())
            .count();
        assert!((500..4_000).contains(&told), "{told}");
        // Of epochs that last, every one is told, however long that goes on.
        let mut count = Count::default();
        let told = (0..500)
            .filter(|n| take(&mut count, *n as f64 * 300.0, "", *n).is_some())
            .count();
        assert_eq!(told, 500);
    }
}
