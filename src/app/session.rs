//! What the session is: the state and what follows from it, the recording, and what a front hands
//! to the next. It knows no terminal, no keeper and no policy.

mod applied;
pub(crate) mod earlier;
mod handover;
mod hints;
mod inputs;
mod leftovers;
mod metrics;
mod next_run;
mod remedies;
mod summary;
mod tail;

pub(super) use handover::HandoverState;
pub(super) use inputs::SessionInputs;
pub(super) use leftovers::{Signal as LeftoverSignal, signal as signal_leftover};
pub(super) use next_run::NextRun;
pub(super) use summary::{Activity, Summary};

use super::torch;
use crate::command::CommandLine;
use crate::diagnosis::{self, Finding, LiveWarnings};
use crate::event::{Clock, Event, Level, Note, NvmlState, What};
use crate::forecast::Hint;
use crate::remedy::{Leftover, Plan, Remedy, RemedyId};
use crate::session::Recorder;
use crate::state::{Run, RunOutcome, State};
use crate::ui::Scene;
use crate::units::{Bytes, Moment, Pid, RunNumber, Uuid};
use applied::Changes;
use earlier::EarlierSessions;
use hints::Hints;
use metrics::MetricsFile;
use remedies::Remedies;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long the end waits for a slow disk.
const RECORDING_PATIENCE: Duration = Duration::from_secs(1);

/// One session, as its front knows it.
pub(super) struct Session {
    pub clock: Clock,
    pub state: State,
    pub findings: Vec<Finding>,
    remedies: Remedies,
    /// What the next front is to know; the current command is kept here alone.
    pub handover: HandoverState,
    /// What is said of a run before it fails.
    watch: LiveWarnings,
    recorder: Recorder,
    metrics: Option<MetricsFile>,
    inputs: SessionInputs,
    /// What earlier sessions of the same program showed.
    earlier: EarlierSessions,
    hints: Hints,
    changes: Changes,
    /// Something was folded since the last frame was asked for.
    is_changed: bool,
}

impl Session {
    pub(super) fn new(
        clock: Clock,
        recorder: Recorder,
        inputs: SessionInputs,
        handover: HandoverState,
    ) -> Session {
        let metrics = handover.metrics.as_ref().map(|word| PathBuf::from(&word.0));
        Session {
            clock,
            state: State::default(),
            findings: Vec::new(),
            remedies: Remedies::default(),
            handover,
            watch: LiveWarnings::default(),
            recorder,
            metrics: metrics.and_then(|path| MetricsFile::start(&path)),
            inputs,
            earlier: EarlierSessions::default(),
            hints: Hints::default(),
            changes: Changes::default(),
            is_changed: false,
        }
    }

    pub(super) fn id(&self) -> &str {
        &self.handover.header.id
    }

    /// The command of the current run, as a person sees it.
    pub(super) fn command(&self) -> &CommandLine {
        &self.handover.command
    }

    pub(super) fn recording(&self) -> Option<&Path> {
        self.recorder.path()
    }

    pub(super) fn run_number(&self) -> RunNumber {
        self.state.run().map_or(RunNumber::FIRST, |run| run.number)
    }

    pub(super) fn ran_out(&self) -> bool {
        self.state.run().map(Run::outcome) == Some(RunOutcome::OutOfMemory)
    }

    pub(super) fn leftovers(&self) -> &[Leftover] {
        self.inputs.leftovers()
    }

    /// Folds an event and stores it; what it changes in the findings is worked out at once.
    pub(super) fn apply(&mut self, event: &Event) {
        self.state.apply(event);
        self.recorder.write(event);
        match &event.what {
            What::Oom(_) | What::OomText(_) => self.diagnose(),
            What::Device(reading) => self.learn_baseline(reading.uuid.clone(), reading.used),
            What::Hello(hello) => self.verify_applied(hello),
            _ => {}
        }
        self.is_changed = true;
    }

    pub(super) fn record(&mut self, what: What) {
        let at = self.clock.now();
        self.apply(&Event { at, what });
    }

    pub(super) fn note(&mut self, level: Level, text: impl Into<String>) {
        let text = text.into();
        self.record(What::Note(Note { level, text }));
    }

    /// What time alone brings: what the recorder has to say, and what is said of a run before it
    /// fails.
    pub(super) fn look_around(&mut self) {
        while let Some(note) = self.recorder.note() {
            self.record(What::Note(note));
        }
        for note in self.watch.look(&self.state) {
            self.record(What::Note(note));
        }
        let now = self.clock.now();
        if let Some(problem) = (self.metrics.as_mut()).and_then(|file| file.look(&self.state, now))
        {
            self.note(Level::Warning, problem);
        }
    }

    /// Whether something was folded since this was asked last.
    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.is_changed)
    }

    /// The time is now, even where no event says so.
    pub(super) fn advance(&mut self, now: Moment) {
        self.state.now = self.state.now.max(now);
    }

    pub(super) fn diagnose(&mut self) {
        self.findings = diagnosis::diagnose(&self.state);
        if self.state.oom().is_some() {
            let command = &self.handover.command;
            if self.state.runs.iter().all(|run| run.ranks.is_empty()) {
                // No probe has said it: the disk is asked, once memory has run out and not before.
                self.inputs.torch = torch::version_for(command);
            }
            self.inputs.look(command, Some(self.handover.began));
            self.inputs.look_for_leftovers(&self.state);
        }
        self.forget_remedies();
        self.find_remedies();
    }

    /// The command that remedies make of the current run's.
    pub(super) fn plan(&self, ids: &[RemedyId]) -> Plan {
        let chosen: Vec<&Remedy> = self
            .remedies()
            .iter()
            .filter(|remedy| ids.contains(&remedy.id))
            .collect();
        Plan::of(self.command(), &chosen)
    }

    /// Shows `look` all that a frame or a key needs.
    pub(super) fn with_scene<R>(&self, waiting: Option<&str>, look: impl FnOnce(&Scene) -> R) -> R {
        let plan = |ids: &[RemedyId]| Some(self.plan(ids).command);
        look(&Scene {
            state: &self.state,
            findings: &self.findings,
            remedies: self.remedies(),
            plan: &plan,
            room_for_batch: match self.hints.given {
                Some(Hint::RoomForBatch(room)) => Some(room),
                Some(Hint::StateWillNotFit { .. }) | None => None,
            },
            waiting,
            recording: self.recording(),
            replay: None,
        })
    }

    /// When metrics are to be written again.
    pub(super) fn metrics_due(&self) -> Option<Moment> {
        self.metrics.as_ref().map(MetricsFile::due)
    }

    pub(super) fn finish_recording(&mut self) {
        if let Some(file) = self.metrics.take() {
            file.finish(&self.state);
        }
        self.recorder.finish(RECORDING_PATIENCE);
    }

    /// The use of a device before any process of ours touched it.
    fn learn_baseline(&mut self, uuid: Uuid, used: Option<Bytes>) {
        let untouched = self.state.runs.iter().all(|run| run.ranks.is_empty());
        if let (true, Some(used)) = (untouched, used) {
            self.handover.baselines.insert(uuid, used);
        }
    }

    pub(super) fn sees_devices(&self) -> bool {
        matches!(self.state.nvml, Some(NvmlState::Live { .. }))
    }

    /// The devices that the last run used, with their use before the first run. A run that died
    /// before its first sample is known by its out-of-memory, or by what it could see.
    pub(super) fn devices_of_last_run(&self) -> Vec<(Uuid, Option<Bytes>)> {
        let Some(run) = self.state.run() else {
            return Vec::new();
        };
        let of_ooms = run.ooms.iter().filter_map(|oom| oom.device.as_ref());
        let of_ranks = run.ranks.iter().filter_map(|rank| rank.device.as_ref());
        let mut devices: Vec<Uuid> = of_ranks.chain(of_ooms).cloned().collect();
        if devices.is_empty() {
            let seen = run.ranks.iter().flat_map(|rank| &rank.hello.devices);
            devices.extend(seen.filter_map(|device| device.uuid.clone()));
        }
        devices.sort();
        devices.dedup();
        let baseline = |uuid: &Uuid| self.handover.baselines.get(uuid).copied();
        devices
            .into_iter()
            .map(|uuid| (uuid.clone(), baseline(&uuid)))
            .collect()
    }

    pub(super) fn pids_of_last_run(&self) -> Vec<Pid> {
        let ranks = self.state.run().into_iter().flat_map(|run| &run.ranks);
        ranks.map(|rank| rank.hello.pid).collect()
    }
}
