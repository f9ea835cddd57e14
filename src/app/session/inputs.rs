//! What the remedies are told that neither the command nor the state says: the user's own entries of
//! programs, the environment, the files and checkpoints that the command names, what is left of
//! earlier sessions. Looked up here, at the edge; what follows from it is the remedies' business.

use super::leftovers;
use crate::app::allocator::InheritedSettings;
use crate::command::{CommandLine, Word};
use crate::config::UserSettings;
use crate::recognize::{self, Catalogue, Checkpoint, ConfigFile, LaunchEnvironment};
use crate::remedy::Leftover;
use crate::state::State;
use crate::surroundings;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// What the process that started the session found around it. One that attaches later stands in
/// another environment, and is told this.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct StartEnvironment {
    /// The allocator's settings.
    inherited: InheritedSettings,
    /// The variables that remedies ask for, as far as they are set.
    environment: Vec<(String, String)>,
    /// Where edited copies of files go.
    copies: Option<Word>,
}

/// It, as far as it was looked up.
#[derive(Debug, Clone, Default)]
pub(crate) struct SessionInputs {
    around: StartEnvironment,
    own: Vec<Catalogue>,
    files: Vec<ConfigFile>,
    checkpoint: Option<Checkpoint>,
    leftovers: Vec<Leftover>,
    /// torch's version by what lies on the disk, where no probe has said it.
    pub torch: Option<String>,
}

impl SessionInputs {
    /// What is known before anything has run: the environment of this process, and the user's own
    /// entries of programs. What is wrong with those comes back in words.
    pub(crate) fn at_start(settings: &UserSettings) -> (SessionInputs, Vec<String>) {
        let environment = recognize::environment_read()
            .filter_map(|name| Some((name.to_string(), std::env::var(name).ok()?)))
            .collect();
        let around = StartEnvironment {
            inherited: InheritedSettings::read(|name| std::env::var_os(name)),
            environment,
            copies: None,
        };
        SessionInputs::again(around, settings)
    }

    /// The same in the place of a front before, which left `around`.
    pub(crate) fn again(
        around: StartEnvironment,
        settings: &UserSettings,
    ) -> (SessionInputs, Vec<String>) {
        let (own, problems) = own_entries(settings);
        let inputs = SessionInputs {
            around,
            own,
            ..SessionInputs::default()
        };
        (inputs, problems)
    }

    /// The same, with a place for edited copies of files.
    pub(crate) fn with_copies(mut self, directory: Option<PathBuf>) -> SessionInputs {
        self.around.copies = directory.map(|path| Word::from(path.as_path()));
        self
    }

    /// What the next front is to be told of the environment.
    pub(crate) fn surroundings(&self) -> StartEnvironment {
        self.around.clone()
    }

    /// Looks at the disk for `command`: its config files, and its newest checkpoint. Checkpoints
    /// older than `since` are another run's; where nothing has run, those are looked for alone that
    /// lie where the command says.
    pub(crate) fn look(&mut self, command: &CommandLine, since: Option<SystemTime>) {
        let named = recognize::named_files(command, &self.launch());
        self.files = named
            .into_iter()
            .filter_map(|named| {
                let text = surroundings::config_text(&command.cwd, &named.name)?;
                Some(ConfigFile {
                    at: named.at,
                    from: named.from,
                    name: named.name,
                    text,
                })
            })
            .collect();
        let wanted = recognize::checkpoints_wanted(command, &self.launch());
        self.checkpoint = wanted
            .filter(|wanted| wanted.named || since.is_some())
            .and_then(|wanted| {
                let search = surroundings::CheckpointSearch {
                    directory: &wanted.directory,
                    find: &wanted.find,
                    complete: &wanted.complete,
                    since,
                };
                surroundings::newest_checkpoint(&command.cwd, search)
            })
            .map(|found| Checkpoint {
                path: found.path,
                number: found.number,
            });
    }

    /// Looks for what is left of earlier sessions on the device that ran out of memory.
    pub(crate) fn look_for_leftovers(&mut self, state: &State) {
        self.leftovers = leftovers::find(state);
    }

    /// What is left of earlier sessions, as of the last look.
    pub(crate) fn leftovers(&self) -> &[Leftover] {
        &self.leftovers
    }

    /// It, as the command's surroundings; the rest of them is the caller's.
    pub(crate) fn launch(&self) -> LaunchEnvironment<'_> {
        LaunchEnvironment {
            inherited: self.around.inherited.as_inherited(),
            environment: &self.around.environment,
            own: &self.own,
            files: &self.files,
            checkpoint: self.checkpoint.as_ref(),
            ..LaunchEnvironment::default()
        }
    }

    /// Where copies for the run of this number go.
    pub(crate) fn copies(&self, run: u32) -> Option<(&Path, u32)> {
        let copies = self.around.copies.as_ref()?;
        Some((Path::new(&copies.0), run))
    }
}

/// The entries in the user's `oomph.toml`s, the project's before the user's.
fn own_entries(settings: &UserSettings) -> (Vec<Catalogue>, Vec<String>) {
    let mut own = Vec::new();
    let mut problems = Vec::new();
    for file in &settings.programs {
        match Catalogue::of_user(&file.text, &file.path.display().to_string()) {
            Ok(catalogue) => own.push(catalogue),
            Err(problem) => problems.push(problem),
        }
    }
    (own, problems)
}
