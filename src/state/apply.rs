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
use crate::event::{Consequence, Dropped, Event, Level, Note, What};
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
            What::SessionStarted(session) => self.session = Some(session.clone()),
            What::Started(started) => self.run_started(at, started),
            What::SpawnFailed(failure) => {
                self.note(at, Level::Warning, failure.reason.clone());
                self.spawn_failed = Some(failure.clone());
            }
            What::Exited(exited) => self.run_exited(at, exited),
            What::Nvml(nvml) => self.nvml_said(at, nvml),
            What::Device(reading) => self.device_read(at, reading),
            What::Hello(hello) => self.hello(at, hello),
            What::Sample(sample) => self.sampled(at, sample),
            What::Step(step) => self.stepped(at, step),
            What::Structure(structure) => self.structure_read(structure),
            What::Oom(record) => self.oom_recorded(at, record),
            What::Patchable(found) => self.patchable_found(found),
            What::Rehearsal(rehearsal) => self.rehearsed(at, rehearsal),
            What::StepTrace(trace) => self.step_traced(trace),
            What::SourceText(texts) => {
                let mut runs = self.runs.iter_mut();
                if let Some(run) = runs.find(|run| run.number == texts.run) {
                    run.source.keep(&texts.lines);
                }
            }
            What::Retainers(found) => self.retainers_found(at, found),
            What::Patch(patched) => self.patched(at, patched),
            What::UncaughtOom(ended) => {
                if let Some(rank) = self.rank_mut(ended.pid) {
                    rank.ended_by_oom = true;
                }
            }
            What::ProbeErrors(errors) => {
                if let Some(rank) = self.rank_mut(errors.pid) {
                    rank.probe_errors = Some((at, errors.clone()));
                }
            }
            What::ProbeGone(gone) => self.probe_gone(at, gone),
            What::OomText(report) => self.oom_read(at, report),
            What::PredictionOutcome(outcome) => {
                let mut runs = self.runs.iter_mut();
                if let Some(run) = runs.find(|run| run.number == outcome.run) {
                    run.prediction_outcome = Some(outcome.clone());
                }
            }
            What::Consequence(consequence) => self.followed(at, consequence),
            What::Epoch(epoch) => {
                if let Some(run) = self.runs.last_mut() {
                    run.epochs.told(at, epoch.number);
                }
            }
            What::StopRequested(_) => {
                if let Some(run) = self.runs.last_mut() {
                    run.stop_requested.get_or_insert(at);
                }
            }
            What::Note(note) => self.note(at, note.level, note.text.clone()),
            What::Dropped(dropped) => self.dropped(dropped),
            What::Logged(_) | What::Unknown => {}
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
