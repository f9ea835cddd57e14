//! What the server may look at: this user's sessions and the recordings that it was started with, by their names alone; and
//! for a command that is planned the directory that the server was started in, and those of the sessions.

use crate::command::CommandLine;
use crate::query::recordings;
use crate::query::told::{name_of, read_state};
use crate::recognize::{LaunchEnvironment, ProgramKind, Recognized};
use anyhow::Context;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// A session's name is a file's name: longer is none.
const LONGEST_NAME: usize = 255;

pub(super) struct ReadScope {
    /// The recordings that the server was started with, by their names.
    served: Vec<(String, PathBuf)>,
    /// Where it was started.
    pub directory: PathBuf,
}

impl ReadScope {
    /// # Errors
    /// One of these is no recording.
    pub fn new(recordings: &[PathBuf]) -> anyhow::Result<ReadScope> {
        let mut served: Vec<(String, PathBuf)> = Vec::new();
        for path in recordings {
            let path = std::path::absolute(path)?;
            let name = name_of(&read_state(&path)?, &path);
            served.push((name, path));
        }
        let directory = std::env::current_dir().context("the current directory is gone")?;
        Ok(ReadScope { served, directory })
    }

    pub fn served(&self) -> &[(String, PathBuf)] {
        &self.served
    }

    /// The recording of a session, or of the latest one. A name is never a path.
    ///
    /// # Errors
    /// There is none of that name, or it is no name.
    pub fn recording(&self, session: Option<&str>) -> Result<PathBuf, String> {
        let Some(name) = session else {
            return match self.served.last() {
                Some((_, path)) => Ok(path.clone()),
                None => recordings::find(None).map_err(|error| error.to_string()),
            };
        };
        check_name(name)?;
        if let Some((_, path)) = self.served.iter().find(|(served, _)| served == name) {
            return Ok(path.clone());
        }
        recordings::find_session(name).map_err(|error| error.to_string())
    }

    /// Refuses a command of which files would be read that are outside of the server's directory and of the sessions'.
    ///
    /// # Errors
    /// Which file that is.
    pub fn check_command(&self, command: &CommandLine) -> Result<(), String> {
        let known = recordings::everywhere()
            .into_iter()
            .map(|session| session.path);
        let served = self.served.iter().map(|(_, path)| path.clone());
        let recorded = known.chain(served).filter_map(|path| {
            let header = crate::recording::header(&path)?;
            Some(header.command.cwd)
        });
        self.check_within(command, recorded)
    }

    /// The same, where sessions were recorded in these directories.
    fn check_within(
        &self,
        command: &CommandLine,
        recorded: impl Iterator<Item = PathBuf>,
    ) -> Result<(), String> {
        let mut roots = vec![self.directory.clone()];
        roots.extend(recorded);
        let roots: Vec<PathBuf> = (roots.iter())
            .filter_map(|root| root.canonicalize().ok())
            // Everything lies below the root directory, which is nobody's project.
            .filter(|root| root.parent().is_some())
            .collect();
        let launch = LaunchEnvironment::default();
        let recognized = Recognized::new(command, &launch);
        let program = command.argv.get(recognized.layout.program);
        let script = program.filter(|_| match recognized.layout.kind {
            ProgramKind::Script | ProgramKind::ShellScript => true,
            ProgramKind::Module
            | ProgramKind::Code
            | ProgramKind::Executable
            | ProgramKind::ShellString
            | ProgramKind::Image
            | ProgramKind::Remote
            | ProgramKind::Missing => false,
        });
        let script = script.map(|word| PathBuf::from(&word.0));
        let named = recognized.named_files().into_iter().map(|file| file.name);
        let searched = recognized.checkpoints_wanted();
        let searched = searched.map(|wanted| wanted.directory.to_path_buf());
        let read = script.into_iter().chain(named).chain(searched);
        for path in std::iter::once(command.cwd.clone()).chain(read) {
            let whole = command.cwd.join(&path);
            let is_inside = |whole: PathBuf| roots.iter().any(|root| whole.starts_with(root));
            if whole.canonicalize().is_ok_and(|whole| !is_inside(whole)) {
                return Err(format!(
                    "{} is outside of {} and of the directories of recorded sessions, and is not read",
                    path.display(),
                    self.directory.display()
                ));
            }
        }
        Ok(())
    }
}

/// # Errors
/// It cannot be a session's name.
fn check_name(name: &str) -> Result<(), String> {
    let is_name = !name.is_empty()
        && name.len() <= LONGEST_NAME
        && !name.starts_with('.')
        && Path::new(name).file_name() == Some(OsStr::new(name))
        && !name.chars().any(|c| c.is_control() || c == '/');
    match is_name {
        true => Ok(()),
        false => Err("a session is named by its ID, or the start of it, as list_sessions has it; a path is none".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_named_by_no_path() {
        for path in ["", "..", "../x", "/etc/passwd", "a/b", "a\0b", ".x", "a\nb"] {
            assert!(check_name(path).is_err(), "{path:?}");
        }
        assert!(check_name(&"x".repeat(300)).is_err());
        assert!(check_name("20261121-101010-python3-2").is_ok());
    }

    #[test]
    fn a_command_is_planned_where_the_server_is_and_nowhere_else() {
        let here = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir().unwrap();
        for directory in [here.path(), other.path()] {
            std::fs::write(directory.join("train.py"), "batch_size = 64\n").unwrap();
        }
        let link = here.path().join("link.py");
        std::os::unix::fs::symlink(other.path().join("train.py"), &link).unwrap();
        let scope = ReadScope {
            served: Vec::new(),
            directory: here.path().into(),
        };
        let check = |words: &str, cwd: &Path| {
            let mut command = CommandLine::typed(words);
            command.cwd = cwd.into();
            scope.check_within(&command, std::iter::empty())
        };
        assert_eq!(check("python train.py", here.path()), Ok(()));
        assert_eq!(check("python missing.py", here.path()), Ok(()));
        assert!(check("python train.py", other.path()).is_err());
        assert!(check("python link.py", here.path()).is_err());
        let outside = format!("python {}", other.path().join("train.py").display());
        assert!(check(&outside, here.path()).is_err());
        // A session was recorded there.
        let mut command = CommandLine::typed("python train.py");
        command.cwd = other.path().into();
        let recorded = std::iter::once(other.path().to_path_buf());
        assert_eq!(scope.check_within(&command, recorded), Ok(()));
    }
}
