//! What became of a change: whether the remedies that made a run took effect, and whether its
//! program rejected them. A rejected edit is taken back; the dialog then offers to go on without it.

use super::Front;
use crate::app::phase::Next;
use crate::app::screen::Due;
use crate::command::CommandLine;
use crate::event::{Exit, Hello, Level};
use crate::remedy::{self, Ended, RejectedRemedy, Remedy, RemedyId};
use crate::state::RunOutcome;
use crate::units::Uuid;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;

/// The remedies that made the current run.
pub(super) struct Applied {
    /// The command that they changed.
    before: CommandLine,
    remedies: Vec<Remedy>,
    /// The device that had run out of memory.
    failed: Option<Uuid>,
    /// Whether it was looked already whether they are in force.
    read_back: bool,
}

/// What was taken back in this session.
#[derive(Default)]
pub(super) struct TakenBack {
    rejections: Vec<RejectedRemedy>,
    /// What was chosen beside the edit that the latest run rejected; nothing once another run began.
    others: Option<Vec<Remedy>>,
}

impl Front {
    /// The next run begins: what makes it is kept for when it ends.
    pub(super) fn begin_change(&mut self, next: &Next) {
        let chosen = next.applied.clone();
        self.applied = (!chosen.is_empty()).then(|| Applied {
            before: self.command.clone(),
            remedies: chosen,
            failed: self.state.oom().and_then(|oom| oom.device.clone()),
            read_back: false,
        });
        self.taken_back.others = None;
        self.tail.clear();
    }

    /// Writes the edited copies of files that the next command names.
    pub(super) fn write_copies(&self, next: &Next) -> Result<(), String> {
        for copy in &next.files {
            let written = std::fs::OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&copy.path)
                .and_then(|mut file| file.write_all(copy.text.as_bytes()));
            written.map_err(|error| {
                format!(
                    "the edited copy {} cannot be written ({error}); not relaunched",
                    copy.path.display()
                )
            })?;
        }
        Ok(())
    }

    /// A process of the run has said hello: what was changed in its surroundings is read back.
    pub(super) fn read_back(&mut self, hello: &Hello) {
        let run = self.run_number();
        let Some(applied) = &mut self.applied else {
            return;
        };
        if hello.run != run || std::mem::replace(&mut applied.read_back, true) {
            return;
        }
        let failed = applied.failed.as_ref();
        for words in remedy::not_in_force(&applied.remedies, hello, failed) {
            self.note(Level::Warning, words);
        }
    }

    /// Takes back what the run that has just ended rejected. Whether something was.
    pub(super) fn take_back(&mut self, exit: Exit) -> bool {
        let Some(applied) = self.applied.take() else {
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
                output: &self.tail.text(),
                exit,
                lasted: ended.since(run.started),
                steps: run.steps(),
            },
        );
        let Some(rejection) = rejected else {
            return false;
        };
        let (rejected, others): (Vec<Remedy>, Vec<Remedy>) = applied
            .remedies
            .into_iter()
            .partition(|remedy| remedy.id == rejection.id);
        let what = rejected
            .first()
            .map_or("the change", |remedy| remedy.title.as_str());
        self.note(
            Level::Warning,
            format!("{what} was undone; the program said: {}", rejection.words),
        );
        self.command = applied.before;
        self.taken_back.rejections.push(rejection);
        self.taken_back.others = Some(others);
        self.diagnose();
        true
    }

    /// Opens the dialog for a run that did not run out of memory but rejected a change.
    pub(super) fn offer_again(&mut self) {
        self.on_screen(|screen, around| {
            screen.open_remedies(around);
            Ok(())
        });
        self.request(Due::Now);
    }

    /// The remedies, less what the program has rejected, and with the way to go on without it.
    pub(super) fn without_rejected(&self, remedies: Vec<Remedy>) -> Vec<Remedy> {
        remedy::without_rejected(
            remedies,
            &self.taken_back.rejections,
            self.taken_back.others.as_deref(),
        )
    }

    /// What was chosen, where going on without the rejected edit means the others.
    pub(super) fn expanded(&self, ids: &[RemedyId]) -> Vec<Remedy> {
        self.remedies
            .iter()
            .filter(|remedy| ids.contains(&remedy.id))
            .cloned()
            .collect()
    }
}
