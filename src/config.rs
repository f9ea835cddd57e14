//! What the user has set: `oomph.toml`, in the project first, then in the configuration directory.
//!
//! ```toml
//! theme = "dark"            # default, dark, light, contrast
//!
//! [[program]]               # entries as those of src/recognize/programs.toml, tried before them
//! name = "our trainer"
//! ```
//!
//! Read here, understood elsewhere: what a theme or a program's entry means is the business of those
//! who use it, so this room knows neither. A file that cannot be used never keeps a training from
//! starting: it is said in one line, with the place and the mend, and done without.

mod file;
mod place;

pub use place::files;

use std::path::{Path, PathBuf};

/// The file's name, in a project and in the configuration directory.
pub const FILE: &str = "oomph.toml";

/// What the files say, the project's before the user's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserSettings {
    /// The theme's name, as written; whether there is such a theme is not known here.
    pub theme: Option<UserSetting>,
    /// Files with entries of programs, in the order in which they are to be tried.
    pub programs: Vec<Programs>,
    /// What was wrong with the files, a line each, with its mend.
    pub problems: Vec<String>,
}

/// A value, and where it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserSetting {
    /// The value.
    pub value: String,
    /// The file.
    pub path: PathBuf,
    /// The line in it, from 1.
    pub line: usize,
}

impl UserSetting {
    /// Its place for the eye: `oomph.toml:3`.
    pub fn place(&self) -> String {
        format!("{}:{}", self.path.display(), self.line)
    }
}

/// A file that holds `[[program]]` entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Programs {
    /// The file.
    pub path: PathBuf,
    /// Its whole text, other settings included: so that an error in an entry names the line.
    pub text: String,
}

/// Reads the settings for a command that is started in `cwd`.
pub fn read(cwd: &Path) -> UserSettings {
    of_files(&files(cwd, place::configuration_directory().as_deref()))
}

/// Reads these files, of which the first that says something counts.
pub fn of_files(files: &[PathBuf]) -> UserSettings {
    let mut settings = UserSettings::default();
    for path in files {
        file::read(path, nix::unistd::geteuid().as_raw(), &mut settings);
    }
    settings
}
