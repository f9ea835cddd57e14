//! What is known so far: a fold of events, so that a replayed recording gives the same state.
//! Screen and reports read it.
//!
//! Pure: no clock, no file, no socket, no process. Time comes with the events.

mod apply;
mod current_peak;
mod device;
mod doubt;
mod high_samples;
mod host;
mod indexed;
mod kept;
mod oom;
mod outliers;
mod rank;
mod rank_parts;
mod readings;
mod run;
mod series;
mod step_band;
mod steps;
#[cfg(test)]
pub(crate) mod tests;

pub use device::Headroom;
pub use device::{Breakdown, DeviceState};
pub use doubt::Doubt;
pub use doubt::HiddenOom;
pub use host::{HostGrowth, HostLeak, HostState, RoleGrowth};
pub use indexed::{Indexed, Keyed};
pub use kept::KeptOfFailed;
pub use oom::{HostAtOom, HostOomSource, NvmlAtOom, OomIncident, with_headroom};
pub use outliers::{OddReason, Outlier, Outliers, ranges};
pub use rank::{DeviceUsage, RankHost, RankState, StepTrack};
pub use rank_parts::RankParts;
pub use run::{EarlierRuns, Patching, Run, RunOutcome};
pub use run::{EpochMark, Epochs};
pub use run::{MOST_TEXTS, SourceTexts};
pub use series::{Resolution, Series, SeriesBucket};
pub use step_band::{StepBand, stay_below};
pub use steps::{StepMark, StepMarks};

pub use steps::StepTraces;

/// So long after a probe has disconnected it is not missed: its process may be ending, which is told a moment later.
pub const ENDING: Duration = Duration::from_secs(3);

use crate::event::{
    Dropped, Knobs, LaunchFacts, Note, NoteSubject, NvmlState, SessionStarted, SpawnFailed,
};
use crate::units::{Moment, RunNumber, Uuid};
use std::time::Duration;

/// Everything that is known of a session.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// The session's header, once it was read.
    pub session: Option<SessionStarted>,
    /// The stamp of the latest event: the only "now" that pure code knows.
    pub now: Moment,
    /// The runs so far, in order; the last is the current one.
    pub runs: Vec<Run>,
    /// The devices, in order of first sight: NVML's and the probe's joined by UUID.
    pub devices: Indexed<DeviceState>,
    /// NVML's state; `None` before it was first asked.
    pub nvml: Option<NvmlState>,
    /// The host's memory.
    pub host: HostState,
    /// What was lost so far, by all sources together.
    pub dropped: Dropped,
    /// Lines for the list of events, oldest first; bounded.
    pub notes: Vec<(Moment, Note)>,
    /// Why the latest command could not be started; `None` again once one was.
    pub spawn_failed: Option<SpawnFailed>,
    /// What the first run was started with beside its command.
    pub launched: Option<LaunchFacts>,
    /// The numbers that set the program's sizes, as a process told them that ran out of memory; of the latest one.
    pub knobs: Option<Knobs>,
}

/// What is known of the probe in the current run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeState {
    /// The user switched it off.
    Off,
    /// No process of the run has initialised CUDA yet, as far as is known.
    Waiting,
    /// It answers in this many processes.
    Live(usize),
    /// It is there but does not sample, and this is why.
    Resting(String),
    /// All its connections have ended while the run goes on.
    Lost,
}

impl State {
    /// What `oomph fit` has found, if it was this session's.
    pub fn fitted(&self) -> Option<&str> {
        let mut notes = self.notes.iter().rev();
        let (_, note) = notes.find(|(_, note)| note.about == Some(NoteSubject::Fitted))?;
        Some(&note.text)
    }

    /// The current run, if one was started.
    pub fn run(&self) -> Option<&Run> {
        self.runs.last()
    }

    /// How long its runs took, without the time in which somebody was asked between them.
    pub fn runs_took(&self) -> Duration {
        let current = self.run().filter(|run| run.ended.is_none());
        let so_far = current.map(|run| self.now.since(run.started));
        self.ended_runs_took() + so_far.unwrap_or_default()
    }

    /// What the runs took that have ended, one after the other.
    pub fn ended_runs_took(&self) -> Duration {
        let ended = |run: &Run| Some(run.ended?.0.since(run.started));
        self.runs.iter().filter_map(ended).sum()
    }

    /// A run by its number.
    pub fn run_numbered(&self, number: RunNumber) -> Option<&Run> {
        self.runs.iter().find(|run| run.number == number)
    }

    /// How long the run had gone on then that was the last one to have started: what a clock beside the run shows. Before the
    /// first one it is zero.
    pub fn since_start(&self, at: Moment) -> Duration {
        let begun = self.runs.iter().rfind(|run| run.started <= at);
        let from = begun
            .or(self.runs.first())
            .map_or(Moment::ZERO, |run| run.started);
        at.since(from)
    }

    /// A device by its UUID.
    pub fn device(&self, uuid: &Uuid) -> Option<&DeviceState> {
        self.devices.with(uuid)
    }

    /// The latest out-of-memory of the current run that was not survived, or the latest at all
    /// while that cannot be told.
    pub fn oom(&self) -> Option<&OomIncident> {
        self.run().and_then(Run::oom)
    }

    /// The current run's OOM that is explained, one that the program has survived too.
    pub fn explained_oom(&self) -> Option<&OomIncident> {
        self.run().and_then(Run::explained_oom)
    }

    /// What is known of the probe in the current run.
    pub fn probe(&self) -> ProbeState {
        if self.session.as_ref().is_some_and(|session| !session.probe) {
            return ProbeState::Off;
        }
        let Some(run) = self.run() else {
            return ProbeState::Waiting;
        };
        let live = || run.alive();
        let gone = run.ranks.iter().filter_map(|rank| rank.disconnected);
        let ending = gone.filter(|at| self.now.since(*at) < ENDING).count();
        let sampled = live().filter(|rank| rank.hello.resting.is_none()).count();
        let resting = live().find_map(|rank| rank.hello.resting.clone());
        match (sampled, resting, run.ranks.is_empty()) {
            (0, Some(reason), _) => ProbeState::Resting(reason),
            (0, None, true) => ProbeState::Waiting,
            (0, None, false) if ending > 0 => ProbeState::Live(ending),
            (0, None, false) => ProbeState::Lost,
            (n, _, _) => ProbeState::Live(n),
        }
    }
}
