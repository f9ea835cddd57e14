//! Inputs of the remedies beyond command and state: the user's own program entries, the environment,
//! config files and checkpoints of the command, and processes left by earlier sessions. Everything
//! that needs I/O is read here, so that the remedies need none.

use super::learned;
use super::leftovers::Suspects;
use crate::command::{CommandLine, Word};
use crate::config::UserSettings;
use crate::event::LaunchFacts;
use crate::live::program_text::{self, batch_rules, program_text};
use crate::live::torch;
use crate::live::torch::InheritedSettings;
use crate::project_files;
use crate::recognize::text::{BatchRules, ProgramText};
use crate::recognize::{
    self, BaseFile, BaseFiles, Catalogue, Checkpoint, ConfigFile, LaunchEnvironment, LearnedKnob,
    Recognized, named_bases,
};
use crate::remedy::Leftover;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The environment of the process that started the session. A front that attaches later runs in
/// another one and uses this.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct StartEnvironment {
    inherited: InheritedSettings,
    /// The variables that remedies need, if they are set.
    environment: Vec<(String, String)>,
    /// Where edited copies of files go.
    copies: Option<Word>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    wsl: bool,
}

/// Whether this is WSL2: by the variable that it sets, or in a container by its kernel.
fn is_wsl() -> bool {
    let release = || std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    std::env::var_os("WSL_DISTRO_NAME").is_some() || release().contains("microsoft")
}

/// What remedies rest on beside command and state, as far as it was looked up.
#[derive(Debug, Clone, Default)]
pub(crate) struct SessionInputs {
    around: StartEnvironment,
    own: Vec<Catalogue>,
    files: Vec<ConfigFile>,
    checkpoint: Option<Checkpoint>,
    leftovers: Vec<Leftover>,
    /// What the program's text says, where it was read.
    text: Option<ProgramText>,
    /// What it asks of the batch, where only that was read.
    batch_rules: Option<BatchRules>,
    /// What this session and earlier ones have shown of the program's numbers.
    learned: Vec<LearnedKnob>,
    /// torch's version as installed, if no probe has reported it.
    pub torch: Option<String>,
}

impl SessionInputs {
    /// From this process's environment and the user's own program entries; also returns what is wrong
    /// with those.
    pub(crate) fn at_start(settings: &UserSettings) -> (SessionInputs, Vec<String>) {
        let environment = recognize::environment_read()
            .filter_map(|name| Some((name.to_string(), std::env::var(name).ok()?)))
            .collect();
        let around = StartEnvironment {
            inherited: InheritedSettings::read(|name| std::env::var_os(name)),
            environment,
            copies: None,
            wsl: is_wsl(),
        };
        SessionInputs::again(around, settings)
    }

    /// For a front that takes over from one that left `around`; also returns what is wrong with the user's
    /// own program entries.
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

    /// The allocator's settings are those with which the recorded session was started, where it has them: this process's may be
    /// others, and what a remedy adds goes beside the former.
    pub(crate) fn started_with(mut self, launched: Option<&LaunchFacts>) -> SessionInputs {
        if let Some(launched) = launched {
            self.around.inherited =
                InheritedSettings::read(|name| launched.variables.get(name).map(OsString::from));
        }
        self
    }

    pub(crate) fn with_copies(mut self, directory: Option<PathBuf>) -> SessionInputs {
        self.around.copies = directory.map(|path| Word::from(path.as_path()));
        self
    }

    pub(crate) fn surroundings(&self) -> StartEnvironment {
        self.around.clone()
    }

    /// Reads config files, the newest checkpoint of `command`, and what earlier sessions have learned of its
    /// numbers. Checkpoints older than `since` are of
    /// another run; if nothing has run yet, only the command's own directory is searched.
    pub(crate) fn look(&mut self, command: &CommandLine, since: Option<SystemTime>) {
        let named = self.recognize(command).named_files();
        self.files = named
            .into_iter()
            .filter_map(|named| {
                let here = project_files::config_text(&command.cwd, &named.name);
                // One that is named without a path may be a package's.
                let of_package = || {
                    let packages = program_text::site_packages(command)?;
                    project_files::config_text(&packages, &named.name)
                };
                let text = here.or_else(of_package)?;
                Some(ConfigFile {
                    at: named.at,
                    from: named.from,
                    bases: base_files(&command.cwd, &named.name, &text),
                    name: named.name,
                    text,
                })
            })
            .collect();
        self.learned = learned::read(command);
        let wanted = self.recognize(command).checkpoints_wanted();
        self.checkpoint = wanted
            .filter(|wanted| wanted.named || since.is_some())
            .and_then(|wanted| {
                let search = project_files::CheckpointSearch {
                    directory: &wanted.directory,
                    find: &wanted.find,
                    complete: &wanted.complete,
                    since,
                };
                project_files::newest_checkpoint(&command.cwd, search)
            })
            .map(|found| Checkpoint {
                path: found.path,
                number: found.number,
            });
    }

    /// Reads the program's own text: what is known of its batch before anything ran, and what no process tells of.
    pub(crate) fn read_text(&mut self, command: &CommandLine) {
        self.text = program_text(&self.recognize(command));
    }

    pub(crate) fn into_text(self) -> Option<ProgramText> {
        self.text
    }

    pub(crate) fn take_text(&mut self, text: ProgramText) {
        self.text = Some(text);
    }

    /// Looks only at what the program's text asks of its batch: what sets it the process has told.
    fn look_at_text(&mut self, command: &CommandLine) {
        self.batch_rules = Some(batch_rules(&self.recognize(command)));
    }

    /// What is on the disk after an out-of-memory, and which of the processes on the device an earlier
    /// session has left; torch's version where no probe has reported it.
    pub(crate) fn looked_up(
        mut self,
        command: &CommandLine,
        since: SystemTime,
        suspects: &Suspects,
        is_probed: bool,
    ) -> SessionInputs {
        if !is_probed {
            self.torch = torch::version_for(command);
        }
        self.look(command, Some(since));
        self.look_at_text(command);
        self.leftovers = suspects.leftovers();
        self
    }

    /// Adds what this session has learned.
    pub(crate) fn learn(&mut self, of_session: &[LearnedKnob]) {
        for knob in of_session {
            self.learned.retain(|known| known.place != knob.place);
            self.learned.push(knob.clone());
        }
    }

    pub(crate) fn leftovers(&self) -> &[Leftover] {
        &self.leftovers
    }

    pub(crate) fn launch(&self) -> LaunchEnvironment<'_> {
        LaunchEnvironment {
            inherited: self.around.inherited.as_inherited(),
            environment: &self.around.environment,
            wsl: self.around.wsl,
            own: &self.own,
            files: &self.files,
            checkpoint: self.checkpoint.as_ref(),
            text: self.text.as_ref(),
            batch_rules: self.batch_rules.as_ref(),
            learned: &self.learned,
            ..LaunchEnvironment::default()
        }
    }

    /// The command as it is understood with this launch.
    pub(crate) fn recognize<'a>(&'a self, command: &'a CommandLine) -> Recognized<'a> {
        Recognized::new(command, &self.launch())
    }

    /// The directory for edited copies of files for this run.
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

/// As many files a config builds on are read.
const MOST_BASES: usize = 24;

/// The files that a config builds on, those that these build on behind each of them.
fn base_files(cwd: &Path, name: &Path, text: &str) -> BaseFiles {
    let mut bases = BaseFiles::default();
    let mut seen: Vec<PathBuf> = cwd.join(name).canonicalize().into_iter().collect();
    read_bases(cwd, name, text, &mut bases, &mut seen);
    bases
}

fn read_bases(cwd: &Path, name: &Path, text: &str, bases: &mut BaseFiles, seen: &mut Vec<PathBuf>) {
    let (named, has_others) = named_bases(name, text);
    bases.has_others |= has_others;
    // Of several the last one goes over the others, and so is looked into first.
    for base in named.into_iter().rev() {
        let path = name.parent().unwrap_or(Path::new("")).join(base);
        let Ok(whole) = cwd.join(&path).canonicalize() else {
            bases.has_others = true;
            continue;
        };
        if seen.contains(&whole) {
            continue;
        }
        seen.push(whole);
        match project_files::config_text(cwd, &path) {
            Some(text) if bases.read.len() < MOST_BASES => {
                bases.read.push(BaseFile {
                    name: path.clone(),
                    text: text.clone(),
                });
                read_bases(cwd, &path, &text, bases, seen);
            }
            Some(_) | None => bases.has_others = true,
        }
    }
}
