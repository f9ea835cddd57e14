//! Where a known program writes its checkpoints. No I/O: [`Recognized::checkpoints_wanted`] says what to look for.

use super::argument::Arguments;
use super::config_file;
use super::launch::LaunchEnvironment;
use super::program::ProgramEntry;
use super::recognized::Recognized;
use std::path::{Path, PathBuf};

/// Where to look for the checkpoints of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// As written in the command.
    pub directory: PathBuf,
    /// Whether the command sets it; a program's default directory may have other runs in it.
    pub named: bool,
    /// Patterns of paths below it: `#` is a number, `*` anything but a slash.
    pub find: Vec<String>,
    /// The files that a checkpoint directory contains once it is complete.
    pub complete: Vec<String>,
}

impl Recognized<'_> {
    /// Where to look for its checkpoints; `None` if the program is not known to resume.
    pub fn checkpoints_wanted(&self) -> Option<Wanted> {
        let entry = self.known?;
        let resume = &entry.resume;
        if resume.find.is_empty() || self.closed.is_some() {
            return None;
        }
        let arguments = self.arguments();
        let by_argument = directory(&arguments, entry, &self.launch);
        let directory = by_argument
            .clone()
            .or_else(|| resume.default_directory.clone())?;
        let base = Path::new(&directory);
        let mut wanted = Wanted {
            directory: base.to_path_buf(),
            named: by_argument.is_some(),
            find: Vec::new(),
            complete: resume.complete.clone(),
        };
        for pattern in &resume.find {
            match pattern.strip_prefix('+') {
                None => wanted.find.push(pattern.clone()),
                // The argument is a prefix of the file names.
                Some(rest) => {
                    let stem = base.file_name()?.to_str()?;
                    if stem.contains(['#', '*']) {
                        return None;
                    }
                    wanted.find.push(format!("{stem}{rest}"));
                    wanted.directory = match base.parent() {
                        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
                        Some(_) | None => PathBuf::from("."),
                    };
                }
            }
        }
        Some(wanted)
    }
}

/// The directory that the program writes to.
pub(crate) fn directory(
    arguments: &Arguments<'_>,
    entry: &ProgramEntry,
    launch: &LaunchEnvironment<'_>,
) -> Option<String> {
    let typed = entry
        .resume
        .directory
        .iter()
        .find_map(|name| arguments.value_of(name))
        .filter(|value| !value.is_empty());
    if let Some(typed) = typed {
        return Some(typed.to_string());
    }
    let file = config_file::of_command(arguments, entry, launch)?;
    entry
        .file
        .directory
        .iter()
        .find_map(|key| Some(file.scalar(key).ok()??.text))
}
