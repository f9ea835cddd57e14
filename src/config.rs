//! The user's settings: `oomph.toml`, in the project first, then in the configuration directory.
//!
//! ```toml
//! theme = "dark"            # default, dark, light, contrast
//! alert = "bell"            # bell, osc9, osc777: how the terminal tells; in the user's file alone
//! notify = "my-script"      # a command that is run for news; in the user's file alone
//!
//! [[program]]               # entries like those of src/recognize/programs.toml, tried before them
//! name = "our trainer"
//! ```
//!
//! A project's file comes with somebody's repository: it may add arguments to commands, which are
//! shown before they run, but never name a program to be run unasked.
//!
//! The settings are only read here; what a theme or a program's entry means is known where it is
//! used. An unusable file never keeps a training from starting: a one-line message says where the
//! problem is and how to fix it, and the file is ignored.

mod file;
mod place;

pub use place::{SettingsFile, Whose, files};

use std::path::{Path, PathBuf};

/// The file's name, in a project and in the configuration directory.
pub const FILE: &str = "oomph.toml";

/// The contents of all files, the project's first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserSettings {
    /// As written; it may not exist.
    pub theme: Option<UserSetting>,
    /// How the terminal tells of an OOM, as written; only from the user's own file.
    pub alert: Option<UserSetting>,
    /// The shell command that is run for news; only from the user's own file.
    pub notify: Option<UserSetting>,
    /// Files with program entries, by precedence.
    pub programs: Vec<Programs>,
    /// What was wrong with the files and how to fix it, one line each.
    pub problems: Vec<String>,
}

/// A value, and where it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserSetting {
    pub value: String,
    pub path: PathBuf,
    /// From 1.
    pub line: usize,
}

impl UserSetting {
    /// For display: `oomph.toml:3`.
    pub fn place(&self) -> String {
        format!("{}:{}", self.path.display(), self.line)
    }
}

/// A file with `[[program]]` entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Programs {
    pub path: PathBuf,
    /// Its whole text, including other settings, so that an error in an entry can name the line.
    pub text: String,
}

/// Reads the settings for a command that is started in `cwd`.
pub fn read(cwd: &Path) -> UserSettings {
    of_files(&files(cwd, place::configuration_directory().as_deref()))
}

/// Reads these files; for each setting the first file that has it counts.
pub fn of_files(files: &[SettingsFile]) -> UserSettings {
    let mut settings = UserSettings::default();
    for file in files {
        file::read(file, nix::unistd::geteuid().as_raw(), &mut settings);
    }
    settings
}
