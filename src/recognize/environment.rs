//! What surrounds a command and helps to understand it: the environment, the torch that it will
//! use, the user's own program entries, and what the disk has of the files and checkpoints it names.

use super::alloc_conf::Inherited;
use super::program::Catalogue;
use super::spellings::spellings;
use std::path::{Path, PathBuf};

/// The surroundings of a launch. All of it may be missing.
#[derive(Debug, Clone, Default)]
pub struct LaunchEnvironment<'a> {
    /// torch's version in the command's interpreter, `2.11.0+cu130`.
    pub torch: Option<&'a str>,
    /// The allocator's variables as oomph inherited them.
    pub inherited: Inherited<'a>,
    /// Those of [`environment_read`] that oomph inherited.
    pub environment: &'a [(String, String)],
    /// The user's own program entries, the first to be asked first.
    pub own: &'a [Catalogue],
    /// The config files that the command names, as they lie on the disk.
    pub files: &'a [ConfigFile],
    /// Where edited copies of them may be written, and the number of the run that they are for.
    pub copies: Option<(&'a Path, u32)>,
    /// The newest complete checkpoint of what the command trains.
    pub checkpoint: Option<&'a Checkpoint>,
}

/// A config file as the command names it and as it lies on the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFile {
    /// The word that names it.
    pub at: usize,
    /// The first byte of its name in that word.
    pub from: usize,
    /// Its name, as typed.
    pub name: PathBuf,
    /// What it says.
    pub text: String,
}

/// A checkpoint that is complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Where it is, in the words of the command: below the directory as it was typed.
    pub path: PathBuf,
    /// Its step or epoch, where its name says it.
    pub number: Option<u64>,
}

/// Variables of the inherited environment that say how a job is spread over machines, and which
/// devices are visible.
pub fn environment_read() -> impl Iterator<Item = &'static str> {
    let job = &spellings().job;
    let counted = job
        .machines
        .iter()
        .chain(&job.machine)
        .chain(&job.processes);
    counted.chain(&job.others).map(String::as_str)
}

impl LaunchEnvironment<'_> {
    /// The inherited value of one of [`environment_read`].
    pub(crate) fn inherited_value(&self, name: &str) -> Option<&str> {
        self.environment
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, value)| value.as_str())
    }
}
