//! What the screen is drawn from: shared borrows of what the loop holds, put together for one
//! frame or one key.

use super::child::ChildScreen;
use crate::command::CommandLine;
use crate::diagnosis::Finding;
use crate::remedy::{Remedy, RemedyId};
use crate::state::State;
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
    /// The program's own screen.
    pub child: &'a ChildScreen,
    /// What is being waited for before the next run or the end, in words: the gate, a stop.
    pub waiting: Option<&'a str>,
    /// Where the recording is written.
    pub recording: Option<&'a Path>,
    /// How a recording is played, where this is no live session.
    pub replay: Option<Replay>,
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
