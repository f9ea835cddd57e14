//! What a session knows: its state, findings and remedies, and what a front hands over to the next. It
//! decides nothing of runs, and does nothing: what is to be written, read or worked out is an effect.

pub(crate) mod changes;
pub(crate) mod earlier;
mod findings;
mod host_spill;
pub(crate) mod inputs;
pub(crate) mod learned;
pub(crate) mod leftovers;
pub(crate) mod remedies;
pub(crate) mod source;
pub(crate) mod summary;
pub(crate) mod undone;
mod unseen_ranks;

use super::background_task::{BackgroundTask, TaskId, TaskIds, TaskResult};
use super::config::HandoverState;
use super::display::screen::Due;
use super::message::SessionEffect;
use crate::command::CommandLine;
use crate::diagnosis::{Cause, Certainty, Finding, LiveWarning, LiveWarnings};
use crate::event::{Event, EventKind, Exit, Level, LoaderSettings, Note, NvmlState, ProcessHost};
use crate::forecast;
use crate::recognize::{KnobEffect, KnobPlace, LearnedKnob};
use crate::remedy::{self, Remedy, RemedyId, UndoneRemedy};
use crate::report;
use crate::state::{Run, RunOutcome, State};
use crate::supervise::KeeperOrder;
use crate::units::{Bytes, Moment, Pid, RunNumber, Uuid};
use changes::{ChangeFate, Changes, NextRun, RunBefore};
use host_spill::HostSpill;
use inputs::SessionInputs;
use remedies::{Foreseen, Hints};
use source::SourceReader;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use unseen_ranks::UnseenRanks;

pub(crate) struct Session {
    /// When the message came that is being taken in.
    pub now: Moment,
    pub state: State,
    pub findings: Vec<Finding>,
    /// Of the last OOM that the run has survived, where none has ended it.
    survived: Vec<Finding>,
    /// What the next front is to know; the current command is kept here alone.
    pub handover: HandoverState,
    /// The recording as the user knows it, if there is one.
    recording: Option<PathBuf>,
    /// Those that are known; none while they are worked out for the first time.
    remedies: Vec<Remedy>,
    /// Warnings before a run fails.
    watch: LiveWarnings,
    /// A leak that was warned of since the last look.
    leak: Option<Finding>,
    /// What was called a leak, and was none.
    leak_over: Option<Finding>,
    /// Whether growth was seen since then that would fill the GPU soon.
    is_full_soon: bool,
    inputs: SessionInputs,
    /// The command whose program's text was asked for.
    text_of: Option<CommandLine>,
    /// What earlier sessions showed, once they were asked for.
    earlier: Option<earlier::Earlier>,
    pub(crate) hints: Hints,
    /// What the command in the editor would need.
    foreseen: Foreseen,
    source: SourceReader,
    unseen: UnseenRanks,
    spill: HostSpill,
    /// The run of which it was told how much RAM it takes.
    told_host: Option<RunNumber>,
    /// The run of which it was told what its patch has saved.
    told_relief: Option<RunNumber>,
    told_proof: Option<RunNumber>,
    changes: Changes,
    /// Runs whose change had no effect or was rejected: they show nothing that the run before them did not.
    ineffective: BTreeSet<RunNumber>,
    /// Without these, where the last run is one of them.
    telling: Option<Box<State>>,
    /// The run whose process was told of that trains without an edit.
    told_unmade: Option<RunNumber>,
    /// What this session has learned of the numbers that may set the batch.
    learned: Vec<LearnedKnob>,
    /// What is being waited for, in words.
    waiting: Option<String>,
    /// Whether an event was applied since the last frame was requested.
    is_changed: bool,
    tasks: TaskIds,
    pending: Pending,
    effects: Vec<SessionEffect>,
}

/// What is being worked out beside the loop.
#[derive(Default)]
struct Pending {
    earlier: Option<TaskId>,
    hint: Option<TaskId>,
    text: Option<TaskId>,
    remedies: Option<TaskId>,
    foreseen: Option<TaskId>,
    source: Option<TaskId>,
    learned: Option<TaskId>,
    looking_up: Option<TaskId>,
    /// Something has happened since that look began: another one follows.
    look_again: bool,
    /// The disk did not answer the last one in time.
    is_disk_silent: bool,
}

impl Session {
    pub(crate) fn new(
        recording: Option<PathBuf>,
        inputs: SessionInputs,
        handover: HandoverState,
    ) -> Session {
        let changes = Changes::at_start(handover.config.start_again.as_ref());
        Session {
            now: Moment::ZERO,
            state: State::default(),
            findings: Vec::new(),
            survived: Vec::new(),
            handover,
            recording,
            remedies: Vec::new(),
            watch: LiveWarnings::default(),
            leak: None,
            leak_over: None,
            is_full_soon: false,
            inputs,
            text_of: None,
            earlier: None,
            hints: Hints::default(),
            foreseen: Foreseen::default(),
            source: SourceReader::default(),
            unseen: UnseenRanks::default(),
            spill: HostSpill::default(),
            told_host: None,
            told_relief: None,
            told_proof: None,
            changes,
            ineffective: BTreeSet::new(),
            telling: None,
            told_unmade: None,
            learned: Vec::new(),
            waiting: None,
            is_changed: false,
            tasks: TaskIds::default(),
            pending: Pending::default(),
            effects: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, effect: SessionEffect) {
        self.effects.push(effect);
    }

    pub(crate) fn take_effects(&mut self) -> Vec<SessionEffect> {
        std::mem::take(&mut self.effects)
    }

    pub(crate) fn order(&mut self, order: KeeperOrder) {
        self.push(SessionEffect::Order(order));
    }

    /// Gives the keeper what the next front is to know.
    pub(crate) fn hand_over(&mut self) {
        self.order(KeeperOrder::Remember(self.handover.text()));
    }

    /// Begins work beside the loop.
    pub(crate) fn begin(
        &mut self,
        name: &'static str,
        work: impl FnOnce() -> TaskResult + Send + 'static,
    ) -> TaskId {
        let id = self.tasks.next();
        self.push(SessionEffect::Begin(BackgroundTask::new(id, name, work)));
        id
    }

    pub(crate) fn id(&self) -> &str {
        &self.handover.header.id
    }

    /// The current run's command, as the user knows it (without the probe).
    pub(crate) fn command(&self) -> &CommandLine {
        &self.handover.config.command
    }

    pub(crate) fn recording(&self) -> Option<&Path> {
        self.recording.as_deref()
    }

    pub(crate) fn run_number(&self) -> RunNumber {
        self.state.run().map_or(RunNumber::FIRST, |run| run.number)
    }

    pub(crate) fn ran_out(&self) -> bool {
        self.state.run().map(Run::outcome) == Some(RunOutcome::OutOfMemory)
    }

    /// Says on the screen what is being waited for.
    pub(crate) fn wait_for(&mut self, words: impl Into<String>) {
        let words = words.into();
        if self.waiting.as_ref() != Some(&words) {
            self.waiting = Some(words);
            self.push(SessionEffect::Draw(Due::Now));
        }
    }

    pub(crate) fn stop_waiting(&mut self) {
        self.waiting = None;
    }

    pub(crate) fn waiting(&self) -> Option<&str> {
        self.waiting.as_deref()
    }

    /// Applies and records an event, and updates the findings if it affects them.
    pub(crate) fn apply(&mut self, event: Event) -> Arc<Event> {
        let event = Arc::new(event);
        self.state.apply(&event);
        self.push(SessionEffect::Record(event.clone()));
        match &event.what {
            EventKind::Oom(_) | EventKind::OomText(_) => self.diagnose(),
            EventKind::Device(reading) => self.learn_baseline(reading.uuid.clone(), reading.used),
            EventKind::Hello(hello) => {
                let run = self.run_number();
                for words in self.changes.not_in_force(run, hello) {
                    self.note(Level::Warning, words);
                }
            }
            EventKind::ProcessHost(said) => self.compare_loaders(said),
            EventKind::HostMemory(_) => self.compare_host(),
            EventKind::Patch(patched) if patched.relief.is_some() => self.tell_relief(),
            EventKind::Losses(_) | EventKind::PrintedLoss(_) => self.tell_proof(),
            _ => {}
        }
        self.source.ask(&event.what, self.run_number());
        self.is_changed = true;
        event
    }

    /// Says whether a relaunched run's DataLoaders have what was chosen.
    fn compare_loaders(&mut self, said: &ProcessHost) {
        let Some(now) = &said.loaders else {
            return;
        };
        let before: Vec<LoaderSettings> = match self.state.runs.iter().rev().nth(1) {
            Some(run) => run.loaders().cloned().collect(),
            None => self.changes.loaders_then().to_vec(),
        };
        for words in self.changes.in_loaders(&before, now) {
            match words {
                Ok(words) => self.note(Level::Info, format!("as chosen, {words}")),
                Err(words) => {
                    self.note(Level::Warning, format!("the remedy has no effect: {words}"));
                }
            }
        }
    }

    /// Says once, while a relaunched run goes on, whether its losses are those of the run before.
    fn tell_proof(&mut self) {
        let is_told = self.told_proof == Some(self.run_number());
        if let (false, Some(words)) = (is_told, report::score::proved(&self.state)) {
            self.told_proof = Some(self.run_number());
            self.note(Level::Info, words);
        }
    }

    /// Says once what a patch measured of what it takes away, beside what was predicted.
    fn tell_relief(&mut self) {
        let run = self
            .state
            .run()
            .filter(|run| self.told_relief != Some(run.number));
        let said = run.and_then(|run| Some((run.number, report::score::relieved(run)?)));
        if let Some((run, words)) = said {
            self.told_relief = Some(run);
            self.note(Level::Info, format!("as chosen, {words}"));
        }
    }

    /// Says once how much RAM a run takes that was made to take less.
    fn compare_host(&mut self) {
        let is_of_host = |id: RemedyId| id.is_of_host();
        let Some(run) = self.state.run() else {
            return;
        };
        let is_due = self.now.since(run.started) >= SETTLES && self.told_host != Some(run.number);
        if !is_due || run.ended.is_some() || !self.changes.has_applied(is_of_host) {
            return;
        }
        let before = self.state.runs.iter().rev().nth(1);
        let (Some((_, memory)), Some(before)) = (
            self.state.host.latest(),
            before.and_then(|run| run.host_peak),
        ) else {
            return;
        };
        let words = format!(
            "RAM: {} of {} after {} s; the run before came to {before}",
            memory.used,
            memory.limit,
            self.now.since(run.started).as_secs()
        );
        self.told_host = Some(run.number);
        self.note(Level::Info, words);
    }

    pub(crate) fn record(&mut self, what: EventKind) {
        let at = self.now;
        self.apply(Event { at, what });
    }

    pub(crate) fn note(&mut self, level: Level, text: impl Into<String>) {
        self.record(EventKind::Note(Note::new(level, text)));
    }

    /// Notes warnings before a run fails, and begins to read source that was asked for.
    pub(crate) fn look_around(&mut self) {
        for warning in self.watch.look(&self.state) {
            match warning {
                LiveWarning::Withdrawn(over) => {
                    self.note(Level::Info, over.headline.to_string());
                    if over.certainty == Certainty::Certain {
                        self.leak_over = Some(*over);
                    }
                }
                LiveWarning::FullSoon => self.is_full_soon = true,
                LiveWarning::New(finding) => {
                    self.note(Level::Warning, finding.headline.to_string());
                    if finding.cause == Cause::Leak {
                        self.leak = Some(*finding);
                    }
                }
            }
        }
        let words = [self.unseen.look(&self.state), self.spill.look(&self.state)];
        for words in words.into_iter().flatten() {
            self.note(Level::Warning, words);
        }
        self.read_source();
    }

    /// A run has ended: growth that was warned of and came to nothing is withdrawn.
    pub(crate) fn withdraw_warnings(&mut self) {
        if let Some(words) = self.watch.ended(&self.state) {
            self.note(Level::Info, words);
        }
    }

    /// A leak that was warned of since the last call.
    pub(crate) fn take_leak(&mut self) -> Option<Finding> {
        self.leak.take()
    }

    /// What was called a leak and has stopped growing since the last call.
    pub(crate) fn take_leak_over(&mut self) -> Option<Finding> {
        self.leak_over.take()
    }

    /// Whether growth was seen since the last call that would fill the GPU soon.
    pub(crate) fn take_full_soon(&mut self) -> bool {
        std::mem::take(&mut self.is_full_soon)
    }

    /// Whether an event was applied since the last call.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.is_changed)
    }

    /// Advances the time without an event.
    pub(crate) fn advance(&mut self, now: Moment) {
        self.state.now = self.state.now.max(now);
    }

    /// What is known so far; where the last run's change had no effect, as it was before that run.
    fn telling_state(&self) -> &State {
        self.telling.as_deref().unwrap_or(&self.state)
    }

    /// For the next run: its command, and what is expected of it.
    pub(crate) fn begin_run(&mut self, next: NextRun) {
        let failed = self.state.oom().and_then(|oom| oom.device.clone());
        let before = RunBefore {
            command: std::mem::replace(&mut self.handover.config.command, next.command),
            failed,
            knobs: self.state.knobs.clone(),
        };
        let numerics = remedy::numerics_of(
            &before.command,
            &next.applied,
            &self.handover.config.command,
        );
        self.handover.numerics = numerics;
        self.changes.begin_run(next.applied, next.author, before);
        let peak = next.prediction.as_ref().and_then(|said| said.peak);
        self.handover.chosen = (next.remedies, peak);
        self.handover.prediction = next.prediction;
        self.hand_over_undone();
        self.hints = Hints::default();
        self.telling = None;
        self.pending.hint = None;
        self.stop_waiting();
    }

    /// Keeps what the program wrote, as far as it may say that it rejects a change.
    pub(crate) fn heard(&mut self, bytes: &[u8]) {
        self.changes.heard(bytes);
    }

    /// The time left to the scheduler's job, where it said at the start when it ends.
    pub(crate) fn job_time_left(&self) -> Option<Duration> {
        let ends = self.handover.job_ends?;
        let now = self.handover.header.wall + self.now.0 as f64 / 1e6;
        Some(Duration::from_secs_f64((ends - now).clamp(0.0, 1e9)))
    }

    /// Once the current run has ended.
    pub(crate) fn record_what_came_of_the_prediction(&mut self) {
        let run = self.state.run().filter(|run| run.prediction.is_some());
        if let Some(outcome) = run.and_then(forecast::score::outcome) {
            self.record(EventKind::PredictionOutcome(outcome));
        }
    }

    /// What shows that the changed batch of this run is not in force. What that says of the number that was changed is
    /// kept for this session and for later ones.
    pub(crate) fn change_without_effect(&mut self) -> Option<String> {
        let run = self.state.run().filter(|run| run.ended.is_none())?;
        let verdict = self.changes.judge_batch(run)?;
        if let Some((place, effect)) = verdict.learned {
            self.learn(place, effect);
        }
        verdict.ended
    }

    fn learn(&mut self, place: KnobPlace, effect: KnobEffect) {
        let knob = LearnedKnob {
            place,
            effect,
            session: self.id().to_string(),
        };
        self.learned.push(knob.clone());
        self.inputs.learn(&self.learned);
        // Nothing of a session that is not recorded stays.
        if self.recording.is_none() {
            return;
        }
        let command = self.command().clone();
        let work = move || TaskResult::Learned(learned::remember(&command, &knob));
        self.pending.learned = Some(self.begin("learned", work));
    }

    /// A process that trains without an edit that was typed: the run goes on, as its command says it. Told once a run.
    pub(crate) fn edit_not_made(&mut self) -> Option<String> {
        let run = self.state.run().filter(|run| run.ended.is_none())?;
        if self.changes.is_of_a_remedy() || self.told_unmade == Some(run.number) {
            return None;
        }
        let said = run.unmade_edit()?;
        self.told_unmade = Some(run.number);
        Some(format!(
            "a process trains without what --edit changes: {}",
            said.words
        ))
    }

    /// Whether something is being remembered for later sessions.
    pub(crate) fn is_remembering(&self) -> bool {
        self.pending.learned.is_some()
    }

    /// Takes back what the run that has just ended rejected, or what had no effect in it.
    pub(crate) fn take_back(&mut self, exit: Exit) -> ChangeFate {
        let Some(taken) = self.changes.take_back(self.state.run(), exit) else {
            return match self.failed_at_once() {
                Some(_) => ChangeFate::FailedAtOnce,
                None => self.changes.fate_told(),
            };
        };
        self.note(Level::Warning, taken.words);
        self.handover.config.command = taken.command;
        // The run before tells of the memory: of it other remedies are offered.
        if taken.fate != ChangeFate::Kept {
            self.ineffective.insert(self.run_number());
            self.leave_out_ineffective();
        }
        self.hand_over_undone();
        self.hand_over();
        self.diagnose();
        taken.fate
    }

    fn leave_out_ineffective(&mut self) {
        let mut telling = self.state.clone();
        telling
            .runs
            .retain(|run| !self.ineffective.contains(&run.number));
        self.telling = Some(Box::new(telling));
    }

    fn hand_over_undone(&mut self) {
        self.handover.undone = self.changes.undone_changes(&self.ineffective);
    }

    /// Goes on from what the front before has undone, once its recording is read.
    pub(crate) fn resume_undone(&mut self) {
        self.changes.resume(&self.handover.undone);
        self.ineffective
            .clone_from(&self.handover.undone.ineffective);
        if self.ineffective.contains(&self.run_number()) {
            self.leave_out_ineffective();
        }
    }

    /// What was undone of the latest run.
    pub(crate) fn undone(&self) -> Option<&UndoneRemedy> {
        self.changes.undone()
    }

    /// What a run said whose command was typed and failed at once.
    pub(crate) fn failed_at_once(&self) -> Option<String> {
        self.changes.failed_at_once(self.state.run())
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

    /// Whether the last run may have had memory on a device of which nothing is seen: one was known before, a process of
    /// the run has initialised CUDA, or memory ran out.
    pub(crate) fn may_have_used_a_device(&self) -> bool {
        let run = self.state.run();
        !self.state.devices.is_empty()
            || run.is_some_and(|run| !run.ranks.is_empty() || run.oom_count > 0)
    }

    /// The devices of this node that the last run used, with their usage before the first run. For a run
    /// that died before its first sample: by its OOM, or by the devices that it could see.
    pub(crate) fn devices_of_last_run(&self) -> Vec<(Uuid, Option<Bytes>)> {
        // One that ended before it used a GPU, by a slip in its command, follows one that did.
        let mut runs = self.state.runs.iter().rev();
        let Some(run) = runs.find(|run| !run.ranks.is_empty() || !run.ooms.is_empty()) else {
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

/// After this a run shows how much RAM it takes.
const SETTLES: Duration = Duration::from_secs(60);
