//! The epochs of a run as its output names them.

use crate::units::Moment;
use std::ops::RangeInclusive;

/// Marks kept, more than a wide screen has columns; beyond that every second one is dropped.
const MOST: usize = 512;

/// The first mention of an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochMark {
    pub at: Moment,
    /// Its number, as the program counts.
    pub number: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Epochs {
    marks: Vec<EpochMark>,
}

impl Epochs {
    /// Takes a mention.
    pub(super) fn told(&mut self, at: Moment, number: u64) {
        let place = self.marks.partition_point(|mark| mark.at <= at);
        // A later front may have read it again.
        if place > 0 && self.marks[place - 1].number == number {
            return;
        }
        self.marks.insert(place, EpochMark { at, number });
        if self.marks.len() > MOST {
            let last = self.marks.len() - 1;
            let mut place = 0..;
            (self.marks).retain(|_| place.next().is_some_and(|n| n % 2 == 0 || n == last));
        }
    }

    /// Keeps the first and the last.
    pub(super) fn condense(&mut self) {
        if let [first, .., last] = self.marks[..] {
            self.marks = vec![first, last];
        }
    }

    /// In order of time.
    pub fn marks(&self) -> &[EpochMark] {
        &self.marks
    }

    /// Every `step`th epoch, or the first known one after it.
    pub fn every(&self, step: u64) -> impl Iterator<Item = &EpochMark> {
        let step = step.max(1);
        let mut before = None;
        self.marks.iter().filter(move |mark| {
            let part = mark.number / step;
            match before.replace(part) {
                Some(before) => part != before,
                None => mark.number % step == 0,
            }
        })
    }

    /// The latest epoch.
    pub fn latest(&self) -> Option<u64> {
        self.marks.last().map(|mark| mark.number)
    }

    /// The epochs in a stretch of time; if marks were dropped there, all that it may have been.
    pub fn between(&self, from: Moment, to: Moment) -> Option<RangeInclusive<u64>> {
        let begun = self.marks.partition_point(|mark| mark.at <= from);
        let ended = self.marks.partition_point(|mark| mark.at < to).max(begun);
        let first = match begun {
            0 => self.marks[..ended].first()?,
            n => &self.marks[n - 1],
        };
        let last = self.marks[ended - 1];
        let next = self.marks.get(ended).map_or(0, |next| next.number);
        Some(first.number..=last.number.max(next.saturating_sub(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(n: u64) -> Moment {
        Moment(n * 1_000_000)
    }

    fn told(marks: &[(u64, u64)]) -> Epochs {
        let mut epochs = Epochs::default();
        for (at, number) in marks {
            epochs.told(secs(*at), *number);
        }
        epochs
    }

    #[test]
    fn a_repetition_is_no_epoch() {
        let epochs = told(&[(10, 1), (20, 2), (25, 2), (30, 1)]);
        let numbers: Vec<u64> = epochs.marks().iter().map(|mark| mark.number).collect();
        assert_eq!(numbers, [1, 2, 1]);
        assert_eq!(epochs.latest(), Some(1));
    }

    #[test]
    fn a_stretch_of_time_has_its_epochs() {
        let epochs = told(&[(10, 1), (20, 2), (30, 3), (40, 7)]);
        for (from, to, expected) in [
            (0, 9, None),
            (0, 11, Some(1..=1)),
            (10, 11, Some(1..=1)),
            (12, 19, Some(1..=1)),
            (12, 21, Some(1..=2)),
            (12, 99, Some(1..=7)),
            // One of those that were forgotten, and nobody knows which.
            (33, 34, Some(3..=6)),
            (50, 60, Some(7..=7)),
        ] {
            assert_eq!(
                epochs.between(secs(from), secs(to)),
                expected,
                "{from}..{to}"
            );
        }
        assert_eq!(Epochs::default().between(secs(0), secs(9)), None);
    }

    #[test]
    fn of_many_the_round_numbers_are_picked() {
        let every = |numbers: &[u64], step| -> Vec<u64> {
            let marks: Vec<(u64, u64)> = (1..).zip(numbers.iter().copied()).collect();
            let epochs = told(&marks);
            epochs.every(step).map(|mark| mark.number).collect()
        };
        assert_eq!(every(&[0, 1, 2, 3, 4], 1), [0, 1, 2, 3, 4]);
        assert_eq!(every(&[0, 1, 2, 3, 4], 2), [0, 2, 4]);
        assert_eq!(every(&[1, 3, 5, 7, 9, 11, 13], 5), [5, 11]);
        assert_eq!(every(&[1, 2, 3], 0), [1, 2, 3]);
    }

    #[test]
    fn the_list_is_bounded_and_keeps_both_ends() {
        let marks: Vec<(u64, u64)> = (1..10_000).map(|n| (n, n)).collect();
        let epochs = told(&marks);
        assert!(epochs.marks().len() <= MOST);
        assert!(epochs.marks().len() > MOST / 4);
        assert_eq!(epochs.marks()[0].number, 1);
        assert_eq!(epochs.latest(), Some(9_999));
        let at = epochs.between(secs(5_000), secs(5_001)).unwrap();
        assert!(at.contains(&5_000), "{at:?}");
    }
}
