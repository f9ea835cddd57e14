//! Epochs in text: where the program's own output says that another one has begun.
//!
//! ```text
//! bytes ─ EpochLines ──── wording ─────────── Count ─ an epoch's number, when it is another
//!         (with a hint)   (one line's number) (ranks, stragglers, pace)
//! ```
//!
//! Nobody else knows it: PyTorch has optimizers and steps, and no epochs. The number is the one that
//! the program prints, whether it counts from 0 or from 1. It knows no files and no clock, and nothing
//! here decides what an epoch means.

mod losses;
mod printed_memory;
mod wording;

use crate::oom::{LineReader, LineSplitter, RawLine, pieces};
use crate::units::{Moment, Rank};
pub use losses::{FirstLosses, LossLines, LossMention};
pub use printed_memory::{MemoryLines, PrintedGrowth, PrintedTrend};
use std::time::Duration;
use wording::LineMeaning;

/// An epoch stands at the beginning of its line, behind a logger's prefix at most.
const LOOKED_AT: usize = 4096;

/// What a line said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochMention<'a> {
    /// The epoch's number, as the program counts.
    pub number: u64,
    /// Whether that many epochs are behind it: the program prints how far it is, `0.3` of them, so
    /// that 0 is no news.
    pub ended: bool,
    /// What stands in the line before it.
    pub before: &'a [u8],
}

/// From chunks of a byte stream to what its lines say of epochs: the state between two chunks. A redrawn
/// bar is a line each time.
#[derive(Debug)]
pub struct EpochLines {
    lines: LineSplitter,
    /// A table's head has come, and its first row says the epoch.
    awaits_row: bool,
}

impl Default for EpochLines {
    fn default() -> EpochLines {
        EpochLines {
            lines: LineSplitter::new(wording::hint()),
            awaits_row: false,
        }
    }
}

impl EpochLines {
    /// Takes the stream's next chunk; `told` gets what its lines say, repetitions included.
    pub fn feed(&mut self, chunk: &[u8], told: &mut dyn FnMut(EpochMention<'_>)) {
        let EpochLines { lines, awaits_row } = self;
        lines.feed(chunk, &mut EpochReader { awaits_row, told });
    }

    /// The stream has ended, and with it its last line.
    pub fn finish(&mut self, told: &mut dyn FnMut(EpochMention<'_>)) {
        let EpochLines { lines, awaits_row } = self;
        lines.finish(&mut EpochReader { awaits_row, told });
    }
}

struct EpochReader<'a> {
    awaits_row: &'a mut bool,
    told: &'a mut dyn FnMut(EpochMention<'_>),
}

impl LineReader for EpochReader<'_> {
    fn wants_every_line(&self) -> bool {
        *self.awaits_row
    }

    fn read(&mut self, line: RawLine<'_>) {
        let line = &line.bytes[..line.bytes.len().min(LOOKED_AT)];
        if line.trim_ascii().is_empty() {
            return;
        }
        let of_table = std::mem::take(self.awaits_row).then(|| wording::row(line));
        let Some((said, at)) = of_table.flatten().or_else(|| wording::read(line)) else {
            return;
        };
        let (number, ended) = match said {
            LineMeaning::Head => return *self.awaits_row = true,
            LineMeaning::Number(number) => (number, false),
            LineMeaning::Ended(number) => (number, true),
        };
        let before = &line[..at];
        (self.told)(EpochMention {
            number,
            ended,
            before,
        });
    }
}

/// Two epochs that are told lie at least so far apart …
const APART: Duration = Duration::from_secs(1);
/// … and by at least one part in so many of the time since the first: a program whose epochs take
/// milliseconds fills neither recording nor chart, on which it would be less than a column.
const PARTS: u32 = 512;

/// Which of the numbers that a run's output names is its epoch now, and when it is another. Lines repeat it
/// hundreds of times, several ranks print the same, and one lags behind another.
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

    fn numbers(stream: &[u8], chunk: usize) -> Vec<u64> {
        let mut found = Vec::new();
        let mut lines = EpochLines::default();
        for chunk in stream.chunks(chunk) {
            lines.feed(chunk, &mut |told| found.push(told.number));
        }
        lines.finish(&mut |told| found.push(told.number));
        found
    }

    #[test]
    fn however_a_stream_is_cut_its_lines_say_the_same() {
        let stream = b"start\r\nEpoch 1/9\r\n\rEpoch 2:  10%|# \rEpoch 2:  20%|## \n\
            \x1b[32m[INFO]\x1b[0m Train Epoch: \x1b[1m3\x1b[0m [64/640]\nother\n\n\
            {'loss': 0.7, 'epoch': 4.25}\nEpoch 5";
        for chunk in 1..=stream.len() {
            assert_eq!(
                numbers(stream, chunk),
                [1, 2, 2, 3, 4, 5],
                "chunks of {chunk}"
            );
        }
    }

    #[test]
    fn a_tables_head_makes_its_first_row_readable() {
        let stream = b"\n      Epoch    GPU_mem   box_loss  Instances       Size\n\
            \r\x1b[K        2/50      3.7G      1.108         31        640: 4% \
            \r\x1b[K        2/50      3.7G      1.101         29        640: 9% \n        7/8 done\n";
        for chunk in 1..=stream.len() {
            assert_eq!(numbers(stream, chunk), [2], "chunks of {chunk}");
        }
    }

    #[test]
    fn a_long_line_is_looked_at_no_further_than_its_beginning() {
        let mut stream = b"Epoch 3 ".to_vec();
        stream.resize(3 * LOOKED_AT, b'.');
        stream.extend_from_slice(b" Epoch 9\nEpoch 4\n");
        for chunk in [100, 777, LOOKED_AT, stream.len()] {
            assert_eq!(numbers(&stream, chunk), [3, 4], "chunks of {chunk}");
        }
    }

    #[test]
    fn any_bytes_are_survived() {
        let pieces: [&[u8]; 7] = [
            b"Epoch ",
            b"\x1b[3",
            b"\xff\xfe",
            b"12",
            b"\r\n",
            b"%|#| ",
            b"[(",
        ];
        let mut seed = 7_u64;
        for _ in 0..2_000 {
            let mut stream = Vec::new();
            for _ in 0..12 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                stream.extend_from_slice(pieces[(seed >> 33) as usize % pieces.len()]);
            }
            assert_eq!(numbers(&stream, 3), numbers(&stream, stream.len()));
        }
    }

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
