//! A run: a command, its processes, and how it ended.

use super::{Epochs, Indexed, OomIncident, RankState, SourceTexts};
use crate::command::{Change, CommandLine};
use crate::event::{Consequence, Exit, Patch, PatchOutcome, Prediction, PredictionOutcome};
use crate::units::{Bytes, Moment, Pid, RunNumber};
use std::fmt;
use std::time::Duration;

/// OOMs of several processes within this time are one failure. Ranks wait for each other in every
/// step, so that they fail within seconds.
const BURST: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Default)]
pub struct Run {
    pub number: RunNumber,
    pub command: CommandLine,
    /// The command for display; kept, since every frame has it.
    pub shown: String,
    /// Changes since the run before.
    pub changes: Vec<Change>,
    /// The remedies that made the changes, in words.
    pub remedies: Vec<String>,
    /// Of the direct child.
    pub pid: Pid,
    pub started: Moment,
    /// When and how it ended.
    pub ended: Option<(Moment, Exit)>,
    /// Processes of its tree that outlived it.
    pub survivors: Vec<Pid>,
    /// Processes that initialised CUDA, in order of their hello.
    pub ranks: Indexed<RankState>,
    /// Its OOMs in order; bounded: the first and the latest.
    pub ooms: Vec<OomIncident>,
    /// The number of OOMs, kept or not.
    pub oom_count: u64,
    /// What the output said to follow from a rank's failure; bounded.
    pub consequences: Vec<(Moment, Consequence)>,
    /// When the output said that the scheduler ends the allocation.
    pub allocation_ended: Option<Moment>,
    pub epochs: Epochs,
    /// What the lines of the program say that hold memory.
    pub source: SourceTexts,
    /// When the user, or a signal, asked it to stop.
    pub stop_requested: Option<Moment>,
    /// The predicted peak.
    pub predicted_peak: Option<Bytes>,
    /// Everything that was predicted of it, and what came of it once it has ended.
    pub prediction: Option<Prediction>,
    pub prediction_outcome: Option<PredictionOutcome>,
    /// What earlier runs of the session had come to.
    pub before: EarlierRuns,
}

/// How far any earlier run of a session came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum EarlierRuns {
    /// There was none, or none used a GPU.
    #[default]
    Nothing,
    /// Memory ran out before the first step.
    Tried,
    /// At least one optimizer step was made.
    Trained,
}

/// The state of the patches that a command asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patching {
    /// No process has reported yet.
    Asked,
    /// At least one is active.
    Applied,
    /// None is active.
    Declined,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunOutcome {
    Running,
    /// With exit code 0.
    Finished,
    /// With exit code 0, but without a step where an earlier run had made one, or had tried to.
    TrainedNothing,
    /// Ended by an OOM.
    OutOfMemory,
    /// Stopped on request.
    Stopped,
    /// Ended otherwise.
    Failed(Exit),
}

impl fmt::Display for RunOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunOutcome::Running => f.write_str("running"),
            RunOutcome::Finished => f.write_str("finished"),
            RunOutcome::TrainedNothing => f.write_str("trained nothing, exit 0"),
            RunOutcome::OutOfMemory => f.write_str("out of memory"),
            RunOutcome::Stopped => f.write_str("stopped"),
            RunOutcome::Failed(exit) => exit.fmt(f),
        }
    }
}

impl Run {
    pub(super) fn new(number: RunNumber, command: CommandLine, started: Moment) -> Run {
        Run {
            number,
            shown: command.shown(),
            command,
            started,
            ..Run::default()
        }
    }

    /// The largest `allocated` of any process.
    pub fn peak(&self) -> Option<Bytes> {
        self.ranks
            .iter()
            .map(|rank| rank.allocated_peak)
            .filter(|peak| *peak > Bytes::ZERO)
            .max()
    }

    /// `None` if its command asks for no patches.
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

    /// The most optimizer steps of any process.
    pub fn steps(&self) -> u64 {
        self.ranks
            .iter()
            .map(|rank| rank.steps.count)
            .max()
            .unwrap_or(0)
    }

    /// The decisive OOM: the first of several processes that fail together, the last of one that
    /// tried again and again. Where the command ended with success, only one that has ended its process;
    /// else one that can have ended it.
    pub fn oom(&self) -> Option<&OomIncident> {
        let exit = self.ended.map(|(_, exit)| exit);
        let is_uncaught = |oom: &&OomIncident| {
            !oom.caught
                && match exit {
                    None => true,
                    Some(exit) if exit.is_success() => self.is_end_of_process(oom),
                    Some(_) => self.doubt(oom).is_none(),
                }
        };
        let uncaught = || self.ooms.iter().rev().filter(is_uncaught);
        let end = uncaught().next()?.at;
        let mut burst = uncaught().filter(|oom| end.since(oom.at) <= BURST);
        // An OOM without figures after it is a consequence: a library without memory while the
        // exception is handled.
        let last = burst
            .clone()
            .find(|oom| oom.requested().is_some())
            .or(burst.next())?;
        let mut decisive = last;
        let mut seen = vec![last.who()];
        for earlier in burst.filter(|oom| oom.at <= last.at) {
            // It may be the same process trying again.
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

    /// Processes with a connected probe.
    pub fn alive(&self) -> impl Iterator<Item = &RankState> {
        self.ranks.iter().filter(|rank| rank.disconnected.is_none())
    }

    /// Whether a process is known to belong to the run.
    pub fn owns(&self, pid: Pid) -> bool {
        self.pid == pid || self.survivors.contains(&pid) || self.rank_with(pid).is_some()
    }

    pub fn rank_with(&self, pid: Pid) -> Option<&RankState> {
        self.ranks.with(&pid)
    }

    pub(super) fn rank_mut(&mut self, pid: Pid) -> Option<&mut RankState> {
        self.ranks.with_mut(&pid)
    }

    /// The process of an OOM.
    pub fn rank_of(&self, oom: &OomIncident) -> Option<&RankState> {
        match oom.pid {
            Some(pid) => self.rank_with(pid),
            None => self
                .ranks
                .iter()
                .find(|rank| rank.hello.rank.is_some() && rank.hello.rank == oom.rank),
        }
    }

    /// A process ended an optimizer step: it has survived its earlier OOMs.
    pub(super) fn survived(&mut self, pid: Pid, at: Moment) {
        for oom in &mut self.ooms {
            if oom.pid == Some(pid) && oom.at < at {
                oom.caught = true;
            }
        }
    }

    /// Drops what only the screen and the diagnosis of a recent run need. The command, the outcome,
    /// the peaks and everything that predictions use stay.
    pub(super) fn condense(&mut self) {
        // What a doubt rests on goes.
        let last = self.ooms.last();
        let last = last.filter(|oom| oom.caught || self.doubt(oom).is_none());
        let oom = self.oom().or(last).cloned();
        self.ooms = oom.into_iter().collect();
        self.consequences = Vec::new();
        self.epochs.condense();
        for rank in &mut self.ranks {
            rank.condense();
        }
    }

    /// When it was first asked to stop: by the user, a signal, or the scheduler that ends the allocation.
    pub fn stopped(&self) -> Option<Moment> {
        let asked = [self.stop_requested, self.allocation_ended];
        asked.into_iter().flatten().min()
    }

    fn stopped_before(&self, at: Moment) -> bool {
        self.stopped().is_some_and(|stopped| stopped < at)
    }

    /// How far it came, for the runs after it.
    pub(super) fn came_to(&self) -> EarlierRuns {
        match (self.steps(), self.ranks.is_empty()) {
            (1.., _) => EarlierRuns::Trained,
            (0, false) if self.oom_count > 0 => EarlierRuns::Tried,
            (0, _) => EarlierRuns::Nothing,
        }
    }

    /// Whether it did less than an earlier run, by the probe's word: without its input, say, a program
    /// may have nothing to do.
    fn lacks_training(&self) -> bool {
        if self.steps() > 0 || self.oom_count > 0 || self.epochs.latest().is_some() {
            return false;
        }
        match self.before {
            EarlierRuns::Nothing => false,
            EarlierRuns::Tried => self.peak().is_none(),
            EarlierRuns::Trained => true,
        }
    }

    pub fn outcome(&self) -> RunOutcome {
        match self.ended {
            None => RunOutcome::Running,
            Some((_, exit)) if exit.is_success() => match self.lacks_training() {
                true => RunOutcome::TrainedNothing,
                false => RunOutcome::Finished,
            },
            // Stopping a training after an OOM (its other ranks may hang for minutes) did not end
            // it.
            Some(_) if self.oom().is_some_and(|oom| !self.stopped_before(oom.at)) => {
                RunOutcome::OutOfMemory
            }
            Some(_) if self.stopped().is_some() => RunOutcome::Stopped,
            Some((_, exit)) => RunOutcome::Failed(exit),
        }
    }
}
