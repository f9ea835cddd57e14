//! What the loop knows, borrowed for one frame or one key.

use crate::command::CommandLine;
use crate::diagnosis::Finding;
use crate::remedy::{Remedy, RemedyId};
use crate::state::{RunOutcome, State};
use std::path::Path;

/// Everything that is drawn, but how the user wants to see it.
#[derive(Clone, Copy)]
pub struct Scene<'a> {
    /// What is known.
    pub state: &'a State,
    /// Why memory ran out, the most certain first.
    pub findings: &'a [Finding],
    /// What could be done, the best first.
    pub remedies: &'a [Remedy],
    /// The command that these remedies make of the current run's; with none, that command itself.
    /// `None` where they do not go together.
    pub plan: &'a dyn Fn(&[RemedyId]) -> Option<CommandLine>,
    /// The largest batch that the next run would fit with, where the model of its memory is sure.
    pub room_for_batch: Option<u64>,
    /// What the next run or the end is waiting for, in words: the gate, a stop.
    pub waiting: Option<&'a str>,
    /// Where the recording is written.
    pub recording: Option<&'a Path>,
    /// How a recording is played, where this is no live session.
    pub replay: Option<Replay>,
}

impl<'a> Scene<'a> {
    /// Of a state alone: nothing has failed, nothing is recorded.
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

    /// Whether the training runs in this session and has not ended.
    pub fn is_running(&self) -> bool {
        let run = self.state.run();
        self.replay.is_none() && run.is_some_and(|run| run.outcome() == RunOutcome::Running)
    }
}

/// How a recording is played.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Replay {
    /// How many seconds of the recording pass in one of ours.
    pub speed: f64,
    /// Whether it plays.
    pub pace: Pace,
}

/// Whether a recording plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// It does.
    Playing,
    /// It stands.
    Paused,
    /// It has been played to its end.
    AtEnd,
}
