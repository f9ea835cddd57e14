//! One attempt of a session: a command, the processes it started, and how it ended.

use super::{OomIncident, RankState};
use crate::command::{Change, CommandLine};
use crate::event::Exit;
use crate::units::{Bytes, Moment, Pid, RunNumber};

/// One run.
#[derive(Debug, Clone)]
pub struct Run {
    /// Its number, from 1.
    pub number: RunNumber,
    /// What was started.
    pub command: CommandLine,
    /// What differs from the run before; empty for the first.
    pub changes: Vec<Change>,
    /// The remedies that made the difference, in words.
    pub remedies: Vec<String>,
    /// The direct child.
    pub pid: Pid,
    /// When it was started.
    pub started: Moment,
    /// When and how it ended.
    pub ended: Option<(Moment, Exit)>,
    /// Processes of its tree that were alive when it was reaped.
    pub left: Vec<Pid>,
    /// The processes that initialised CUDA, in order of their hello.
    pub ranks: Vec<RankState>,
    /// Its out-of-memory incidents, each from one witness or both.
    pub ooms: Vec<OomIncident>,
    /// Whether the user, or a signal from outside, asked it to stop.
    pub stop_requested: Option<Moment>,
    /// The peak that was predicted for it.
    pub predicted_peak: Option<Bytes>,
}

/// How a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It goes on.
    Running,
    /// It ended with exit code 0.
    Finished,
    /// It ran out of memory and ended by it.
    OutOfMemory,
    /// It was asked to stop and did.
    Stopped,
    /// It ended otherwise.
    Failed(Exit),
}

impl Run {
    /// The largest `allocated` that any of its processes reached.
    pub fn peak(&self) -> Option<Bytes> {
        self.ranks.iter().map(|rank| rank.allocated_peak).max()
    }

    /// The most optimizer steps that any of its processes ended.
    pub fn steps(&self) -> u64 {
        self.ranks
            .iter()
            .map(|rank| rank.steps.count)
            .max()
            .unwrap_or(0)
    }

    /// Its decisive out-of-memory: the first of the last burst (of several ranks that fail
    /// together, the first is the cause and the rest are collateral).
    pub fn oom(&self) -> Option<&OomIncident> {
        self.ooms.iter().rev().find(|oom| !oom.caught)
    }

    /// How it stands.
    pub fn outcome(&self) -> Outcome {
        match self.ended {
            None => Outcome::Running,
            Some((_, exit)) if exit.is_success() => Outcome::Finished,
            Some(_) if self.stop_requested.is_some() => Outcome::Stopped,
            Some(_) if self.oom().is_some() => Outcome::OutOfMemory,
            Some((_, exit)) => Outcome::Failed(exit),
        }
    }
}
