//! From a session that has ended to the next one: whether what is shown is its last run, and the process that starts its command
//! again in this one's place.

use crate::command::{CommandLine, MASK, Word};
use crate::query::told::read_state;
use crate::recognize::{LaunchEnvironment, WorkloadKey};
use crate::remedy::{Availability, Remedy, RemedyId};
use crate::state::{Run, State};
use crate::ui::{LaterRun, RanWell, ShownRun};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;

/// What was chosen to start.
#[derive(Debug)]
pub(super) enum NextSession {
    /// The recorded command, with these remedies.
    Again(Vec<RemedyId>),
    /// The command as it was edited.
    Edited(CommandLine),
}

impl NextSession {
    /// # Errors
    /// Why nothing can be started.
    pub fn new(
        remedies: Vec<RemedyId>,
        edited: Option<CommandLine>,
    ) -> Result<NextSession, &'static str> {
        let Some(command) = edited else {
            return Ok(NextSession::Again(remedies));
        };
        let has_mask = |word: &Word| word.to_string_lossy().contains(MASK);
        let mut values = command
            .env
            .iter()
            .filter_map(|change| change.value.as_ref());
        match command.argv.iter().any(has_mask) || values.any(has_mask) {
            true => Err("not started: fill in the secrets, which no recording has"),
            false => Ok(NextSession::Edited(command)),
        }
    }

    /// Starts it in this process's place. Returns only if that isn't possible.
    pub fn start(self, recording: &Path) -> anyhow::Error {
        let oomph = match std::env::current_exe() {
            Ok(oomph) => oomph,
            Err(error) => return anyhow::Error::from(error).context("cannot start oomph"),
        };
        let failed = self.command(oomph, recording).exec();
        anyhow::Error::from(failed).context("cannot start the command again")
    }

    fn command(self, oomph: PathBuf, recording: &Path) -> Command {
        let mut next = Command::new(oomph);
        match self {
            NextSession::Again(remedies) => {
                next.arg("again").arg(recording);
                let names: Vec<String> = remedies.iter().map(|id| id.name()).collect();
                match names.as_slice() {
                    [] => next.arg("--same"),
                    names => next.arg("--remedy").arg(names.join(",")),
                };
            }
            NextSession::Edited(command) => {
                next.arg("--").args(command.argv.iter().map(|word| &word.0));
                if command.cwd.is_dir() {
                    next.current_dir(&command.cwd);
                }
                for change in &command.env {
                    match &change.value {
                        Some(value) => next.env(&change.name.0, &value.0),
                        None => next.env_remove(&change.name.0),
                    };
                }
            }
        }
        next
    }
}

/// A recording's last run, where that has ended: read beside the loop, since recordings may be long.
pub(super) struct LastRun {
    asked: Option<mpsc::Receiver<Option<FoundRun>>>,
    found: Option<FoundRun>,
}

struct FoundRun {
    run: LaterRun,
    /// The remedies that it was started with, by their titles.
    remedies: Vec<String>,
}

impl FoundRun {
    fn last_of(state: &State) -> Option<FoundRun> {
        let run = state.run().filter(|run| run.ended.is_some())?;
        Some(FoundRun {
            run: LaterRun {
                number: run.number,
                ran: run.trained_well().then(|| ran_well(state, run)).flatten(),
            },
            remedies: run.remedies.clone(),
        })
    }
}

fn ran_well(state: &State, run: &Run) -> Option<RanWell> {
    let launch = LaunchEnvironment {
        told: state.knobs.as_ref(),
        ..LaunchEnvironment::default()
    };
    Some(RanWell {
        batch: WorkloadKey::new(&run.command, &launch).batch,
        steps: run.steps(),
        peak: run.peak()?,
    })
}

impl LastRun {
    pub fn of(file: &Path) -> LastRun {
        let (sender, receiver) = mpsc::channel();
        let file = file.to_owned();
        // Without a thread nothing is offered.
        let thread = std::thread::Builder::new().name("last run".into());
        let _ = thread.spawn(move || {
            let state = read_state(&file).ok();
            let _ = sender.send(state.as_ref().and_then(FoundRun::last_of));
        });
        LastRun {
            asked: Some(receiver),
            found: None,
        }
    }

    /// Takes what was found; whether there is something new to draw.
    pub fn take(&mut self) -> bool {
        let found = self.asked.as_ref().and_then(|asked| asked.try_recv().ok());
        let is_new = found.is_some();
        if is_new {
            self.asked = None;
            self.found = found.flatten();
        }
        is_new
    }

    /// Which of the recording's runs this is, at its end.
    pub fn shown(&self, state: &State) -> ShownRun {
        let shown = state.run().filter(|run| run.ended.is_some());
        match (shown, &self.found) {
            (Some(run), Some(last)) if run.number == last.run.number => ShownRun::Last,
            (Some(_), Some(last)) => ShownRun::Earlier(last.run),
            (None, _) | (_, None) => ShownRun::Unknown,
        }
    }

    /// Of remedies of an earlier run, says of those that the last one ran with that they could be had, whatever is in the way
    /// where the recording is looked at.
    pub fn correct(&self, shown: &State, remedies: &mut [Remedy]) {
        let Some(last) = self.found.as_ref().filter(|last| last.run.ran.is_some()) else {
            return;
        };
        let number = last.run.number;
        if shown.run().is_none_or(|run| run.number >= number) {
            return;
        }
        for remedy in remedies {
            if !remedy.is_offered() && last.remedies.contains(&remedy.title) {
                let reason = format!("run {number} ran with it");
                remedy.availability = Availability::NotOffered(reason.into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(next: NextSession) -> Vec<String> {
        let command = next.command("oomph".into(), Path::new("/s/events.jsonl"));
        let words = command
            .get_args()
            .map(|word| word.to_string_lossy().into_owned());
        words.collect()
    }

    #[test]
    fn what_was_chosen_is_started_by_a_process_of_its_own() {
        let again = |remedies| words(NextSession::new(remedies, None).expect("a command"));
        assert_eq!(again(vec![]), ["again", "/s/events.jsonl", "--same"]);
        assert_eq!(
            again(vec![RemedyId::Batch, RemedyId::Amp]),
            ["again", "/s/events.jsonl", "--remedy", "batch,amp"]
        );
        let edited = CommandLine::typed("python train.py --batch-size 16");
        let edited = NextSession::new(vec![], Some(edited)).expect("a command");
        assert_eq!(
            words(edited),
            ["--", "python", "train.py", "--batch-size", "16"]
        );
    }

    #[test]
    fn a_masked_secret_is_not_started() {
        let secret = CommandLine::typed("python train.py --token abc").without_secrets();
        assert!(NextSession::new(vec![], Some(secret)).is_err());
    }
}
