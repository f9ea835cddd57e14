//! Edits of a command's words, its environment and copies of its config files, and the resulting
//! command.

use crate::command::{CommandLine, Word};
use crate::event::{PATCHES, Patch};
use serde::Serialize;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// One edit of a command. Indices refer to the user's original command, so that the edits of
/// several remedies can be applied together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Edit {
    /// Replaces bytes of a word; inserts if `from` equals `to`.
    Splice {
        /// The index of the word.
        at: usize,
        /// The byte range to replace.
        from: usize,
        to: usize,
        with: Word,
    },
    /// Inserts words before the word at `at`, or at the end.
    Insert { at: usize, words: Vec<Word> },
    Remove {
        /// The index of the first word.
        at: usize,
        count: usize,
    },
    /// Sets or removes an environment variable.
    Env {
        name: String,
        /// `None` to remove it.
        value: Option<Word>,
    },
    /// A change that the probe makes inside the process: an entry in the variable that the probe
    /// reads, replacing one of the same name.
    Patch(Patch),
}

/// One edit of a copy of a config file. The file itself is never touched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileEdit {
    /// The path of the copy.
    pub copy: PathBuf,
    /// The contents of the file.
    #[serde(skip)]
    pub original: String,
    /// The byte range to replace.
    pub from: usize,
    pub to: usize,
    pub with: String,
}

/// The command with the edits made. Words that no edit touches are unchanged, byte by byte.
pub(crate) fn edited(command: &CommandLine, edits: &[&Edit]) -> CommandLine {
    let mut argv = Vec::with_capacity(command.argv.len() + 4);
    for at in 0..=command.argv.len() {
        for edit in edits {
            if let Edit::Insert { at: place, words } = edit
                && (*place).min(command.argv.len()) == at
            {
                argv.extend(words.iter().cloned());
            }
        }
        let removed = edits.iter().any(|edit| {
            matches!(edit, Edit::Remove { at: first, count } if (*first..first + count).contains(&at))
        });
        if let Some(word) = command.argv.get(at)
            && !removed
        {
            argv.push(edited_word(word, at, edits));
        }
    }
    let mut new = CommandLine {
        argv,
        env: command.env.clone(),
        cwd: command.cwd.clone(),
    };
    for edit in edits {
        if let Edit::Env { name, value } = edit {
            replace_env(&mut new, name, value.clone());
        }
    }
    add_patches(&mut new, edits);
    new
}

/// Merges the edits' patches into those that the command has already.
fn add_patches(command: &mut CommandLine, edits: &[&Edit]) {
    let mut patches = Patch::of(command);
    let before = patches.clone();
    for edit in edits {
        if let Edit::Patch(patch) = edit {
            patches.retain(|other| other.name() != patch.name());
            patches.push(*patch);
        }
    }
    if patches != before {
        let value = Word::from(Patch::value(&patches));
        replace_env(command, PATCHES, Some(value));
    }
}

/// Changes a variable where the command already sets it, to keep the order as typed.
fn replace_env(command: &mut CommandLine, name: &str, value: Option<Word>) {
    match command
        .env
        .iter_mut()
        .rev()
        .find(|change| change.name == *name)
    {
        Some(change) => change.value = value,
        None => command.set_env(name, value),
    }
}

fn edited_word(word: &Word, at: usize, edits: &[&Edit]) -> Word {
    let mut splices: Vec<(usize, usize, &Word)> = Vec::new();
    for edit in edits {
        if let Edit::Splice {
            at: place,
            from,
            to,
            with,
        } = edit
            && *place == at
        {
            splices.push((*from, *to, with));
        }
    }
    // Back to front, so that indices stay valid; of two at one place the first stays first.
    splices.sort_by_key(|(from, to, _)| (*from, *to));
    let mut bytes = word.as_bytes().to_vec();
    for (from, to, with) in splices.into_iter().rev() {
        if from <= to && to <= bytes.len() {
            bytes.splice(from..to, with.as_bytes().iter().copied());
        }
    }
    Word(OsString::from_vec(bytes))
}
