//! Which lines a recording gets for which events; the writer handles the files.
//!
//! Exact events are written at once. Readings are thinned out: the smallest, largest and last one
//! of each stream are written when a bucket closes. The last minute of readings is also kept in
//! memory at full rate, and written at an OOM and at a clean end. All times here are those of the
//! events.

use super::allowance::Allowance;
use super::bucket::ReadingBucket;
use super::fidelity::{Fidelity, ReadingStream, fidelity};
use super::limits::Limits;
use super::line::RecordLine;
use crate::command;
use crate::event::{Event, EventKind, Level, Note, SessionStarted, Started};
use crate::units::{Bytes, Moment, clock_face};
use std::collections::VecDeque;
use std::time::Duration;

/// The minimum time between two notes about events that exceeded the limits.
const BETWEEN_OVERFLOWS: Duration = Duration::from_secs(600);

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
    bucket_saved: Moment,
    last_minute: VecDeque<RecordLine>,
    last_minute_cost: u64,
    full_rate_until: Option<Moment>,
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
    pub(super) fn new(limits: Limits) -> Journal {
        Journal {
            limits,
            oom: Allowance::full(limits.oom),
            exact: Allowance::full(limits.exact),
            now: Moment::ZERO,
            bucket: ReadingBucket::default(),
            bucket_saved: Moment::ZERO,
            last_minute: VecDeque::new(),
            last_minute_cost: 0,
            full_rate_until: None,
            overflow: Overflow::default(),
        }
    }

    /// The lines to write for `event`.
    pub(super) fn accept(&mut self, event: &Event) -> Result<Vec<RecordLine>, serde_json::Error> {
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
            Fidelity::Thinned(stream, value) => self.take_reading(stream, value, line, &mut lines),
            Fidelity::Nothing => {}
        }
        if self.bucket_is_due() {
            write_once(self.bucket.close(), &mut lines);
        }
        lines.extend(self.overflow_note());
        Ok(lines)
    }

    /// The lines of the open bucket, if it is time to save them in case the front is killed.
    pub(super) fn bucket_to_save(&mut self) -> Option<Vec<RecordLine>> {
        let since = self.bucket.opened()?.max(self.bucket_saved);
        (self.now.since(since) >= BETWEEN_SAVES).then(|| {
            self.bucket_saved = self.now;
            self.bucket.lines()
        })
    }

    /// The remaining lines at the end of the session.
    pub(super) fn finish(&mut self) -> Vec<RecordLine> {
        let mut lines = Vec::new();
        write_once(self.bucket.close(), &mut lines);
        write_once(std::mem::take(&mut self.last_minute), &mut lines);
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
        stream: ReadingStream,
        value: u64,
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
        if !self
            .bucket
            .take(stream, value, &line, self.limits.bucket_held)
        {
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

/// Adds to `lines` those that have not been written yet.
fn write_once(more: impl IntoIterator<Item = RecordLine>, lines: &mut Vec<RecordLine>) {
    let unwritten = more.into_iter().filter(|line| !line.is_written());
    lines.extend(unwritten.inspect(RecordLine::set_written));
}

/// A note about the recording itself.
pub(super) fn warning(at: Moment, text: String) -> Event {
    Event {
        at,
        what: EventKind::Note(Note {
            level: Level::Warning,
            text,
        }),
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
