//! Which lines of which events go where: the recording without its files.
//!
//! Exact events go to the recording at once. Readings go at full rate to the *recent* generations
//! beside it, and thinned to the recording itself whenever their bucket closes; at an out-of-memory
//! the last minute of them goes there in full as well. All time here is the events' own.

use super::allowance::Allowance;
use super::bucket::Bucket;
use super::fidelity::{Fidelity, Stream, fidelity};
use super::limits::Limits;
use super::line::RecordLine;
use crate::event::{Event, Level, Note, What};
use crate::units::{Bytes, Moment, clock_face};
use std::collections::VecDeque;
use std::time::Duration;

/// How often at most the recording says that something did not fit into its share.
const BETWEEN_OVERFLOWS: Duration = Duration::from_secs(600);

/// Lines for the disk, of one event or of several.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// For the recording.
    pub main: Vec<RecordLine>,
    /// Begin a new recent generation before `recent` is written.
    pub rotate: bool,
    /// For the recent generation.
    pub recent: Vec<RecordLine>,
    /// Not to be held back for a larger write.
    pub urgent: bool,
}

impl Batch {
    pub(super) fn is_empty(&self) -> bool {
        self.main.is_empty() && self.recent.is_empty() && !self.rotate
    }

    pub(super) fn cost(&self) -> Bytes {
        self.main
            .iter()
            .chain(&self.recent)
            .map(RecordLine::cost)
            .sum()
    }
}

/// The recording's book-keeping.
#[derive(Debug)]
pub(super) struct Journal {
    limits: Limits,
    thinned: Allowance,
    oom: Allowance,
    around_oom: Allowance,
    exact: Allowance,
    now: Moment,
    bucket: Bucket,
    generation: Generation,
    last_minute: VecDeque<RecordLine>,
    last_minute_cost: u64,
    full_rate_until: Option<Moment>,
    overflow: Overflow,
}

#[derive(Debug, Default)]
struct Generation {
    began: Moment,
    cost: u64,
}

/// Events that their share had no room for.
#[derive(Debug, Default)]
struct Overflow {
    events: u64,
    since: Moment,
    said: Option<Moment>,
}

impl Journal {
    pub(super) fn new(limits: Limits) -> Journal {
        Journal {
            limits,
            thinned: Allowance::full(limits.thinned),
            oom: Allowance::full(limits.oom),
            around_oom: Allowance::full(limits.around_oom),
            exact: Allowance::full(limits.exact),
            now: Moment::ZERO,
            bucket: Bucket::default(),
            generation: Generation::default(),
            last_minute: VecDeque::new(),
            last_minute_cost: 0,
            full_rate_until: None,
            overflow: Overflow::default(),
        }
    }

    /// What `event` puts on the disk. Fails where it cannot be written as JSON; nothing else of the
    /// recording is touched by that.
    pub(super) fn accept(&mut self, event: &Event) -> Result<Batch, serde_json::Error> {
        let kept = fidelity(&event.what);
        let mut batch = Batch::default();
        if kept == Fidelity::Nothing {
            return Ok(batch);
        }
        let line = match stored(&event.what) {
            Some(what) => RecordLine::of(&Event { at: event.at, what }, kept == Fidelity::Vital)?,
            None => RecordLine::of(event, matches!(kept, Fidelity::Vital | Fidelity::Oom))?,
        };
        self.now = self.now.max(event.at);
        match kept {
            Fidelity::Vital => batch.main.push(line),
            Fidelity::Oom => self.take_oom(line, &mut batch),
            Fidelity::Exact if self.exact.spend(line.cost(), self.now) => batch.main.push(line),
            Fidelity::Exact => self.overflow(1),
            Fidelity::Thinned(stream, value) => self.take_reading(stream, value, line, &mut batch),
            Fidelity::Nothing => {}
        }
        batch.urgent = !batch.main.is_empty();
        self.close_bucket_in_pace(&mut batch);
        self.tell_overflow(&mut batch);
        Ok(batch)
    }

    /// What is still to be written when the session ends.
    pub(super) fn finish(&mut self) -> Batch {
        let mut batch = Batch {
            main: self.bucket.close(),
            urgent: true,
            ..Batch::default()
        };
        self.overflow.said = None;
        self.tell_overflow(&mut batch);
        batch
    }

    fn take_oom(&mut self, line: RecordLine, batch: &mut Batch) {
        if !self.oom.spend(line.cost(), self.now) {
            return self.overflow(1);
        }
        let at = line.at;
        // The record itself first: should we be cut off, it is the line that counts.
        batch.main.push(line);
        self.full_rate_until = self.full_rate_until.max(Some(at + self.limits.after_oom));
        let mut room = self.around_oom.left(self.now).0;
        let newest_that_fit = self.last_minute.iter().rev().take_while(|line| {
            let fits = line.cost().0 <= room;
            room = room.saturating_sub(line.cost().0);
            fits && at.since(line.at) <= self.limits.before_oom
        });
        let before: Vec<RecordLine> = newest_that_fit.cloned().collect();
        let cost: Bytes = before.iter().map(RecordLine::cost).sum();
        if self.around_oom.spend(cost, self.now) {
            batch.main.extend(before.into_iter().rev());
        }
        // Written once: the next out-of-memory adds only what came after this one.
        self.last_minute.clear();
        self.last_minute_cost = 0;
    }

    fn take_reading(&mut self, stream: Stream, value: u64, line: RecordLine, batch: &mut Batch) {
        if self.full_rate_until >= Some(line.at) && self.around_oom.spend(line.cost(), self.now) {
            batch.main.push(line);
            return;
        }
        self.remember(line.clone());
        self.rotate_if_full(batch);
        self.generation.cost += line.cost().0;
        batch.recent.push(line.clone());
        if !self
            .bucket
            .take(stream, value, &line, self.limits.bucket_held)
        {
            self.overflow(1);
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

    fn rotate_if_full(&mut self, batch: &mut Batch) {
        let full = self.generation.cost >= self.limits.generation.0;
        let old = self.now.since(self.generation.began) >= self.limits.generation_span;
        if full || (old && self.generation.cost > 0) {
            // What the given-up generation held of the open bucket must not be lost with it.
            batch.rotate = true;
            batch.recent = self.bucket.lines();
            self.generation = Generation {
                began: self.now,
                cost: batch.recent.iter().map(|line| line.cost().0).sum(),
            };
        }
    }

    fn close_bucket_in_pace(&mut self, batch: &mut Batch) {
        let Some(opened) = self.bucket.opened() else {
            return;
        };
        let (span, cost) = (self.now.since(opened), self.bucket.cost());
        if span >= self.limits.bucket
            && self.thinned.is_in_pace(cost, span, self.now)
            && self.thinned.spend(cost, self.now)
        {
            batch.main.extend(self.bucket.close());
        }
    }

    fn overflow(&mut self, events: u64) {
        if self.overflow.events == 0 {
            self.overflow.since = self.now;
        }
        self.overflow.events += events;
    }

    fn tell_overflow(&mut self, batch: &mut Batch) {
        let rested = |said: Moment| self.now.since(said) >= BETWEEN_OVERFLOWS;
        if self.overflow.events == 0 || !self.overflow.said.is_none_or(rested) {
            return;
        }
        let text = format!(
            "{} events since {} were not recorded: more than the recording's share for their kind",
            self.overflow.events,
            clock_face(self.overflow.since.since(Moment::ZERO)),
        );
        if let Ok(line) = RecordLine::of(&warning(self.now, text), true) {
            batch.main.push(line);
        }
        self.overflow = Overflow {
            events: 0,
            since: self.now,
            said: Some(self.now),
        };
    }
}

/// A note of ours as an event.
pub(super) fn warning(at: Moment, text: String) -> Event {
    Event {
        at,
        what: What::Note(Note {
            level: Level::Warning,
            text,
        }),
    }
}

/// The event as it may be stored, where that differs from the event: secrets are masked here once
/// more, so that no caller can forget it.
fn stored(what: &What) -> Option<What> {
    match what {
        What::SessionStarted(started) => {
            let mut started = started.clone();
            started.command = started.command.without_secrets();
            Some(What::SessionStarted(started))
        }
        What::Started(started) => {
            let mut started = started.clone();
            started.command = started.command.without_secrets();
            Some(What::Started(started))
        }
        What::SpawnFailed(_)
        | What::Exited(_)
        | What::Nvml(_)
        | What::Device(_)
        | What::Hello(_)
        | What::Sample(_)
        | What::Step(_)
        | What::Structure(_)
        | What::Patchable(_)
        | What::Patch(_)
        | What::Oom(_)
        | What::ProbeGone(_)
        | What::OomText(_)
        | What::Epoch(_)
        | What::StopRequested(_)
        | What::Note(_)
        | What::Dropped(_)
        | What::Unknown => None,
    }
}
