//! The smallest, largest and last reading of each stream since the bucket was opened: real
//! readings, so a thinned-out recording needs no other kind of event.

use super::fidelity::ReadingStream;
use super::line::RecordLine;
use crate::units::{Bytes, Moment};
use std::collections::HashMap;

/// A bucket of readings that is still open.
#[derive(Debug, Default)]
pub(super) struct ReadingBucket {
    streams: HashMap<ReadingStream, Extremes>,
    opened: Option<Moment>,
    cost: u64,
}

#[derive(Debug)]
struct Extremes {
    smallest: (u64, RecordLine),
    largest: (u64, RecordLine),
    last: RecordLine,
}

impl Extremes {
    /// Its lines without duplicates, in order of time.
    fn lines(&self) -> Vec<&RecordLine> {
        let mut lines = vec![&self.smallest.1];
        for line in [&self.largest.1, &self.last] {
            if !lines.iter().any(|kept| kept.is(line)) {
                lines.push(line);
            }
        }
        lines
    }

    fn cost(&self) -> u64 {
        self.lines().iter().map(|line| line.cost().0).sum()
    }
}

impl ReadingBucket {
    /// When the first reading came.
    pub(super) fn opened(&self) -> Option<Moment> {
        self.opened
    }

    /// The size of its lines.
    pub(super) fn cost(&self) -> Bytes {
        Bytes(self.cost)
    }

    /// Adds a reading. Returns `false` for a new stream if the bucket already has `most`: thousands
    /// of short-lived processes must not fill our memory.
    pub(super) fn take(
        &mut self,
        stream: ReadingStream,
        value: u64,
        line: &RecordLine,
        most: Bytes,
    ) -> bool {
        match self.streams.get_mut(&stream) {
            Some(extremes) => {
                self.cost -= extremes.cost();
                if value < extremes.smallest.0 {
                    extremes.smallest = (value, line.clone());
                }
                if value > extremes.largest.0 {
                    extremes.largest = (value, line.clone());
                }
                extremes.last = line.clone();
                self.cost += extremes.cost();
            }
            None if Bytes(self.cost) >= most => return false,
            None => {
                self.cost += line.cost().0;
                self.streams.insert(
                    stream,
                    Extremes {
                        smallest: (value, line.clone()),
                        largest: (value, line.clone()),
                        last: line.clone(),
                    },
                );
            }
        }
        self.opened.get_or_insert(line.at);
        true
    }

    /// Its lines in order of time, without closing it.
    pub(super) fn lines(&self) -> Vec<RecordLine> {
        let mut lines: Vec<RecordLine> = self
            .streams
            .values()
            .flat_map(Extremes::lines)
            .cloned()
            .collect();
        // Ties are broken by the text, so that the same events give the same file.
        lines.sort_by(|a, b| (a.at, a.text()).cmp(&(b.at, b.text())));
        lines
    }

    /// Empties the bucket and returns its lines in order of time.
    pub(super) fn close(&mut self) -> Vec<RecordLine> {
        let lines = self.lines();
        *self = ReadingBucket::default();
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Event, EventKind, Sample};
    use crate::units::Pid;

    fn line(at: u64, allocated: u64) -> RecordLine {
        let sample = Sample {
            allocated: Bytes(allocated),
            ..Sample::default()
        };
        let event = Event {
            at: Moment(at),
            what: EventKind::Sample(sample),
        };
        RecordLine::new(&event, false).unwrap()
    }

    #[test]
    fn the_extremes_and_the_last_stay() {
        let mut bucket = ReadingBucket::default();
        for (at, value) in [(1, 5), (2, 9), (3, 1), (4, 6), (5, 7)] {
            assert!(bucket.take(
                ReadingStream::Sample(Pid(1), 0),
                value,
                &line(at, value),
                Bytes(1 << 20)
            ));
        }
        let cost = bucket.cost();
        let lines = bucket.close();
        assert_eq!(lines.iter().map(|l| l.at.0).collect::<Vec<_>>(), [2, 3, 5]);
        assert_eq!(cost, lines.iter().map(RecordLine::cost).sum());
        assert_eq!(bucket.cost(), Bytes::ZERO);
        assert_eq!(bucket.opened(), None);
    }

    #[test]
    fn one_reading_is_kept_once() {
        let mut bucket = ReadingBucket::default();
        bucket.take(
            ReadingStream::Sample(Pid(1), 0),
            5,
            &line(1, 5),
            Bytes(1 << 20),
        );
        assert_eq!(bucket.close().len(), 1);
    }

    #[test]
    fn a_full_bucket_keeps_the_streams_it_has() {
        let mut bucket = ReadingBucket::default();
        let most = Bytes(1);
        assert!(bucket.take(ReadingStream::Sample(Pid(1), 0), 5, &line(1, 5), most));
        assert!(!bucket.take(ReadingStream::Sample(Pid(2), 0), 5, &line(2, 5), most));
        assert!(bucket.take(ReadingStream::Sample(Pid(1), 0), 6, &line(3, 6), most));
    }
}
