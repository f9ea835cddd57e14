//! The session: its state, findings and remedies, its recording, and what a front hands over to the
//! next. Independent of terminal, keeper and policy.

mod applied;
pub(crate) mod earlier;
mod handover;
mod hints;
mod inputs;
mod leftovers;
mod metrics;
mod next_run;
mod remedies;
mod source;
mod summary;
mod tail;
mod unseen;

pub(crate) use handover::HandoverState;
pub(crate) use inputs::SessionInputs;
pub(crate) use leftovers::{Signal as LeftoverSignal, signal as signal_leftover};
pub(crate) use next_run::NextRun;
pub(crate) use summary::{Activity, Summary};

use super::torch;
use crate::command::CommandLine;
use crate::diagnosis::{self, Cause, Finding, LiveWarnings};
use crate::event::{Clock, Event, EventKind, Level, Note, NvmlState};
use crate::forecast::Hint;
use crate::recording::Recorder;
use crate::remedy::{Leftover, Plan, Remedy, RemedyId};
use crate::state::{Run, RunOutcome, State};
use crate::ui::{Scene, Subject};
use crate::units::{Bytes, Moment, Pid, RunNumber, Uuid};
use applied::Changes;
use earlier::EarlierSessions;
use hints::Hints;
use metrics::MetricsFile;
use remedies::Remedies;
use source::SourceReader;
use std::path::{Path, PathBuf};
use std::time::Duration;
use unseen::UnseenRanks;

/// How long exiting waits for a slow disk.
const RECORDING_PATIENCE: Duration = Duration::from_secs(1);

pub(crate) struct Session {
    pub clock: Clock,
    pub state: State,
    pub findings: Vec<Finding>,
    remedies: Remedies,
    /// What the next front is to know; the current command is kept here alone.
    pub handover: HandoverState,
    /// Warnings before a run fails.
    watch: LiveWarnings,
    /// A leak that was warned of since the last look.
    leak: Option<Finding>,
    recorder: Recorder,
    metrics: Option<MetricsFile>,
    inputs: SessionInputs,
    earlier: EarlierSessions,
    hints: Hints,
    source: SourceReader,
    unseen: UnseenRanks,
    changes: Changes,
    /// Whether an event was applied since the last frame was requested.
    is_changed: bool,
}

impl Session {
    pub(crate) fn new(
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
            leak: None,
            recorder,
            metrics: metrics.and_then(|path| MetricsFile::start(&path)),
            inputs,
            earlier: EarlierSessions::default(),
            hints: Hints::default(),
            source: SourceReader::default(),
            unseen: UnseenRanks::default(),
            changes: Changes::default(),
            is_changed: false,
        }
    }

    pub(crate) fn id(&self) -> &str {
        &self.handover.header.id
    }

    /// The current run's command, as the user knows it (without the probe).
    pub(crate) fn command(&self) -> &CommandLine {
        &self.handover.command
    }

    pub(crate) fn recording(&self) -> Option<&Path> {
        self.recorder.path()
    }

    pub(crate) fn run_number(&self) -> RunNumber {
        self.state.run().map_or(RunNumber::FIRST, |run| run.number)
    }

    pub(crate) fn ran_out(&self) -> bool {
        self.state.run().map(Run::outcome) == Some(RunOutcome::OutOfMemory)
    }

    pub(crate) fn leftovers(&self) -> &[Leftover] {
        self.inputs.leftovers()
    }

    /// Applies and records an event, and updates the findings if it affects them.
    pub(crate) fn apply(&mut self, event: &Event) {
        self.state.apply(event);
        self.recorder.write(event);
        match &event.what {
            EventKind::Oom(_) | EventKind::OomText(_) => self.diagnose(),
            EventKind::Device(reading) => self.learn_baseline(reading.uuid.clone(), reading.used),
            EventKind::Hello(hello) => self.verify_applied(hello),
            _ => {}
        }
        self.ask_for_source(&event.what);
        self.is_changed = true;
    }

    pub(crate) fn record(&mut self, what: EventKind) {
        let at = self.clock.now();
        self.apply(&Event { at, what });
    }

    pub(crate) fn note(&mut self, level: Level, text: impl Into<String>) {
        let text = text.into();
        self.record(EventKind::Note(Note { level, text }));
    }

    /// Takes the recorder's notes and warnings before a run fails. Returns what is to be said aloud.
    pub(crate) fn look_around(&mut self) -> Vec<String> {
        let aloud = self.recorder.said();
        for words in &aloud {
            self.note(Level::Warning, words.clone());
        }
        while let Some(note) = self.recorder.note() {
            self.record(EventKind::Note(note));
        }
        for finding in self.watch.look(&self.state) {
            self.note(Level::Warning, finding.headline.to_string());
            if finding.cause == Cause::Leak {
                self.leak = Some(finding);
            }
        }
        if let Some(words) = self.unseen.look(&self.state) {
            self.note(Level::Warning, words);
        }
        let now = self.clock.now();
        if let Some(problem) = (self.metrics.as_mut()).and_then(|file| file.look(&self.state, now))
        {
            self.note(Level::Warning, problem);
        }
        aloud
    }

    /// A leak that was warned of since the last call.
    pub(crate) fn take_leak(&mut self) -> Option<Finding> {
        self.leak.take()
    }

    /// Whether an event was applied since the last call.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.is_changed)
    }

    /// Advances the time without an event.
    pub(crate) fn advance(&mut self, now: Moment) {
        self.state.now = self.state.now.max(now);
    }

    pub(crate) fn diagnose(&mut self) {
        self.findings = diagnosis::diagnose(&self.state);
        if self.state.oom().is_some() {
            let command = &self.handover.command;
            if self.state.runs.iter().all(|run| run.ranks.is_empty()) {
                // No probe has reported it: read it from disk, but only once memory has run out.
                self.inputs.torch = torch::version_for(command);
            }
            self.inputs.look(command, Some(self.handover.began));
            self.inputs.look_for_leftovers(&self.state);
        }
        self.forget_remedies();
        self.find_remedies();
    }

    /// The command that remedies make of the current run's.
    pub(crate) fn plan(&self, ids: &[RemedyId]) -> Plan {
        let chosen: Vec<&Remedy> = self
            .remedies()
            .iter()
            .filter(|remedy| ids.contains(&remedy.id))
            .collect();
        Plan::new(self.command(), &chosen)
    }

    /// Calls `look` with everything that a frame or a key needs.
    pub(crate) fn with_scene<R>(&self, waiting: Option<&str>, look: impl FnOnce(&Scene) -> R) -> R {
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
            subject: Subject::Own,
        })
    }

    /// When metrics are to be written again.
    pub(crate) fn metrics_due(&self) -> Option<Moment> {
        self.metrics.as_ref().map(MetricsFile::due)
    }

    /// Returns what a person should know of it.
    pub(crate) fn finish_recording(&mut self) -> Vec<String> {
        self.finish_source();
        let metrics = self.metrics.take();
        let problem = metrics.and_then(|file| file.finish(&self.state));
        self.recorder.finish(RECORDING_PATIENCE);
        let mut problems = self.recorder.said();
        problems.extend(problem);
        problems
    }

    /// Records the usage of a device before any of our processes uses it.
    fn learn_baseline(&mut self, uuid: Uuid, used: Option<Bytes>) {
        let untouched = self.state.runs.iter().all(|run| run.ranks.is_empty());
        if let (true, Some(used)) = (untouched, used) {
            self.handover.baselines.insert(uuid, used);
        }
    }

    pub(crate) fn sees_devices(&self) -> bool {
        matches!(self.state.nvml, Some(NvmlState::Live { .. }))
    }

    /// The devices of this node that the last run used, with their usage before the first run. For a run
    /// that died before its first sample: by its OOM, or by the devices that it could see.
    pub(crate) fn devices_of_last_run(&self) -> Vec<(Uuid, Option<Bytes>)> {
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
        let is_here = |uuid: &Uuid| {
            self.state
                .device(uuid)
                .is_none_or(|device| device.node.is_none())
        };
        devices.retain(is_here);
        let baseline = |uuid: &Uuid| self.handover.baselines.get(uuid).copied();
        devices
            .into_iter()
            .map(|uuid| (uuid.clone(), baseline(&uuid)))
            .collect()
    }

    pub(crate) fn pids_of_last_run(&self) -> Vec<Pid> {
        let ranks = self.state.run().into_iter().flat_map(|run| &run.ranks);
        let pids = ranks.map(|rank| rank.hello.pid);
        pids.filter(|pid| pid.is_here()).collect()
    }
}
