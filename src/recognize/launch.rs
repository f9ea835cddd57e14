//! What is known around a command: the environment, its torch, the user's own program entries, its
//! config files and checkpoints on disk.

use super::alloc_conf::Inherited;
use super::learned::LearnedKnob;
use super::program::Catalogue;
use super::spellings::spellings;
use super::text::{BatchRules, ProgramText};
use crate::event::Knobs;
use std::path::{Path, PathBuf};

/// The surroundings of a launch, any of which may be missing.
#[derive(Debug, Clone, Copy, Default)]
pub struct LaunchEnvironment<'a> {
    /// torch's version in the command's interpreter, `2.11.0+cu130`.
    pub torch: Option<&'a str>,
    /// The allocator's variables that oomph inherited.
    pub inherited: Inherited<'a>,
    /// Those of [`environment_read`] that oomph inherited.
    pub environment: &'a [(String, String)],
    /// Whether this is WSL2, Windows' Linux.
    pub wsl: bool,
    /// The user's own program entries, by precedence.
    pub own: &'a [Catalogue],
    /// The command's config files, as read from disk.
    pub files: &'a [ConfigFile],
    /// The directory for edited copies of them, and the number of the next run.
    pub copies: Option<(&'a Path, u32)>,
    /// The newest complete checkpoint of this training.
    pub checkpoint: Option<&'a Checkpoint>,
    /// What the program's own process told of the numbers that set its sizes.
    pub told: Option<&'a Knobs>,
    /// What the program's text says of them, where it was read: before anything ran.
    pub text: Option<&'a ProgramText>,
    /// What the program's text asks of its batch, if it was read apart from its numbers.
    pub batch_rules: Option<&'a BatchRules>,
    /// What relaunches have shown of these numbers, in this session or an earlier one.
    pub learned: &'a [LearnedKnob],
}

/// A config file that the command names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFile {
    /// The index of the word that names it.
    pub at: usize,
    /// The first byte of the name in that word.
    pub from: usize,
    /// As typed.
    pub name: PathBuf,
    /// Its contents.
    pub text: String,
    /// What belongs to it.
    pub bases: BaseFiles,
}

/// The files that a config file builds on, the nearest first, and whether there are others that were not read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BaseFiles {
    pub read: Vec<BaseFile>,
    pub has_others: bool,
}

/// A file that another one builds on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseFile {
    pub name: PathBuf,
    pub text: String,
}

/// A complete checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Below the directory as it was typed.
    pub path: PathBuf,
    /// Its step or epoch, if its name has it.
    pub number: Option<u64>,
}

/// Inherited variables that say how a job is spread over machines, and which devices are visible.
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
