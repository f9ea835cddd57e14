//! Whether the remedies of a run took effect, and whether its program rejected them. A rejected edit
//! is taken back; the dialog then offers to continue without it.

use super::tail::OutputTail;
use super::{NextRun, Session};
use crate::command::CommandLine;
use crate::event::{EventKind, Exit, Hello, Level};
use crate::forecast;
use crate::remedy::{self, Ended, RejectedRemedy, Remedy};
use crate::state::RunOutcome;
use crate::units::Uuid;

/// The remedies of this session's runs.
#[derive(Default)]
pub(crate) struct Changes {
    applied: Option<AppliedRemedies>,
    /// The end of the current run's output, with the program's error message.
    tail: OutputTail,
    rejected: Vec<RejectedRemedy>,
    /// What was chosen besides the edit that the latest run rejected; `None` once another run has started.
    others: Option<Vec<Remedy>>,
}

/// The remedies that made the current run.
struct AppliedRemedies {
    before: CommandLine,
    remedies: Vec<Remedy>,
    failed: Option<Uuid>,
    is_verified: bool,
}

impl Changes {
    /// The remedies without those that the program has rejected, and with the option to continue without
    /// them.
    pub(crate) fn without_rejected(&self, remedies: Vec<Remedy>) -> Vec<Remedy> {
        remedy::without_rejected(remedies, &self.rejected, self.others.as_deref())
    }
}

impl Session {
    /// For the next run: keeps its remedies until it ends.
    pub(crate) fn begin_run(&mut self, next: NextRun) {
        let changes = &mut self.changes;
        changes.applied = (!next.applied.is_empty()).then(|| AppliedRemedies {
            before: self.handover.command.clone(),
            remedies: next.applied,
            failed: self.state.oom().and_then(|oom| oom.device.clone()),
            is_verified: false,
        });
        changes.others = None;
        changes.tail.clear();
        self.handover.command = next.command;
        let peak = next.prediction.as_ref().and_then(|said| said.peak);
        self.handover.chosen = (next.remedies, peak);
        self.handover.prediction = next.prediction;
        self.forget_hint();
    }

    /// Once the current run has ended.
    pub(crate) fn record_what_came_of_the_prediction(&mut self) {
        let run = self.state.run().filter(|run| run.prediction.is_some());
        if let Some(outcome) = run.and_then(forecast::score::outcome) {
            self.record(EventKind::PredictionOutcome(outcome));
        }
    }

    /// Keeps output, if the command was changed.
    pub(crate) fn heard(&mut self, bytes: &[u8]) {
        if self.changes.applied.is_some() {
            self.changes.tail.feed(bytes);
        }
    }

    /// Checks in a process that has connected whether the changes are in effect.
    pub(crate) fn verify_applied(&mut self, hello: &Hello) {
        let run = self.run_number();
        let Some(applied) = &mut self.changes.applied else {
            return;
        };
        if hello.run != run || std::mem::replace(&mut applied.is_verified, true) {
            return;
        }
        let failed = applied.failed.as_ref();
        for words in remedy::not_in_force(&applied.remedies, hello, failed) {
            self.note(Level::Warning, words);
        }
    }

    /// Takes back what the run that has just ended rejected; whether there was something.
    pub(crate) fn take_back(&mut self, exit: Exit) -> bool {
        let Some(applied) = self.changes.applied.take() else {
            return false;
        };
        let Some(run) = self.state.run() else {
            return false;
        };
        if !matches!(run.outcome(), RunOutcome::Failed(_)) {
            return false;
        }
        let ended = run.ended.map_or(run.started, |(at, _)| at);
        let rejected = remedy::rejected(
            &applied.remedies,
            &Ended {
                output: &self.changes.tail.text(),
                exit,
                lasted: ended.since(run.started),
                steps: run.steps(),
            },
        );
        let Some(rejected) = rejected else {
            return false;
        };
        let (of_edit, others): (Vec<Remedy>, Vec<Remedy>) = applied
            .remedies
            .into_iter()
            .partition(|remedy| remedy.id == rejected.id);
        let what = of_edit
            .first()
            .map_or("the change", |remedy| remedy.title.as_str());
        self.note(
            Level::Warning,
            format!("{what} was undone; the program said: {}", rejected.words),
        );
        self.handover.command = applied.before;
        self.changes.rejected.push(rejected);
        self.changes.others = Some(others);
        self.diagnose();
        true
    }
}
