//! A recording as a stream with a state behind it: forward event by event, to the next OOM or run, and
//! back by beginning again. What is held does not grow with the recording.

use super::output_position::{OutputPosition, ShownOutput};
use super::upcoming::Upcoming;
use crate::commands::report::unreadable;
use crate::diagnosis::{self, Finding};
use crate::event::EventKind;
use crate::session;
use crate::state::{Run, RunOutcome, State};
use crate::ui::SeekTarget;
use crate::units::{Moment, RunNumber};
use anyhow::Context;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Events applied before the screen and the keys have their turn again.
const AT_A_TIME: usize = 2_000;

pub(super) struct Reel {
    path: PathBuf,
    upcoming: Upcoming,
    pub(super) state: State,
    pub(super) findings: Vec<Finding>,
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
    /// The end of the next run that memory runs out in.
    Oom,
    /// The start of this run.
    RunStart(RunNumber),
}

/// What a turn brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// Nothing more up to that moment.
    Done,
    /// There is more to apply.
    More,
    /// A run has just ended for want of memory.
    RanOut,
}

impl Reel {
    /// At its first event.
    pub(super) fn open(path: &Path) -> anyhow::Result<Reel> {
        let mut reel = Reel {
            path: path.to_owned(),
            upcoming: Upcoming::of(session::read(path).map_err(unreadable)?),
            state: State::default(),
            findings: Vec::new(),
            output: OutputPosition::default(),
            corrupt: 0,
            seeking: None,
        };
        if reel.next_at().is_none()
            && let Some(error) = reel.upcoming.broken.take()
        {
            return Err(unreadable(error));
        }
        anyhow::ensure!(
            reel.next_at().is_some(),
            "{} contains no recorded event; pass the events.jsonl of a session",
            path.display()
        );
        Ok(reel)
    }

    /// When the next event is; `None` at the end.
    pub(super) fn next_at(&self) -> Option<Moment> {
        self.upcoming.next_at()
    }

    /// Lines that were no events; they are passed over.
    pub(super) fn corrupt(&self) -> u64 {
        self.corrupt.max(self.upcoming.corrupt)
    }

    /// How far the program's output was at that moment.
    pub(super) fn output(&self, at: Moment) -> ShownOutput {
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
    pub(super) fn turn(&mut self, until: Moment) -> Turn {
        for _ in 0..AT_A_TIME {
            if self.has_arrived() {
                // `until` is of before the search.
                self.seeking = None;
                return Turn::Done;
            }
            let is_due = match self.seeking {
                Some(Seeking::To(moment)) => self.next_at() <= Some(moment),
                Some(Seeking::Oom | Seeking::RunStart(_)) => true,
                None => self.next_at() <= Some(until),
            };
            if self.next_at().is_none() || !is_due {
                self.seeking = None;
                return Turn::Done;
            }
            let sought = self.seeking;
            if self.step() && !matches!(sought, Some(Seeking::To(_) | Seeking::RunStart(_))) {
                self.seeking = None;
                return Turn::RanOut;
            }
        }
        Turn::More
    }

    fn has_arrived(&self) -> bool {
        match self.seeking {
            Some(Seeking::To(moment)) => self.next_at() > Some(moment),
            Some(Seeking::RunStart(number)) => {
                self.state.run().map(|run| run.number) >= Some(number)
            }
            Some(Seeking::Oom) | None => false,
        }
    }

    pub(super) fn is_seeking(&self) -> bool {
        self.seeking.is_some()
    }

    /// Begins to seek a moment after the present one.
    pub(super) fn seek_to(&mut self, moment: Moment) {
        self.seeking = Some(Seeking::To(moment));
    }

    /// Begins to seek from `position`; `stride` is how far back and forward go.
    pub(super) fn seek(
        &mut self,
        target: SeekTarget,
        position: Moment,
        stride: Duration,
    ) -> anyhow::Result<()> {
        let run = self.state.run().map_or(RunNumber(0), |run| run.number);
        self.seeking = Some(match target {
            SeekTarget::Forward => Seeking::To(position + stride),
            SeekTarget::Back => {
                let stride = stride.as_micros() as u64;
                self.rewind()?;
                Seeking::To(Moment(position.0.saturating_sub(stride)))
            }
            SeekTarget::NextOom => Seeking::Oom,
            SeekTarget::NextRun => Seeking::RunStart(run.next()),
            SeekTarget::PreviousRun => {
                self.rewind()?;
                Seeking::RunStart(RunNumber(run.0.saturating_sub(1).max(1)))
            }
        });
        Ok(())
    }

    fn rewind(&mut self) -> anyhow::Result<()> {
        let again = Reel::open(&self.path);
        let corrupt = self.corrupt();
        *self = again.context("the recording cannot be read from its start again")?;
        self.corrupt = corrupt;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reel(name: &str) -> Reel {
        let path = format!("{}/tests/replay/{name}.jsonl", env!("CARGO_MANIFEST_DIR"));
        Reel::open(Path::new(&path)).unwrap()
    }

    /// Turns until nothing more is to be done.
    fn settle(reel: &mut Reel, until: Moment) -> Turn {
        loop {
            match reel.turn(until) {
                Turn::More => {}
                done => return done,
            }
        }
    }

    #[test]
    fn the_next_oom_is_found_and_time_goes_back() {
        let mut reel = reel("capacity");
        let start = Moment::ZERO;
        assert_eq!(settle(&mut reel, start), Turn::Done);
        reel.seek(SeekTarget::NextOom, start, Duration::ZERO)
            .unwrap();
        assert_eq!(settle(&mut reel, start), Turn::RanOut);
        assert!(!reel.findings.is_empty() && !reel.is_seeking());
        let end = reel.state.now;
        let stride = Duration::from_secs(5);
        reel.seek(SeekTarget::Back, end, stride).unwrap();
        assert_eq!(settle(&mut reel, end), Turn::Done);
        assert!(reel.state.oom().is_none(), "it is before the OOM again");
        assert!(end.since(reel.state.now) >= stride);
        reel.seek(SeekTarget::Forward, reel.state.now, Duration::from_secs(60))
            .unwrap();
        settle(&mut reel, start);
        assert_eq!(reel.next_at(), None);
        assert!(reel.state.oom().is_some());
    }

    #[test]
    fn a_run_that_is_not_there_is_the_end() {
        let mut reel = reel("leak");
        reel.seek(SeekTarget::NextRun, Moment::ZERO, Duration::ZERO)
            .unwrap();
        settle(&mut reel, Moment::ZERO);
        assert_eq!(reel.state.run().map(|run| run.number), Some(RunNumber(1)));
        reel.seek(SeekTarget::PreviousRun, reel.state.now, Duration::ZERO)
            .unwrap();
        settle(&mut reel, Moment::ZERO);
        assert!(reel.state.run().is_some() && reel.next_at().is_some());
    }

    #[test]
    fn what_is_no_recording_is_said() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = Reel::open(file.path()).err().unwrap().to_string();
        assert!(error.contains("no recorded event"), "{error}");
    }
}
