//! Which lines a recording gets for which events; the writer handles the files.
//!
//! Exact events are written at once. Readings are thinned out: the smallest, largest and last one
//! of each stream are written when a bucket closes. They are real readings, so a thinned-out recording needs
//! no other kind of event. The last minute of readings is also kept in memory at full rate, and written at an
//! OOM and at a clean end. All times here are those of the events.

use super::limits::{Allowance, Fidelity, Limits, ReadingStream, fidelity};
use crate::command;
use crate::event::{Event, EventKind, Level, Note, SessionStarted, Started};
use crate::units::{Bytes, Moment, Pid, clock_face};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The minimum time between two notes about events that exceeded the limits.
const BETWEEN_OVERFLOWS: Duration = Duration::from_secs(600);

/// At most one line a second, though a look may come a little early.
const BETWEEN_HOST_LINES: Duration = Duration::from_millis(990);

/// How often an open bucket is saved.
const BETWEEN_SAVES: Duration = Duration::from_secs(10);

/// Turns events into the lines to write.
#[derive(Debug)]
pub(super) struct Journal {
    limits: Limits,
    oom: Allowance,
    exact: Allowance,
    now: Moment,
    bucket: ReadingBucket,
    turns: TurningPoints,
    bucket_saved: Moment,
    last_minute: VecDeque<RecordLine>,
    last_minute_cost: u64,
    full_rate_until: Option<Moment>,
    host: HostLines,
    overflow: Overflow,
}

/// Events that exceeded the limits.
#[derive(Debug, Default)]
struct Overflow {
    events: u64,
    since: Moment,
    told: Option<Moment>,
}

impl Journal {
    pub fn new(limits: Limits) -> Journal {
        Journal {
            limits,
            oom: Allowance::full(limits.oom),
            exact: Allowance::full(limits.exact),
            now: Moment::ZERO,
            bucket: ReadingBucket::default(),
            turns: TurningPoints::default(),
            bucket_saved: Moment::ZERO,
            last_minute: VecDeque::new(),
            last_minute_cost: 0,
            full_rate_until: None,
            host: HostLines::new(limits),
            overflow: Overflow::default(),
        }
    }

    /// The lines to write for `event`.
    pub fn accept(&mut self, event: &Event) -> Result<Vec<RecordLine>, serde_json::Error> {
        let kept = fidelity(&event.what);
        let vital = matches!(kept, Fidelity::Vital | Fidelity::Oom);
        let line = match without_secrets(&event.what) {
            Some(what) => RecordLine::new(&Event { at: event.at, what }, vital)?,
            None => RecordLine::new(event, vital)?,
        };
        self.now = self.now.max(event.at);
        let mut lines = Vec::new();
        match kept {
            Fidelity::Vital => lines.push(line),
            Fidelity::Oom => self.take_oom(line, &mut lines),
            Fidelity::Exact if self.exact.spend(line.cost(), self.now) => lines.push(line),
            Fidelity::Exact => self.count_overflow(),
            Fidelity::Thinned(stream, value) => {
                let turn = self.turns.take(&event.what);
                let reading = BucketReading {
                    stream,
                    value,
                    turn,
                };
                self.take_reading(reading, line, &mut lines);
            }
            Fidelity::Host { is_urgent } => {
                self.remember(line.clone());
                lines.extend(self.host.take(line, is_urgent, self.now));
            }
            Fidelity::Nothing => {}
        }
        if matches!(event.what, EventKind::Exited(_) | EventKind::HostKill(_)) {
            // What it came to, however seldom that could be written.
            write_once(self.host.latest.clone(), &mut lines);
        }
        if self.bucket_is_due() {
            write_once(self.bucket.close(), &mut lines);
        }
        lines.extend(self.overflow_note());
        Ok(lines)
    }

    /// The lines of the open bucket, if it is time to save them in case the front is killed.
    pub fn bucket_to_save(&mut self) -> Option<Vec<RecordLine>> {
        let since = self
            .bucket
            .opened()
            .map(|opened| opened.max(self.bucket_saved));
        let is_due = since.is_some_and(|since| self.now.since(since) >= BETWEEN_SAVES);
        (is_due || self.host.is_to_be_saved()).then(|| {
            self.bucket_saved = self.now;
            let mut lines = self.bucket.lines();
            lines.extend(self.host.saved());
            lines
        })
    }

    /// The remaining lines at the end of the session.
    pub fn finish(&mut self) -> Vec<RecordLine> {
        let mut lines = Vec::new();
        write_once(self.bucket.close(), &mut lines);
        write_once(std::mem::take(&mut self.last_minute), &mut lines);
        write_once(self.host.latest.take(), &mut lines);
        self.overflow.told = None;
        lines.extend(self.overflow_note());
        lines
    }

    fn take_oom(&mut self, line: RecordLine, lines: &mut Vec<RecordLine>) {
        if !self.oom.spend(line.cost(), self.now) {
            return self.count_overflow();
        }
        let at = line.at;
        // The record first: if the file is cut off, it is the line that matters.
        lines.push(line);
        self.full_rate_until = self.full_rate_until.max(Some(at + self.limits.after_oom));
        let mut room = self.room_around_oom();
        let unwritten = self.last_minute.iter().rev();
        let newest_that_fit = unwritten
            .filter(|line| !line.is_written())
            .take_while(|line| {
                let fits = line.cost().0 <= room;
                room = room.saturating_sub(line.cost().0);
                fits && at.since(line.at) <= self.limits.before_oom
            });
        let before: Vec<RecordLine> = newest_that_fit.cloned().collect();
        let cost: Bytes = before.iter().map(RecordLine::cost).sum();
        if self.oom.spend(cost, self.now) {
            write_once(before.into_iter().rev(), lines);
        }
        // Written once: the next OOM adds only readings after this one.
        self.last_minute.clear();
        self.last_minute_cost = 0;
    }

    /// What may be spent on readings around an OOM: a part is reserved for the records.
    fn room_around_oom(&mut self) -> u64 {
        let reserved = self.limits.oom_records.0;
        self.oom.left(self.now).0.saturating_sub(reserved)
    }

    fn take_reading(
        &mut self,
        reading: BucketReading,
        line: RecordLine,
        lines: &mut Vec<RecordLine>,
    ) {
        if self.full_rate_until >= Some(line.at)
            && self.room_around_oom() >= line.cost().0
            && self.oom.spend(line.cost(), self.now)
        {
            return lines.push(line);
        }
        self.remember(line.clone());
        if !self.bucket.take(reading, &line, self.limits.bucket_held) {
            self.count_overflow();
        }
    }

    fn remember(&mut self, line: RecordLine) {
        self.last_minute_cost += line.cost().0;
        self.last_minute.push_back(line);
        while let Some(oldest) = self.last_minute.front() {
            let stale = self.now.since(oldest.at) > self.limits.before_oom;
            if !stale && self.last_minute_cost <= self.limits.before_oom_held.0 {
                break;
            }
            self.last_minute_cost -= oldest.cost().0;
            self.last_minute.pop_front();
        }
    }

    /// A bucket stays open as long as its lines take at the rate at which the recording may grow:
    /// more ranks make longer buckets, not a larger file.
    fn bucket_is_due(&self) -> bool {
        self.bucket.opened().is_some_and(|opened| {
            let span = self.now.since(opened);
            let rate = self.limits.thinned_rate(self.now);
            span >= self.limits.bucket && self.bucket.cost().0 as f64 <= rate * span.as_secs_f64()
        })
    }

    fn count_overflow(&mut self) {
        if self.overflow.events == 0 {
            self.overflow.since = self.now;
        }
        self.overflow.events += 1;
    }

    fn overflow_note(&mut self) -> Option<RecordLine> {
        let lately = |told: Moment| self.now.since(told) < BETWEEN_OVERFLOWS;
        if self.overflow.events == 0 || self.overflow.told.is_some_and(lately) {
            return None;
        }
        let text = format!(
            "{} events since {} were not recorded: they exceed the recording's size limit for their kind",
            self.overflow.events,
            clock_face(self.overflow.since.since(Moment::ZERO)),
        );
        self.overflow = Overflow {
            told: Some(self.now),
            ..Overflow::default()
        };
        RecordLine::new(&warning(self.now, text), true).ok()
    }
}

/// Readings of the host's memory. They are written as far as their budget goes, less often the longer the session lasts. Near the
/// limit the latest is saved beside the recording each time: the kernel may kill us with the training.
#[derive(Debug)]
struct HostLines {
    allowance: Allowance,
    latest: Option<RecordLine>,
    is_unsaved: bool,
    next: Moment,
}

impl HostLines {
    fn new(limits: Limits) -> HostLines {
        HostLines {
            allowance: Allowance::full(limits.host),
            latest: None,
            is_unsaved: false,
            next: Moment::ZERO,
        }
    }

    /// The line if it may be written.
    fn take(&mut self, line: RecordLine, is_urgent: bool, now: Moment) -> Option<RecordLine> {
        self.latest = Some(line.clone());
        self.is_unsaved = is_urgent;
        let may_be_written = now >= self.next && self.allowance.spend(line.cost(), now);
        may_be_written.then(|| {
            self.next = now + BETWEEN_HOST_LINES;
            self.is_unsaved = false;
            line.set_written();
            line
        })
    }

    fn is_to_be_saved(&self) -> bool {
        self.is_unsaved
    }

    fn saved(&mut self) -> Option<RecordLine> {
        self.is_unsaved = false;
        self.latest.clone()
    }
}

/// Adds to `lines` those that have not been written yet.
fn write_once(more: impl IntoIterator<Item = RecordLine>, lines: &mut Vec<RecordLine>) {
    let unwritten = more.into_iter().filter(|line| !line.is_written());
    lines.extend(unwritten.inspect(RecordLine::set_written));
}

/// A note about the recording itself.
pub(super) fn warning(at: Moment, text: String) -> Event {
    Event {
        at,
        what: EventKind::Note(Note::new(Level::Warning, text)),
    }
}

/// The event with the secrets of its command, or of lines of the program, masked, if it has any. Callers mask them too; here it
/// can't be forgotten.
fn without_secrets(what: &EventKind) -> Option<EventKind> {
    let mut masked = match what {
        EventKind::SessionStarted(_) | EventKind::Started(_) | EventKind::SourceText(_) => {
            what.clone()
        }
        _ => return None,
    };
    match &mut masked {
        EventKind::SessionStarted(SessionStarted { command, .. })
        | EventKind::Started(Started { command, .. }) => *command = command.without_secrets(),
        EventKind::SourceText(source) => {
            for line in &mut source.lines {
                line.text = command::without_secrets(&line.text).into_owned();
            }
        }
        _ => {}
    }
    Some(masked)
}

/// A reading for the bucket.
#[derive(Debug)]
struct BucketReading {
    stream: ReadingStream,
    /// The number whose extremes matter.
    value: u64,
    turn: ReadingTurn,
}

/// What a prediction rests on beside the extremes, so that a recording predicts what the session did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadingTurn {
    No,
    /// More lies in pieces than ever before.
    MorePieces,
    /// The cache was given back for the first time: what was reserved until then is in the reading before.
    FirstRetry,
}

/// Processes on devices of which the turning points are looked for.
const TURNING: usize = 4_096;

/// How far each process's readings have come.
#[derive(Debug, Default)]
struct TurningPoints(HashMap<(Pid, u32), ReadingSoFar>);

#[derive(Debug, Default)]
struct ReadingSoFar {
    pieces: Option<Bytes>,
    retries: u64,
}

impl TurningPoints {
    fn take(&mut self, what: &EventKind) -> ReadingTurn {
        let sample = match what {
            EventKind::Sample(sample) => sample,
            // What the first step leaves in pieces is looked at from then on.
            EventKind::Step(step) if step.count <= 1 => {
                self.0.remove(&(step.pid, step.device));
                return ReadingTurn::No;
            }
            _ => return ReadingTurn::No,
        };
        let key = (sample.pid, sample.device);
        if !self.0.contains_key(&key) && self.0.len() >= TURNING {
            return ReadingTurn::No;
        }
        let so_far = self.0.entry(key).or_default();
        let is_first = so_far.retries == 0 && sample.alloc_retries > 0;
        let is_more = sample.inactive_split > so_far.pieces;
        so_far.pieces = so_far.pieces.max(sample.inactive_split);
        so_far.retries = so_far.retries.max(sample.alloc_retries);
        match (is_first, is_more) {
            (true, _) => ReadingTurn::FirstRetry,
            (false, true) => ReadingTurn::MorePieces,
            (false, false) => ReadingTurn::No,
        }
    }
}

/// A bucket of readings that is still open: the smallest, largest and last of each stream, and where it turned.
#[derive(Debug, Default)]
struct ReadingBucket {
    streams: HashMap<ReadingStream, Extremes>,
    opened: Option<Moment>,
    cost: u64,
}

#[derive(Debug)]
struct Extremes {
    smallest: (u64, RecordLine),
    largest: (u64, RecordLine),
    last: RecordLine,
    /// The latest reading with more in pieces than ever before.
    in_pieces: Option<RecordLine>,
    /// The reading before the cache was first given back, and the one after.
    around_retry: Vec<RecordLine>,
}

impl Extremes {
    /// Its lines without duplicates, in order of time.
    fn lines(&self) -> Vec<&RecordLine> {
        let mut lines = vec![&self.smallest.1];
        let turns = self.in_pieces.iter().chain(&self.around_retry);
        for line in [&self.largest.1, &self.last].into_iter().chain(turns) {
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
    fn opened(&self) -> Option<Moment> {
        self.opened
    }

    /// The size of its lines.
    fn cost(&self) -> Bytes {
        Bytes(self.cost)
    }

    /// Adds a reading. Returns `false` for a new stream if the bucket already has `most`: thousands
    /// of short-lived processes must not fill our memory.
    fn take(&mut self, reading: BucketReading, line: &RecordLine, most: Bytes) -> bool {
        let BucketReading {
            stream,
            value,
            turn,
        } = reading;
        match self.streams.get_mut(&stream) {
            Some(extremes) => {
                self.cost -= extremes.cost();
                if value < extremes.smallest.0 {
                    extremes.smallest = (value, line.clone());
                }
                if value > extremes.largest.0 {
                    extremes.largest = (value, line.clone());
                }
                match turn {
                    ReadingTurn::No => {}
                    ReadingTurn::MorePieces => extremes.in_pieces = Some(line.clone()),
                    // It may be the one with the most pieces, too.
                    ReadingTurn::FirstRetry => {
                        extremes.around_retry = vec![extremes.last.clone(), line.clone()];
                    }
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
                        in_pieces: (turn != ReadingTurn::No).then(|| line.clone()),
                        around_retry: Vec::new(),
                    },
                );
            }
        }
        self.opened.get_or_insert(line.at);
        true
    }

    /// Its lines in order of time, without closing it.
    fn lines(&self) -> Vec<RecordLine> {
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
    fn close(&mut self) -> Vec<RecordLine> {
        let lines = self.lines();
        *self = ReadingBucket::default();
        lines
    }
}

/// An event as a line of the recording, including its newline. Shared, not copied, between the bucket, the
/// last minute and the write queue.
#[derive(Debug, Clone)]
pub(super) struct RecordLine {
    /// When the event happened.
    pub at: Moment,
    /// Whether it must survive a full disk: it is held back and written once there is space again.
    pub vital: bool,
    shared: Arc<SharedLine>,
}

/// What all copies of a line have in common.
#[derive(Debug)]
struct SharedLine {
    text: Box<[u8]>,
    written: AtomicBool,
}

impl RecordLine {
    /// The line of `event`; an error if it can't be written as JSON.
    pub fn new(event: &Event, vital: bool) -> Result<RecordLine, serde_json::Error> {
        let mut text = serde_json::to_vec(event)?;
        text.push(b'\n');
        Ok(RecordLine {
            at: event.at,
            vital,
            shared: Arc::new(SharedLine {
                text: text.into(),
                written: AtomicBool::new(false),
            }),
        })
    }

    pub fn text(&self) -> &[u8] {
        &self.shared.text
    }

    pub fn cost(&self) -> Bytes {
        Bytes(self.text().len() as u64)
    }

    /// Whether it, or a copy of it, has been given to the file: a reading waits in the bucket and in the
    /// last minute, and is written from whichever comes first.
    fn is_written(&self) -> bool {
        self.shared.written.load(Ordering::Relaxed)
    }

    fn set_written(&self) {
        self.shared.written.store(true, Ordering::Relaxed);
    }

    /// Whether both are the same event, not only equal ones.
    fn is(&self, other: &RecordLine) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Event, EventKind, Sample};

    fn reading(pid: i32, value: u64) -> BucketReading {
        BucketReading {
            stream: ReadingStream::Sample(Pid(pid), 0),
            value,
            turn: ReadingTurn::No,
        }
    }

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
            assert!(bucket.take(reading(1, value), &line(at, value), Bytes(1 << 20)));
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
        bucket.take(reading(1, 5), &line(1, 5), Bytes(1 << 20));
        assert_eq!(bucket.close().len(), 1);
    }

    #[test]
    fn a_full_bucket_keeps_the_streams_it_has() {
        let mut bucket = ReadingBucket::default();
        let most = Bytes(1);
        assert!(bucket.take(reading(1, 5), &line(1, 5), most));
        assert!(!bucket.take(reading(2, 5), &line(2, 5), most));
        assert!(bucket.take(reading(1, 6), &line(3, 6), most));
    }
}
