//! Folds one event into the state: runs and their ends, OOMs, and what the probe found in a process.
//!
//! The probe's record of an OOM and the message in the output are joined to one incident, whichever comes first.

use crate::command::{CommandLine, difference};
use crate::event::{
    Consequence, Dropped, Event, EventKind, Exited, Level, Note, NoteSubject, OomRecord,
    PatchOutcome, Patchable, Patched, PeakActivity, Phase, Rehearsal, Retainers, Sample, Started,
    StepTrace, displayed,
};
use crate::oom::{self, ConsequenceKind, OomReport};
use crate::state::device::NonTorch;
use crate::state::indexed::push_bounded;
use crate::state::{NvmlAtOom, OomIncident, Run, State};
use crate::units::{Bytes, Moment, Pid, Rank, RunNumber, Uuid};
use std::time::Duration;

/// Notes kept.
const NOTES: usize = 200;

/// Lines kept of what followed from a rank's failure: one of each rank of a large job.
const CONSEQUENCES: usize = 1_024;

/// Losses kept of a process, and of a run's output.
const LOSSES: usize = 512;

impl State {
    /// Takes one event in.
    pub fn apply(&mut self, event: &Event) {
        let at = event.at;
        self.now = self.now.max(at);
        match &event.what {
            EventKind::SessionStarted(session) => self.session = Some(session.clone()),
            EventKind::LaunchFacts(facts) => self.launched = Some((**facts).clone()),
            EventKind::Started(started) => self.run_started(at, started),
            EventKind::SpawnFailed(failure) => {
                self.note(at, Level::Warning, failure.reason.clone());
                self.spawn_failed = Some(failure.clone());
            }
            EventKind::Exited(exited) => self.run_exited(at, exited),
            EventKind::Nvml(nvml) => self.nvml_said(at, nvml),
            EventKind::Device(reading) => self.device_read(at, reading),
            EventKind::HostMemory(memory) => self.host_read(at, memory),
            EventKind::HostKill(kill) => self.host_killed(at, kill),
            EventKind::Hello(hello) => self.hello(at, hello),
            EventKind::Sample(sample) => self.sampled(at, sample),
            EventKind::Step(step) => self.stepped(at, step),
            EventKind::Structure(structure) => self.structure_read(structure),
            EventKind::Oom(record) => self.oom_recorded(at, record),
            EventKind::Patchable(found) => self.patchable_found(found),
            EventKind::Rehearsal(rehearsal) => self.rehearsed(at, rehearsal),
            EventKind::Knobs(knobs) => {
                if let Some(run) = self.run_of_mut(knobs.pid) {
                    run.knobs = Some(knobs.clone());
                }
                self.knobs = Some((**knobs).clone());
            }
            EventKind::Called(called) => {
                if let Some(run) = self.run_of_mut(called.pid) {
                    run.called.get_or_insert_with(|| called.given.clone());
                    run.inputs = called.given.clone();
                }
            }
            EventKind::ProcessHost(said) => self.process_host(at, said),
            EventKind::PeakActivity(said) => self.did_at_peak(said),
            EventKind::StepTrace(trace) => self.step_traced(trace),
            EventKind::SourceText(texts) => {
                let mut runs = self.runs.iter_mut();
                if let Some(run) = runs.find(|run| run.number == texts.run) {
                    run.source.keep(&texts.lines);
                }
            }
            EventKind::Retainers(found) => self.retainers_found(at, found),
            EventKind::Patch(patched) => self.patched(at, patched),
            EventKind::UncaughtOom(ended) => {
                if let Some(rank) = self.rank_mut(ended.pid) {
                    rank.ended_by_oom = true;
                }
            }
            EventKind::ProbeErrors(errors) => {
                if let Some(rank) = self.rank_mut(errors.pid) {
                    rank.probe_errors = Some((at, errors.clone()));
                }
            }
            EventKind::ProbeGone(gone) => self.probe_gone(at, gone),
            EventKind::OomText(report) => self.oom_read(at, report),
            EventKind::PredictionOutcome(outcome) => {
                let mut runs = self.runs.iter_mut();
                if let Some(run) = runs.find(|run| run.number == outcome.run) {
                    run.prediction_outcome = Some(outcome.clone());
                }
            }
            EventKind::Consequence(consequence) => self.followed(at, consequence),
            EventKind::Losses(read) => {
                if let Some(rank) = self.rank_mut(read.pid) {
                    let room = LOSSES.saturating_sub(rank.losses.len());
                    rank.losses.extend(read.losses.iter().take(room));
                    rank.seed = rank.seed.or(read.seed);
                }
            }
            EventKind::PrintedLoss(printed) => {
                if let Some(run) = self.runs.last_mut()
                    && run.printed_losses.len() < LOSSES
                {
                    run.printed_losses.push(printed.clone());
                }
            }
            EventKind::Epoch(epoch) => {
                if let Some(run) = self.runs.last_mut() {
                    run.epochs.told(at, epoch.number);
                }
            }
            EventKind::StopRequested(_) => {
                if let Some(run) = self.runs.last_mut() {
                    run.stop_requested.get_or_insert(at);
                }
            }
            EventKind::Note(note) => {
                if let (Some(NoteSubject::Measured), Some(run)) = (note.about, self.runs.last_mut())
                {
                    run.measured = Some(at);
                }
                if let (Some(NoteSubject::NotRehearsed), Some(run)) =
                    (note.about, self.runs.last_mut())
                {
                    let why = note.text.strip_prefix(NOT_REHEARSED);
                    let why = why.and_then(|why| why.strip_suffix(ONLY_ESTIMATED));
                    run.not_rehearsed = why.map(String::from);
                }
                push_bounded(&mut self.notes, (at, note.clone()), NOTES);
            }
            EventKind::Dropped(dropped) => self.dropped(dropped),
            EventKind::Logged(_) | EventKind::Unknown => {}
        }
    }

    fn followed(&mut self, at: Moment, consequence: &Consequence) {
        let Some(run) = self.runs.last_mut() else {
            return;
        };
        match consequence.kind {
            ConsequenceKind::AllocationEnded => {
                run.allocation_ended.get_or_insert(at);
            }
            ConsequenceKind::AnotherError => run.has_another_error = true,
            ConsequenceKind::NoSpace => run.no_space = Some(at),
            ConsequenceKind::WorkerGone | ConsequenceKind::NoHandle => {}
            _ => push_bounded(&mut run.consequences, (at, *consequence), CONSEQUENCES),
        }
    }

    pub(super) fn note(&mut self, at: Moment, level: Level, text: String) {
        push_bounded(&mut self.notes, (at, Note::new(level, text)), NOTES);
    }

    fn dropped(&mut self, more: &Dropped) {
        let sum = &mut self.dropped;
        sum.samples = sum.samples.saturating_add(more.samples);
        sum.output += more.output;
        sum.unlogged += more.unlogged;
        sum.malformed = sum.malformed.saturating_add(more.malformed);
    }
}

/// Buckets kept of the series of a past run's processes: as many as a wide screen has columns.
const PAST: usize = 256;

/// Past runs kept with all their details: their traced steps, the marks of single steps, every OOM.
const DETAILED: usize = 16;

/// Runs kept: the first, with which others are compared, and the latest. A session that relaunches
/// every ten minutes has more than 4,000 in a month.
const RUNS: usize = 256;

impl State {
    fn run_started(&mut self, at: Moment, started: &Started) {
        self.spawn_failed = None;
        self.host_run_started(started.pid);
        for device in &mut self.devices {
            device.limit = None;
            device.non_torch = NonTorch::default();
        }
        for rank in self
            .runs
            .last_mut()
            .iter_mut()
            .flat_map(|run| &mut run.ranks)
        {
            rank.allocated.thin(PAST);
        }
        let changes = self
            .runs
            .iter()
            .rfind(|run| run.number < started.run)
            .map(|before| difference(&before.command, &started.command))
            .unwrap_or_default();
        let earlier = self.runs.iter().filter(|run| run.number < started.run);
        let before = earlier.map(|run| run.came_to().max(run.before)).max();
        let tells_calls = self.knobs.is_some();
        let run = self.run_or_new(at, started.run);
        run.before = before.unwrap_or_default();
        run.tells_calls = tells_calls;
        run.command = started.command.clone();
        run.shown = displayed(&started.command);
        run.changes = changes;
        run.remedies = started.remedies.clone();
        run.pid = started.pid;
        run.started = at;
        run.predicted_peak = started.predicted_peak;
        run.prediction = started.prediction.clone();
        run.numerics = started.numerics;
        self.bound_runs();
        if let Some(run) = self.runs.last() {
            for device in &mut self.devices {
                device.holders.retain(|pid| run.rank_with(*pid).is_some());
            }
        }
        let devices: Vec<Uuid> = self.devices.iter().map(|d| d.uuid.clone()).collect();
        for device in devices {
            self.sum_up(at, &device);
        }
    }

    fn run_exited(&mut self, at: Moment, exited: &Exited) {
        let Some(run) = self.runs.iter_mut().find(|run| run.number == exited.run) else {
            return;
        };
        run.ended = Some((at, exited.exit));
        run.survivors = exited.left.clone();
        if exited.exit.is_success() {
            // `timeout -s KILL` in a script, for example.
            run.ooms.retain(|oom| !oom.is_hearsay());
        }
        // Processes that outlived the direct child are still sampled.
        let ended: Vec<Pid> = run
            .ranks
            .iter()
            .map(|rank| rank.hello.pid)
            .filter(|pid| !exited.left.contains(pid))
            .collect();
        for pid in ended {
            self.rank_ended(at, exited.run, pid);
        }
        self.end_by_kill(exited.run);
        self.end_by_bus_error(exited.run);
        self.end_without_space(exited.run);
    }

    fn bound_runs(&mut self) {
        if self.runs.len() > RUNS {
            self.runs.remove(1);
        }
        if let Some(past) = self.runs.len().checked_sub(DETAILED + 2) {
            self.runs[past].condense();
        }
    }

    /// The run with this number; a new one if its start was missed (a front that came later, a
    /// recording that was cut).
    pub(super) fn run_or_new(&mut self, at: Moment, number: RunNumber) -> &mut Run {
        let place = match self.runs.binary_search_by_key(&number, |run| run.number) {
            Ok(place) => place,
            Err(place) => {
                let command = match (&self.session, number) {
                    (Some(session), RunNumber::FIRST) => session.command.clone(),
                    _ => CommandLine::default(),
                };
                self.runs.insert(place, Run::new(number, command, at));
                place
            }
        };
        &mut self.runs[place]
    }
}

// OOMs: the probe's record and the message in the output are joined to one incident, whichever
// comes first.

/// Time between record and message of one OOM: the exception unwinds, the traceback is printed and
/// a launcher passes it on.
const TOGETHER: Duration = Duration::from_secs(10);

/// Time between record and message of one OOM where they agree on requested and allocated memory to the
/// last printed digit: a program may save a checkpoint before it lets the exception through.
const TOGETHER_BY_FIGURES: Duration = Duration::from_secs(120);

/// Incidents kept: the first of a run, and in total.
const FIRST_KEPT: usize = 16;

const KEPT: usize = 128;

impl State {
    fn oom_recorded(&mut self, at: Moment, record: &OomRecord) {
        // The chart needs this sample: those around it may be from before the step or after the
        // unwinding.
        if record.sample.allocated > Bytes::ZERO {
            self.sampled(
                at,
                &Sample {
                    pid: record.pid,
                    device: record.device,
                    ..record.sample.clone()
                },
            );
        }
        let device = self.device_of(record.pid, record.device);
        let nvml_at_oom = self.nvml_at_oom_of(device.as_ref(), Some(record.pid));
        let of_process = |run: &Run| run.rank_with(record.pid).is_some();
        let place = self.runs.iter().rposition(of_process);
        // If its hello was missed, the record must not be lost.
        let place = place.unwrap_or(self.runs.len().saturating_sub(1));
        let Some(run) = self.runs.get_mut(place) else {
            return;
        };
        if let Some(rank) = run.rank_mut(record.pid) {
            rank.allocated_peak = rank.allocated_peak.max(record.sample.allocated_peak);
            rank.reserved_peak = rank.reserved_peak.max(record.sample.reserved_peak);
        }
        let rank = run.rank_with(record.pid).and_then(|rank| rank.hello.rank);
        let twin = run.nearest(at, TOGETHER_BY_FIGURES, |oom| {
            oom.record.is_none()
                && (oom.pid.is_none() || oom.pid == Some(record.pid))
                && oom
                    .report
                    .as_ref()
                    .is_some_and(|report| alike(record, rank, report, apart(oom.at, at)))
        });
        match twin {
            Some(twin) => {
                twin.record = Some(record.clone());
                twin.at = twin.at.min(at);
                twin.pid = Some(record.pid);
                twin.rank = rank.or(twin.rank);
                twin.device = device.or(twin.device.take());
                twin.nvml_at_oom = twin.nvml_at_oom.take().or(nvml_at_oom);
            }
            None => run.keep(OomIncident {
                at,
                record: Some(record.clone()),
                pid: Some(record.pid),
                rank,
                device,
                nvml_at_oom,
                ..OomIncident::default()
            }),
        }
        run.settle_ooms();
    }

    fn oom_read(&mut self, at: Moment, report: &OomReport) {
        let (pid, device) = self.speaker(at, report);
        let nvml_at_oom = self.nvml_at_oom_of(device.as_ref(), pid);
        let host = self.host_at(at, report.kind);
        let Some(run) = run_at(&mut self.runs, at) else {
            return;
        };
        let twin = run.nearest(at, TOGETHER_BY_FIGURES, |oom| {
            oom.report.is_none()
                && oom
                    .record
                    .as_ref()
                    .is_some_and(|record| alike(record, oom.rank, report, apart(oom.at, at)))
        });
        if let Some(twin) = twin {
            twin.report = Some(report.clone());
            twin.rank = twin.rank.or(report.rank);
            twin.at = twin.at.min(at);
            twin.caught |= report.outcome == oom::OomOutcome::Caught;
            run.settle_ooms();
            return;
        }
        // The same message again, from the program, its logger or its launcher. (Messages of two
        // equal OOMs have found their records above.)
        let again = run.nearest(at, TOGETHER, |oom| {
            oom.report.as_ref().is_some_and(|known| same(known, report))
        });
        if let Some(again) = again {
            again.caught |= report.outcome == oom::OomOutcome::Caught;
            return;
        }
        run.keep(OomIncident {
            at,
            pid,
            rank: report
                .rank
                .or_else(|| pid.and_then(|pid| run.rank_with(pid)?.hello.rank)),
            device,
            nvml_at_oom,
            host,
            ..OomIncident::of_report(at, report.clone())
        });
        run.settle_ooms();
    }

    fn nvml_at_oom_of(&self, device: Option<&Uuid>, pid: Option<Pid>) -> Option<NvmlAtOom> {
        self.device(device?)?.nvml_at_oom(self, pid)
    }

    /// The process and the device of a message, if that can be told.
    fn speaker(&self, at: Moment, report: &OomReport) -> (Option<Pid>, Option<Uuid>) {
        let run = self
            .runs
            .iter()
            .rfind(|run| run.started <= at)
            .or(self.runs.first());
        let ranks = run.map_or(&[][..], |run| &run.ranks[..]);
        let speaker = match (report.rank, ranks) {
            (Some(rank), _) => ranks
                .iter()
                .rfind(|known| known.hello.rank == Some(rank))
                .or(match ranks {
                    [only] if only.hello.rank.is_none() => Some(only),
                    _ => None,
                }),
            // The others of a job may not have said hello yet.
            (None, [only]) if only.hello.world_size.unwrap_or(1) <= 1 => Some(only),
            (None, _) => None,
        };
        let ordinal = report.device;
        let device = match (speaker, ordinal) {
            (Some(rank), Some(ordinal)) => self.device_of(rank.hello.pid, ordinal),
            (Some(rank), None) => rank.device.clone(),
            // It is unknown how this process counts its devices, unless there is only one.
            (None, _) => match &self.devices[..] {
                [only] => Some(only.uuid.clone()),
                _ => None,
            },
        };
        (speaker.map(|rank| rank.hello.pid), device)
    }
}

/// The run at a moment.
fn run_at(runs: &mut [Run], at: Moment) -> Option<&mut Run> {
    let place = runs.iter().rposition(|run| run.started <= at).unwrap_or(0);
    runs.get_mut(place)
}

impl Run {
    /// The nearest incident in time among those that fit.
    fn nearest(
        &mut self,
        at: Moment,
        within: Duration,
        fits: impl Fn(&OomIncident) -> bool,
    ) -> Option<&mut OomIncident> {
        self.ooms
            .iter_mut()
            .filter(|oom| apart(oom.at, at) <= within && fits(oom))
            .min_by_key(|oom| apart(oom.at, at))
    }

    /// The program's own lines have shown that the latest out-of-memory was in a training step, which looked like an
    /// evaluation by its call: a target network's, a teacher's.
    fn was_in_a_step(&mut self, pid: Pid) {
        let latest = self.ooms.iter_mut().rfind(|oom| oom.pid == Some(pid));
        if let Some(record) = latest.and_then(|oom| oom.record.as_mut())
            && record.phase == Phase::Evaluation
        {
            record.phase = Phase::Forward;
        }
    }

    pub(super) fn keep(&mut self, oom: OomIncident) {
        self.oom_count = self.oom_count.saturating_add(1);
        if self.ooms.len() >= KEPT {
            self.ooms.remove(FIRST_KEPT);
        }
        self.ooms.push(oom);
    }

    /// Sorts the incidents and marks those that were survived, in whatever order record, message
    /// and next step arrived.
    pub(super) fn settle_ooms(&mut self) {
        self.ooms.sort_by_key(|oom| oom.at);
        let stepped: Vec<(Pid, Moment)> = self
            .ranks
            .iter()
            .filter_map(|rank| Some((rank.hello.pid, rank.steps.last.as_ref()?.0)))
            .collect();
        for (pid, at) in stepped {
            self.survived(pid, at);
        }
    }
}

fn apart(a: Moment, b: Moment) -> Duration {
    a.since(b).max(b.since(a))
}

/// Whether a record and a message so far apart can be of one OOM.
fn alike(record: &OomRecord, rank: Option<Rank>, report: &OomReport, apart: Duration) -> bool {
    let by_figures = report.requested.is_some() && report.allocated.is_some();
    if apart > TOGETHER && !by_figures {
        return false;
    }
    let outside_the_allocator = !report.kind.spec().probed;
    let ranks_differ = matches!((rank, report.rank), (Some(a), Some(b)) if a != b);
    let devices_differ = report.device.is_some_and(|device| device != record.device);
    // The message's "allocated" includes free blocks of private pools.
    let pooled = report.private_pools.is_some();
    !outside_the_allocator
        && !ranks_differ
        && !devices_differ
        && prints_as(record.requested, report.requested)
        && (pooled || prints_as(record.sample.allocated, report.allocated))
}

/// Whether two messages say the same.
fn same(a: &OomReport, b: &OomReport) -> bool {
    let ranks_differ = matches!((a.rank, b.rank), (Some(a), Some(b)) if a != b);
    !ranks_differ
        && (a.kind, a.device, a.requested, a.allocated, a.free)
            == (b.kind, b.device, b.requested, b.allocated, b.free)
}

/// Whether an exact figure can be printed like this: with two decimals of its unit (`format_size`
/// in PyTorch's CUDACachingAllocator.cpp). A missing figure fits.
fn prints_as(exact: Bytes, printed: Option<Bytes>) -> bool {
    printed.is_none_or(|printed| {
        let unit = match exact.0 {
            0..=0x400 => 1,
            0x401..=0x10_0000 => 1 << 10,
            0x10_0001..=0x4000_0000 => 1 << 20,
            0x4000_0001.. => 1 << 30,
        };
        // Half of the last digit, and a little for rounding.
        exact.0.abs_diff(printed.0) <= unit / 150 + 1
    })
}

// What the probe found in a process: what can be patched and what became of it, its traced steps, who
// keeps its memory alive.

/// What stands around the reason in the line that says why a step was not rehearsed, be it the probe's own or ours.
const NOT_REHEARSED: &str = "the step that failed could not be replayed: ";
const ONLY_ESTIMATED: &str = "; what other batches need is only estimated";

/// Patches kept of a process: more than there are kinds.
const KINDS: usize = 16;

impl State {
    fn patchable_found(&mut self, found: &Patchable) {
        if let Some(rank) = self.rank_mut(found.pid) {
            rank.patchable = Some(found.clone());
        }
    }

    fn did_at_peak(&mut self, said: &PeakActivity) {
        if let Some(rank) = self.rank_mut(said.pid) {
            rank.peak_doing.retain(|(device, _)| *device != said.device);
            let doing = said.doing.map(|doing| (said.device, doing));
            rank.peak_doing.extend(doing);
        }
    }

    /// Keeps the rehearsed step, or notes why it could not be rehearsed.
    fn rehearsed(&mut self, at: Moment, rehearsal: &Rehearsal) {
        let Some(rank) = self.rank_mut(rehearsal.pid) else {
            return;
        };
        rank.rehearsal = Some(rehearsal.clone());
        if rehearsal.phase == Phase::Forward
            && let Some(run) = self.run_of_mut(rehearsal.pid)
        {
            run.was_in_a_step(rehearsal.pid);
        }
        if let Some(why) = rehearsal.why_not() {
            let text = format!("{NOT_REHEARSED}{why}{ONLY_ESTIMATED}");
            if let Some(run) = self.run_of_mut(rehearsal.pid) {
                run.not_rehearsed = Some(why.into());
            }
            self.note(at, Level::Info, text);
        }
    }

    /// A step, allocation by allocation.
    fn step_traced(&mut self, trace: &StepTrace) {
        if let Some(rank) = self.rank_mut(trace.pid) {
            rank.steps.marks.traced(trace);
            rank.traces.keep(trace);
        }
    }

    /// Keeps the latest search for who keeps its memory alive. The one at an OOM has less time: where it has come to nothing and
    /// an earlier one to a name, that stays.
    fn retainers_found(&mut self, at: Moment, found: &Retainers) {
        if let Some(rank) = self.rank_mut(found.pid) {
            let before = rank.retainers.as_ref();
            if found.left.is_some()
                && !found.has_name()
                && before.is_some_and(|(_, before)| before.has_name())
            {
                return;
            }
            rank.retainers = Some((at, found.clone().bounded()));
        }
    }

    /// Keeps a patch's latest outcome in a process. An outcome that is new to the run is noted.
    fn patched(&mut self, at: Moment, patched: &Patched) {
        let Some(run) = self.run_of_mut(patched.pid) else {
            return;
        };
        let is_said = run.ranks.iter().flat_map(|rank| &rank.patches).any(|said| {
            (&said.patch, said.outcome, &said.words)
                == (&patched.patch, patched.outcome, &patched.words)
        });
        let Some(rank) = run.rank_mut(patched.pid) else {
            return;
        };
        let known = rank
            .patches
            .iter()
            .position(|said| said.patch == patched.patch);
        match known {
            Some(known) => rank.patches[known] = patched.clone(),
            None if rank.patches.len() < KINDS => rank.patches.push(patched.clone()),
            None => return,
        }
        if !is_said {
            let (level, verb) = match patched.outcome {
                PatchOutcome::Applied => (Level::Info, "patched at runtime"),
                PatchOutcome::Declined => (Level::Warning, "not patched at runtime"),
            };
            let text = format!("{verb}, {}: {}", patched.patch, patched.words);
            self.note(at, level, text);
        }
    }
}
