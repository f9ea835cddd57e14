//! The run that was chosen to be next.

use super::{Session, leftovers};
use crate::command::CommandLine;
use crate::event::{Level, Prediction};
use crate::remedy::{self, FileCopy, Leftover, Remedy, RemedyId};
use crate::ui;
use crate::units::{Moment, Pid};
use crate::whole_file::{self, Readers};

/// The next run, and what must happen before.
#[derive(Debug, Clone)]
pub(crate) struct NextRun {
    pub command: CommandLine,
    /// Its remedies, in words.
    pub remedies: Vec<String>,
    pub prediction: Option<Prediction>,
    pub applied: Vec<Remedy>,
    /// Edited copies of files, to be written first.
    pub files: Vec<FileCopy>,
    /// Processes that must have left the device.
    pub awaited: Vec<Pid>,
    /// Those that were sent SIGTERM, and are killed after this instant.
    pub ending: Option<(Vec<Leftover>, Moment)>,
}

impl NextRun {
    pub(crate) fn plain(command: CommandLine, remedies: Vec<String>) -> NextRun {
        NextRun {
            command,
            remedies,
            prediction: None,
            applied: Vec::new(),
            files: Vec::new(),
            awaited: Vec::new(),
            ending: None,
        }
    }

    pub(crate) fn write_copies(&self) -> Result<(), String> {
        for copy in &self.files {
            let written = whole_file::replace(&copy.path, Readers::Owner, copy.text.as_bytes());
            written.map_err(|error| {
                let path = copy.path.display();
                format!("cannot write the edited copy {path} ({error}); not relaunched")
            })?;
        }
        Ok(())
    }
}

impl Session {
    /// The run that the user has chosen: by remedies, or as an edited command.
    pub(crate) fn next_run(&mut self, ids: &[RemedyId], edited: Option<CommandLine>) -> NextRun {
        let applied = self.chosen(ids);
        let plan = self.plan(ids);
        let command = match edited {
            Some(mut command) => {
                ui::restore_masked(&mut command, self.command());
                command
            }
            None => plan.command.clone(),
        };
        let chosen: Vec<&Remedy> = applied.iter().collect();
        // Of a command that the user has changed further nothing was predicted.
        let prediction = match (chosen.as_slice(), command == plan.command) {
            (_, false) => None,
            // What is expected of one alone is known already.
            ([one], true) if one.expectation.peak.is_some() => one.expectation.prediction(),
            (several, true) => {
                remedy::expectation(self.command(), &self.remedy_inputs(), several).prediction()
            }
        };
        NextRun {
            command,
            remedies: applied.iter().map(|remedy| remedy.title.clone()).collect(),
            prediction,
            awaited: self.awaited(ids),
            ending: self.end_leftovers(ids),
            applied,
            files: plan.files,
        }
    }

    fn chosen(&self, ids: &[RemedyId]) -> Vec<Remedy> {
        let remedies = self.remedies().iter();
        let chosen = remedies.filter(|remedy| ids.contains(&remedy.id));
        chosen.cloned().collect()
    }

    /// The processes that must leave the device first, if that was chosen.
    fn awaited(&self, ids: &[RemedyId]) -> Vec<Pid> {
        let mut awaited = Vec::new();
        if ids.contains(&RemedyId::Wait) {
            awaited.extend(
                self.findings
                    .iter()
                    .filter_map(|finding| finding.other_process),
            );
        }
        if ids.contains(&RemedyId::StopLeftover) {
            awaited.extend(self.leftovers().iter().map(|leftover| leftover.pid));
        }
        awaited
    }

    /// Sends SIGTERM to processes of earlier sessions, if that was chosen.
    fn end_leftovers(&mut self, ids: &[RemedyId]) -> Option<(Vec<Leftover>, Moment)> {
        if !ids.contains(&RemedyId::StopLeftover) {
            return None;
        }
        let leftovers = self.leftovers().to_vec();
        for leftover in &leftovers {
            let (pid, session) = (leftover.pid, &leftover.session);
            let words = match leftovers::signal(leftover, leftovers::Signal::TERM) {
                Ok(()) => format!("SIGTERM sent to process {pid}, left over from {session}"),
                Err(error) => {
                    format!("process {pid}, left over from {session}, cannot be ended: {error}")
                }
            };
            self.note(Level::Warning, words);
        }
        Some((leftovers, self.clock.now() + leftovers::GRACE))
    }
}
