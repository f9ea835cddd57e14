//! One attempt of a session: a command, the processes it started, and how it ended.

use super::{Epochs, OomIncident, RankState};
use crate::command::{Change, CommandLine};
use crate::event::{Exit, Patch, PatchOutcome};
use crate::units::{Bytes, Moment, Pid, RunNumber};
use std::time::Duration;

/// Within what time the out-of-memories of several processes are one failure. Ranks wait for each
/// other in every step, so that those that fail do so within seconds of each other.
const BURST: Duration = Duration::from_secs(30);

/// One run.
#[derive(Debug, Clone, Default)]
pub struct Run {
    pub number: RunNumber,
    /// What was started.
    pub command: CommandLine,
    /// What differs from the run before; empty for the first.
    pub changes: Vec<Change>,
    /// The remedies that made the difference, in words.
    pub remedies: Vec<String>,
    /// The direct child.
    pub pid: Pid,
    pub started: Moment,
    /// When and how it ended.
    pub ended: Option<(Moment, Exit)>,
    /// Processes of its tree that were alive when it was reaped.
    pub survivors: Vec<Pid>,
    /// The processes that initialised CUDA, in order of their hello.
    pub ranks: Vec<RankState>,
    /// Its out-of-memory incidents, each from one witness or both, in order; bounded: of a program
    /// that catches one after another the first and the latest are kept.
    pub ooms: Vec<OomIncident>,
    /// How many there were.
    pub oom_count: u64,
    /// The epochs that its output named.
    pub epochs: Epochs,
    /// Whether the user, or a signal from outside, asked it to stop.
    pub stop_requested: Option<Moment>,
    /// The peak that was predicted for it.
    pub predicted_peak: Option<Bytes>,
}

/// How a run stands with the patches that its command asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patching {
    /// No process has said anything of them yet.
    Asked,
    /// At least one is in force.
    Applied,
    /// They declined, and the run is as it would be without them.
    Declined,
}

/// How a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunOutcome {
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
    /// A run of which only this is known.
    pub(super) fn of(number: RunNumber, command: CommandLine, started: Moment) -> Run {
        Run {
            number,
            command,
            started,
            ..Run::default()
        }
    }

    /// The largest `allocated` that any of its processes reached.
    pub fn peak(&self) -> Option<Bytes> {
        self.ranks
            .iter()
            .map(|rank| rank.allocated_peak)
            .filter(|peak| *peak > Bytes::ZERO)
            .max()
    }

    /// What became of the patches that its command asks for; `None` where it asks for none.
    pub fn patching(&self) -> Option<Patching> {
        let asked = Patch::of(&self.command);
        if asked.is_empty() {
            return None;
        }
        let mut said = self.ranks.iter().flat_map(|rank| &rank.patches).peekable();
        if said.peek().is_none() {
            return Some(Patching::Asked);
        }
        Some(
            match said.any(|said| said.outcome == PatchOutcome::Applied) {
                true => Patching::Applied,
                false => Patching::Declined,
            },
        )
    }

    /// The most optimizer steps that any of its processes ended.
    pub fn steps(&self) -> u64 {
        self.ranks
            .iter()
            .map(|rank| rank.steps.count)
            .max()
            .unwrap_or(0)
    }

    /// Its decisive out-of-memory: of several processes that fail together, the one that failed
    /// first (the rest are collateral); of one that tried again and again, its last.
    pub fn oom(&self) -> Option<&OomIncident> {
        let uncaught = || self.ooms.iter().rev().filter(|oom| !oom.caught);
        let end = uncaught().next()?.at;
        let mut burst = uncaught().filter(|oom| end.since(oom.at) <= BURST);
        // What follows without figures (a library that finds no memory while the exception is
        // handled) is a consequence.
        let last = burst
            .clone()
            .find(|oom| oom.requested().is_some())
            .or(burst.next())?;
        let mut decisive = last;
        let mut seen = vec![last.who()];
        for earlier in burst.filter(|oom| oom.at <= last.at) {
            // Who cannot be told apart may be the same process trying again.
            if seen.contains(&earlier.who()) || seen.contains(&(None, None)) {
                continue;
            }
            seen.push(earlier.who());
            if earlier.who() != (None, None) {
                decisive = earlier;
            }
        }
        Some(decisive)
    }

    /// The processes whose probes are still connected.
    pub fn alive(&self) -> impl Iterator<Item = &RankState> {
        self.ranks.iter().filter(|rank| rank.disconnected.is_none())
    }

    /// Whether this process is known to be of the run.
    pub fn owns(&self, pid: Pid) -> bool {
        self.pid == pid || self.survivors.contains(&pid) || self.rank_with(pid).is_some()
    }

    /// The process of this run with this id.
    pub fn rank_with(&self, pid: Pid) -> Option<&RankState> {
        self.ranks.iter().find(|rank| rank.hello.pid == pid)
    }

    pub(super) fn rank_mut(&mut self, pid: Pid) -> Option<&mut RankState> {
        self.ranks.iter_mut().find(|rank| rank.hello.pid == pid)
    }

    /// What the rank that ran out of memory is known by.
    pub fn rank_of(&self, oom: &OomIncident) -> Option<&RankState> {
        match oom.pid {
            Some(pid) => self.rank_with(pid),
            None => self
                .ranks
                .iter()
                .find(|rank| rank.hello.rank.is_some() && rank.hello.rank == oom.rank),
        }
    }

    /// A process ended an optimizer step: what it ran out of memory in before, it has survived.
    pub(super) fn survived(&mut self, pid: Pid, at: Moment) {
        for oom in &mut self.ooms {
            if oom.pid == Some(pid) && oom.at < at {
                oom.caught = true;
            }
        }
    }

    fn stopped_before(&self, at: Moment) -> bool {
        self.stop_requested.is_some_and(|stopped| stopped < at)
    }

    /// How it stands.
    pub fn outcome(&self) -> RunOutcome {
        match self.ended {
            None => RunOutcome::Running,
            Some((_, exit)) if exit.is_success() => RunOutcome::Finished,
            // Who stops a training that has run out of memory (its other ranks may hang for
            // minutes) did not end it.
            Some(_) if self.oom().is_some_and(|oom| !self.stopped_before(oom.at)) => {
                RunOutcome::OutOfMemory
            }
            Some(_) if self.stop_requested.is_some() => RunOutcome::Stopped,
            Some((_, exit)) => RunOutcome::Failed(exit),
        }
    }
}
