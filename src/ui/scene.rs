//! All that is drawn, borrowed from the loop for one frame or one key.

use crate::command::CommandLine;
use crate::diagnosis::{Cause, Finding};
use crate::forecast::{BatchRoom, NoRoom};
use crate::recognize::LaunchEnvironment;
use crate::remedy::{EditedNeed, Plan, Remedy, RemedyId, UndoneRemedy};
use crate::state::{RunOutcome, State};
use crate::units::{Bytes, Moment, RunNumber};
use std::path::Path;
use std::time::Duration;

#[derive(Clone, Copy)]
pub struct Scene<'a> {
    pub state: &'a State,
    /// The most certain first.
    pub findings: &'a [Finding],
    /// The best first.
    pub remedies: &'a [Remedy],
    /// The current run's command, which remedies change; `None` where there are none.
    pub command: Option<&'a CommandLine>,
    /// What the runs' commands are read with.
    pub launch: LaunchEnvironment<'a>,
    /// What the command in the editor would need, once that was worked out.
    pub edited: Option<&'a EditedNeed>,
    /// What was undone of the latest run.
    pub undone: Option<&'a UndoneRemedy>,
    pub room_for_batch: RoomForBatch,
    /// What a relaunch or the end of the session waits for, in words.
    pub waiting: Option<&'a str>,
    /// The path of the recording.
    pub recording: Option<&'a Path>,
    pub subject: Subject<'a>,
}

/// The largest batch that would fit while all is well.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum RoomForBatch {
    /// No larger one is worth a word, or nothing says what it would need.
    #[default]
    Unknown,
    /// A traced step is being replayed at other batches.
    InSearch,
    /// One was traced, and whether later steps have a higher peak is being watched.
    Unsettled,
    /// The batch could go a little further, or no further.
    Little,
    /// The run has ended, and none is named.
    Without(NoRoom),
    Known(BatchRoom),
}

impl RoomForBatch {
    pub fn known(self) -> Option<BatchRoom> {
        match self {
            RoomForBatch::Known(room) => Some(room),
            RoomForBatch::Unknown
            | RoomForBatch::InSearch
            | RoomForBatch::Unsettled
            | RoomForBatch::Little
            | RoomForBatch::Without(_) => None,
        }
    }
}

/// What is looked at, which decides what can be done to it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Subject<'a> {
    /// A session of this front's.
    Own,
    /// A recording that is played.
    Recording(Replay),
    /// A session that runs out of reach, by its files: it can be watched, and no more.
    Elsewhere(Elsewhere<'a>),
}

/// Where a session is that can only be watched.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Elsewhere<'a> {
    /// The machine's name in words: `gpu-7`, `this machine`.
    pub place: &'a str,
    /// How long ago it was heard; `None` if it has ended.
    pub heard: Option<Duration>,
    /// Why it could not be heard for a while, or its files not be read.
    pub trouble: Option<&'a str>,
    /// What to type for a screen that can act on it.
    pub command: &'a str,
}

impl<'a> Scene<'a> {
    /// A scene with a state and nothing else.
    pub fn of(state: &'a State) -> Scene<'a> {
        Scene {
            state,
            findings: &[],
            remedies: &[],
            command: None,
            launch: LaunchEnvironment {
                told: state.knobs.as_ref(),
                ..LaunchEnvironment::default()
            },
            edited: None,
            undone: None,
            room_for_batch: RoomForBatch::Unknown,
            waiting: None,
            recording: None,
            subject: Subject::Own,
        }
    }

    /// The current run's command with these remedies applied; `None` where there are none.
    pub fn planned(&self, ids: &[RemedyId]) -> Option<CommandLine> {
        let chosen = self
            .remedies
            .iter()
            .filter(|remedy| ids.contains(&remedy.id));
        Some(Plan::new(self.command?, &chosen.collect::<Vec<_>>()).command)
    }

    /// The most certain cause.
    pub fn cause(&self) -> Option<Cause> {
        self.findings.first().map(|finding| finding.cause)
    }

    /// Whether a training runs that keys can reach.
    pub fn is_running(&self) -> bool {
        let run = self.state.run();
        self.is_own() && run.is_some_and(|run| run.outcome() == RunOutcome::Running)
    }

    /// Whether keys can act on the session.
    pub fn is_own(&self) -> bool {
        match self.subject {
            Subject::Own => true,
            Subject::Recording(_) | Subject::Elsewhere(_) => false,
        }
    }

    /// Whether its last run's command can be started again, now or once it has been stopped.
    pub fn can_relaunch(&self) -> bool {
        let can = match self.subject {
            Subject::Own => self.waiting.is_none(),
            Subject::Recording(replay) => replay.shown == ShownRun::Last,
            Subject::Elsewhere(_) => false,
        };
        can && self.state.run().is_some()
    }

    /// Whether there is output to look at.
    pub fn has_output(&self) -> bool {
        match self.subject {
            Subject::Own | Subject::Elsewhere(_) => true,
            Subject::Recording(replay) => replay.output == RecordedOutput::Shown,
        }
    }

    /// Whether it goes on by itself, with its output.
    pub fn is_live(&self) -> bool {
        match self.subject {
            Subject::Own | Subject::Elsewhere(_) => true,
            Subject::Recording(_) => false,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Replay {
    /// Seconds of the recording per second.
    pub speed: f64,
    /// What is shown is of this moment.
    pub position: Moment,
    pub pace: Pace,
    pub output: RecordedOutput,
    pub shown: ShownRun,
}

/// Which of a recording's runs is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShownRun {
    /// The last one, which has ended: its command can be started from here.
    Last,
    /// One that others followed, up to this one.
    Earlier(LaterRun),
    /// That is not known yet, or the last one has not ended.
    Unknown,
}

/// A recording's last run, for whoever looks at an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaterRun {
    pub number: RunNumber,
    /// Whether it trained and did not run out of memory.
    pub ran: Option<RanWell>,
}

/// What became of a run that trained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RanWell {
    pub batch: Option<u64>,
    pub steps: u64,
    pub peak: Bytes,
}

impl LaterRun {
    /// "run 2, batch 8, ran 12 steps: peak 762 MiB"
    pub fn words(self) -> String {
        let number = self.number;
        let Some(ran) = self.ran else {
            return format!("run {number} followed");
        };
        let batch = ran
            .batch
            .map_or(String::new(), |batch| format!(", batch {batch},"));
        let steps = match ran.steps {
            1 => "1 step".to_string(),
            steps => format!("{steps} steps"),
        };
        format!("run {number}{batch} ran {steps}: peak {}", ran.peak)
    }
}

/// Whether a replay has the program's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordedOutput {
    Shown,
    /// No log lies beside the recording.
    NotThere,
    /// The recording does not say when the output came.
    AtTheEnd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    Playing,
    Paused,
    AtEnd,
}
