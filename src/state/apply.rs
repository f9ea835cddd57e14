//! Folds one event into the state.
//!
//! Events count at their time stamp, whenever they arrive: a late one of an earlier run goes to
//! that run. Nothing grows without bound.

mod device;
mod oom;
mod patch;
mod rank;
mod run;
mod sample;
mod step;

use super::State;
use super::bounded::push_bounded;
use crate::event::{Consequence, Dropped, Event, EventKind, Level, Note};
use crate::oom::ConsequenceKind;
use crate::units::Moment;

/// Notes kept.
const NOTES: usize = 200;

/// Lines kept of what followed from a rank's failure: one of each rank of a large job.
const CONSEQUENCES: usize = 1_024;

impl State {
    /// Takes one event in.
    pub fn apply(&mut self, event: &Event) {
        let at = event.at;
        self.now = self.now.max(at);
        match &event.what {
            EventKind::SessionStarted(session) => self.session = Some(session.clone()),
            EventKind::Started(started) => self.run_started(at, started),
            EventKind::SpawnFailed(failure) => {
                self.note(at, Level::Warning, failure.reason.clone());
                self.spawn_failed = Some(failure.clone());
            }
            EventKind::Exited(exited) => self.run_exited(at, exited),
            EventKind::Nvml(nvml) => self.nvml_said(at, nvml),
            EventKind::Device(reading) => self.device_read(at, reading),
            EventKind::Hello(hello) => self.hello(at, hello),
            EventKind::Sample(sample) => self.sampled(at, sample),
            EventKind::Step(step) => self.stepped(at, step),
            EventKind::Structure(structure) => self.structure_read(structure),
            EventKind::Oom(record) => self.oom_recorded(at, record),
            EventKind::Patchable(found) => self.patchable_found(found),
            EventKind::Rehearsal(rehearsal) => self.rehearsed(at, rehearsal),
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
            EventKind::Note(note) => self.note(at, note.level, note.text.clone()),
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
            _ => push_bounded(&mut run.consequences, (at, *consequence), CONSEQUENCES),
        }
    }

    fn note(&mut self, at: Moment, level: Level, text: String) {
        push_bounded(&mut self.notes, (at, Note { level, text }), NOTES);
    }

    fn dropped(&mut self, more: &Dropped) {
        let sum = &mut self.dropped;
        sum.samples = sum.samples.saturating_add(more.samples);
        sum.output += more.output;
        sum.unlogged += more.unlogged;
        sum.malformed = sum.malformed.saturating_add(more.malformed);
    }
}
