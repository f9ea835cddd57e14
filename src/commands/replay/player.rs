//! A recording as a stream with a state behind it: forward event by event, to the next OOM or run, and
//! back by beginning again. What is held does not grow with the recording.

use super::output::{Mark, OutputPosition, ShownOutput, mark_of};
use crate::diagnosis::{self, Finding};
use crate::event::{Event, EventKind};
use crate::query::told::unreadable;
use crate::recording::{self, Events, ReadError};
use crate::state::{Run, RunOutcome, State};
use crate::ui::SeekTarget;
use crate::units::{Bytes, Moment, RunNumber};
use anyhow::Context;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Events applied before the screen and the keys have their turn again.
const AT_A_TIME: usize = 2_000;

/// A recording that is being played.
pub(super) struct RecordingPlayer {
    path: PathBuf,
    upcoming: Upcoming,
    pub state: State,
    pub findings: Vec<Finding>,
    /// How far the program's output was.
    output: OutputPosition,
    /// Lines that were no events, of an earlier pass.
    corrupt: u64,
    seeking: Option<Seeking>,
}

/// What is being sought, over as many turns as it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seeking {
    /// This moment.
    To(Moment),
    /// This moment, or the end of a run before it that memory runs out in.
    Forward(Moment),
    /// The end of the next run that memory runs out in.
    Oom,
    /// The start of this run.
    RunStart(RunNumber),
    /// The recording's end.
    End,
}

/// Events among which the first that shows anything is looked for.
const FIRST_EVENTS: usize = 5_000;

/// What is played before it.
const LEAD: Duration = Duration::from_secs(1);

/// When playing begins, so that there is soon something to see: a training imports and loads for long before it uses the GPU. What
/// it prints meanwhile is something to see, where its output `is_shown`. `None` where that is not known early.
pub(super) fn first_seen(path: &Path, is_shown: bool) -> Option<Moment> {
    let events = recording::read(path).ok()?;
    let first = events
        .take(FIRST_EVENTS)
        .flatten()
        .find(|event| match &event.what {
            EventKind::Sample(sample) => sample.reserved > Bytes::ZERO,
            EventKind::Logged(logged) => is_shown && logged.bytes > Bytes::ZERO,
            EventKind::Oom(_) | EventKind::Exited(_) => true,
            _ => false,
        })?;
    match first.what {
        EventKind::Exited(_) => None,
        _ => Some(Moment(first.at.0.saturating_sub(LEAD.as_micros() as u64))),
    }
}

/// What a turn brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// Nothing more up to that moment.
    Done,
    /// There is more to apply.
    More,
    /// A run has just ended for want of memory, or what is sought is the one that the program caught.
    RanOut,
    /// The end, without an OOM that was sought.
    NoOomAhead,
}

impl RecordingPlayer {
    /// At its first event.
    pub fn open(path: &Path) -> anyhow::Result<RecordingPlayer> {
        let mut player = RecordingPlayer {
            path: path.to_owned(),
            upcoming: Upcoming::new(recording::read(path).map_err(unreadable)?),
            state: State::default(),
            findings: Vec::new(),
            output: OutputPosition::default(),
            corrupt: 0,
            seeking: None,
        };
        if player.next_at().is_none()
            && let Some(error) = player.upcoming.broken.take()
        {
            return Err(unreadable(error));
        }
        anyhow::ensure!(
            player.next_at().is_some(),
            "{} contains no recorded event; pass the events.jsonl of a session",
            path.display()
        );
        Ok(player)
    }

    /// When the next event is; `None` at the end.
    pub fn next_at(&self) -> Option<Moment> {
        self.upcoming.next_at()
    }

    /// Lines that were no events; they are passed over.
    pub fn corrupt(&self) -> u64 {
        self.corrupt.max(self.upcoming.corrupt)
    }

    /// How far the program's output was at that moment.
    pub fn output(&self, at: Moment) -> ShownOutput {
        self.output.at(at, self.upcoming.next_mark())
    }

    /// Applies one event; whether a run ended with it for want of memory.
    fn step(&mut self) -> bool {
        let Some(event) = self.upcoming.take() else {
            return false;
        };
        self.output.apply(&event, self.upcoming.next_mark());
        self.state.apply(&event);
        let exited = matches!(event.what, EventKind::Exited(_));
        if exited || matches!(event.what, EventKind::Oom(_) | EventKind::OomText(_)) {
            self.findings = diagnosis::diagnose(&self.state);
        }
        exited && self.state.run().map(Run::outcome) == Some(RunOutcome::OutOfMemory)
    }

    /// Applies what happened up to `until`, or what is being sought, as far as a turn allows.
    pub fn turn(&mut self, until: Moment) -> Turn {
        for _ in 0..AT_A_TIME {
            if self.has_arrived() {
                // `until` is of before the search.
                self.seeking = None;
                return Turn::Done;
            }
            let is_due = match self.seeking {
                Some(Seeking::To(moment) | Seeking::Forward(moment)) => {
                    self.next_at() <= Some(moment)
                }
                Some(Seeking::Oom | Seeking::RunStart(_) | Seeking::End) => true,
                None => self.next_at() <= Some(until),
            };
            if self.next_at().is_none() || !is_due {
                let sought = self.seeking.take();
                let outcome = self.state.run().map(Run::outcome);
                let ran_out = outcome == Some(RunOutcome::OutOfMemory);
                let ooms = self.state.run().map_or(0, |run| run.ooms.len());
                return match sought {
                    Some(Seeking::End) if ran_out => Turn::RanOut,
                    Some(Seeking::Oom) if ran_out || ooms > 0 => Turn::RanOut,
                    Some(Seeking::Oom) => Turn::NoOomAhead,
                    Some(_) | None => Turn::Done,
                };
            }
            let sought = self.seeking;
            let passes = matches!(
                sought,
                Some(Seeking::To(_) | Seeking::RunStart(_) | Seeking::End)
            );
            if self.step() && !passes {
                self.seeking = None;
                return Turn::RanOut;
            }
        }
        Turn::More
    }

    fn has_arrived(&self) -> bool {
        match self.seeking {
            Some(Seeking::To(moment) | Seeking::Forward(moment)) => self.next_at() > Some(moment),
            Some(Seeking::RunStart(number)) => {
                self.state.run().map(|run| run.number) >= Some(number)
            }
            Some(Seeking::Oom | Seeking::End) | None => false,
        }
    }

    pub fn is_seeking(&self) -> bool {
        self.seeking.is_some()
    }

    /// Begins to seek a moment after the present one.
    pub fn seek_to(&mut self, moment: Moment) {
        self.seeking = Some(Seeking::To(moment));
    }

    /// Begins to seek from `position`; `stride` is how far back and forward go.
    pub fn seek(
        &mut self,
        target: SeekTarget,
        position: Moment,
        stride: Duration,
    ) -> anyhow::Result<()> {
        let run = self.state.run().map_or(RunNumber(0), |run| run.number);
        self.seeking = Some(match target {
            // What is spent at a dialog is no training: on to the next run, or to the end.
            SeekTarget::Forward if self.has_ended() => Seeking::RunStart(run.next()),
            // Where nothing happens for longer, on to what happens next.
            SeekTarget::Forward => {
                let next = self.next_at().unwrap_or(position);
                Seeking::Forward(next.max(position + stride))
            }
            SeekTarget::Back => {
                let stride = stride.as_micros() as u64;
                self.rewind()?;
                Seeking::To(Moment(position.0.saturating_sub(stride)))
            }
            SeekTarget::NextOom => Seeking::Oom,
            SeekTarget::End => Seeking::End,
            SeekTarget::NextRun => Seeking::RunStart(run.next()),
            SeekTarget::PreviousRun => {
                self.rewind()?;
                Seeking::RunStart(RunNumber(run.0.saturating_sub(1).max(1)))
            }
        });
        Ok(())
    }

    fn has_ended(&self) -> bool {
        self.state.run().is_some_and(|run| run.ended.is_some())
    }

    fn rewind(&mut self) -> anyhow::Result<()> {
        let again = RecordingPlayer::open(&self.path);
        let corrupt = self.corrupt();
        *self = again.context("the recording cannot be read from its start again")?;
        self.corrupt = corrupt;
        Ok(())
    }
}

/// Bytes of lines that are read ahead at the most: more than the readings between two marks are.
const AHEAD: u64 = 1 << 20;

/// The events that come next: read ahead as far as the next mark of the output, so that what lies between
/// two marks is shown bit by bit.
struct Upcoming {
    events: Events,
    /// With the lengths of their lines.
    queue: VecDeque<(Event, u64)>,
    held: u64,
    /// Marks in the queue.
    marks: usize,
    ended: bool,
    /// Lines that were no events.
    pub corrupt: u64,
    /// Why it ended before the file did.
    pub broken: Option<ReadError>,
}

impl Upcoming {
    fn new(events: Events) -> Upcoming {
        let mut upcoming = Upcoming {
            events,
            queue: VecDeque::new(),
            held: 0,
            marks: 0,
            ended: false,
            corrupt: 0,
            broken: None,
        };
        upcoming.fill();
        upcoming
    }

    /// When the next event is; `None` at the end.
    fn next_at(&self) -> Option<Moment> {
        self.queue.front().map(|(event, _)| event.at)
    }

    fn take(&mut self) -> Option<Event> {
        let (event, length) = self.queue.pop_front()?;
        self.held -= length;
        self.marks -= usize::from(mark_of(&event).is_some());
        self.fill();
        Some(event)
    }

    /// The next mark, if it is near.
    fn next_mark(&self) -> Option<Mark> {
        match self.marks {
            0 => None,
            _ => self.queue.iter().find_map(|(event, _)| mark_of(event)),
        }
    }

    fn fill(&mut self) {
        while !self.ended && (self.queue.is_empty() || (self.marks == 0 && self.held < AHEAD)) {
            let before = self.events.bytes();
            match self.events.next() {
                Some(Ok(event)) => {
                    self.marks += usize::from(mark_of(&event).is_some());
                    let length = self.events.bytes() - before;
                    self.held += length;
                    self.queue.push_back((event, length));
                }
                Some(Err(ReadError::Corrupt { .. })) => self.corrupt += 1,
                Some(Err(error @ ReadError::Unreadable { .. })) => {
                    self.broken = Some(error);
                    self.ended = true;
                }
                None => self.ended = true,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> PathBuf {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        root.join(format!("tests/replay/{name}.jsonl"))
    }

    fn player(name: &str) -> RecordingPlayer {
        RecordingPlayer::open(&path(name)).unwrap()
    }

    /// Turns until nothing more is to be done.
    fn settle(player: &mut RecordingPlayer, until: Moment) -> Turn {
        loop {
            match player.turn(until) {
                Turn::More => {}
                done => return done,
            }
        }
    }

    /// Where the program's output is shown as well, what it prints while it loads is something to see.
    #[test]
    fn playing_begins_where_there_is_something_to_see() {
        let first = |name: &str| first_seen(&path(name), false);
        let began = first("leak-traced").expect("a reading");
        assert_eq!(began.0 / 1_000_000, 3, "the GPU is used from 0:04 on");
        assert_eq!(first("isolated"), None, "without a probe from its start");
        assert_eq!(first_seen(&path("two-ranks"), true), first("two-ranks"));
    }

    #[test]
    fn the_end_is_how_it_ended() {
        for (name, ended) in [("capacity", Turn::RanOut), ("vit", Turn::Done)] {
            let mut player = player(name);
            player.seek(SeekTarget::End, Moment::ZERO, LEAD).unwrap();
            assert_eq!(settle(&mut player, Moment::ZERO), ended, "{name}");
            assert_eq!(player.next_at(), None, "{name}");
        }
    }

    #[test]
    fn an_oom_that_was_caught_is_found_and_that_there_is_none_is_said() {
        for (name, found) in [("caught", Turn::RanOut), ("vit", Turn::NoOomAhead)] {
            let mut player = player(name);
            player
                .seek(SeekTarget::NextOom, Moment::ZERO, LEAD)
                .unwrap();
            assert_eq!(settle(&mut player, Moment::ZERO), found, "{name}");
        }
    }

    #[test]
    fn the_next_oom_is_found_and_time_goes_back() {
        let mut player = player("capacity");
        let start = Moment::ZERO;
        assert_eq!(settle(&mut player, start), Turn::Done);
        player
            .seek(SeekTarget::NextOom, start, Duration::ZERO)
            .unwrap();
        assert_eq!(settle(&mut player, start), Turn::RanOut);
        assert!(!player.findings.is_empty() && !player.is_seeking());
        let end = player.state.now;
        let stride = Duration::from_secs(5);
        player.seek(SeekTarget::Back, end, stride).unwrap();
        assert_eq!(settle(&mut player, end), Turn::Done);
        assert!(player.state.oom().is_none(), "it is before the OOM again");
        assert!(end.since(player.state.now) >= stride);
        player
            .seek(
                SeekTarget::Forward,
                player.state.now,
                Duration::from_secs(60),
            )
            .unwrap();
        assert_eq!(settle(&mut player, start), Turn::RanOut, "not past it");
        assert!(player.state.oom().is_some());
        let found = player.state.now;
        player
            .seek(SeekTarget::Forward, found, Duration::from_secs(60))
            .unwrap();
        settle(&mut player, start);
        assert_eq!(player.next_at(), None, "and on from there");
    }

    #[test]
    fn forward_passes_what_is_longer_than_its_stride() {
        let mut player = player("leak");
        let start = Moment::ZERO;
        let first = player.next_at().expect("an event");
        let stride = Duration::from_micros(1);
        for _ in 0..3 {
            let before = player.next_at();
            player.seek(SeekTarget::Forward, start, stride).unwrap();
            settle(&mut player, start);
            assert!(player.next_at() > before, "{first:?}");
        }
    }

    #[test]
    fn a_run_that_is_not_there_is_the_end() {
        let mut player = player("leak");
        player
            .seek(SeekTarget::NextRun, Moment::ZERO, Duration::ZERO)
            .unwrap();
        settle(&mut player, Moment::ZERO);
        assert_eq!(player.state.run().map(|run| run.number), Some(RunNumber(1)));
        player
            .seek(SeekTarget::PreviousRun, player.state.now, Duration::ZERO)
            .unwrap();
        settle(&mut player, Moment::ZERO);
        assert!(player.state.run().is_some() && player.next_at().is_some());
    }

    #[test]
    fn what_is_no_recording_is_said() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = RecordingPlayer::open(file.path())
            .err()
            .unwrap()
            .to_string();
        assert!(error.contains("no recorded event"), "{error}");
    }
}
