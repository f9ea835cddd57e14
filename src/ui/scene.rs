//! All that is drawn, borrowed from the loop for one frame or one key.

use crate::command::CommandLine;
use crate::diagnosis::Finding;
use crate::forecast::BatchRoom;
use crate::remedy::{Remedy, RemedyId};
use crate::state::{RunOutcome, State};
use crate::units::Moment;
use std::path::Path;

#[derive(Clone, Copy)]
pub struct Scene<'a> {
    pub state: &'a State,
    /// The most certain first.
    pub findings: &'a [Finding],
    /// The best first.
    pub remedies: &'a [Remedy],
    /// The current run's command with these remedies applied; `None` if they cannot be combined.
    pub plan: &'a dyn Fn(&[RemedyId]) -> Option<CommandLine>,
    /// The largest batch that would fit, if the memory model is certain.
    pub room_for_batch: Option<BatchRoom>,
    /// What a relaunch or the end of the session waits for, in words.
    pub waiting: Option<&'a str>,
    /// The path of the recording.
    pub recording: Option<&'a Path>,
    /// Set if a recording is played.
    pub replay: Option<Replay>,
}

impl<'a> Scene<'a> {
    /// A scene with a state and nothing else.
    pub fn of(state: &'a State) -> Scene<'a> {
        Scene {
            state,
            findings: &[],
            remedies: &[],
            plan: &|_| None,
            room_for_batch: None,
            waiting: None,
            recording: None,
            replay: None,
        }
    }

    /// Whether a training runs; never in a recording.
    pub fn is_running(&self) -> bool {
        let run = self.state.run();
        self.replay.is_none() && run.is_some_and(|run| run.outcome() == RunOutcome::Running)
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
