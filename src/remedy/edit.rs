//! Edits of a command's words, of its environment and of copies of the files it names, and the
//! command that they make.

use crate::command::{CommandLine, Word};
use crate::event::{PATCHES, Patch};
use serde::Serialize;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// One edit of a command. Places count in the command as the user gave it, so that edits of
/// several remedies can be applied together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Edit {
    /// Some bytes of the word at this place become others; nothing becomes something where `from`
    /// is `to`.
    Splice {
        /// The word's place.
        at: usize,
        /// The first byte that goes.
        from: usize,
        /// The byte after the last that goes.
        to: usize,
        /// What stands there instead.
        with: Word,
    },
    /// Words put in before the word at this place (at the end where it is the length).
    Insert {
        /// The place.
        at: usize,
        /// The words.
        words: Vec<Word>,
    },
    /// Words taken out.
    Remove {
        /// The place of the first.
        at: usize,
        /// How many.
        count: usize,
    },
    /// A variable of the environment set or removed.
    Env {
        /// Its name.
        name: String,
        /// Its value, or `None` where it is removed.
        value: Option<Word>,
    },
    /// Something that the probe does inside the process: one word more in the variable that tells
    /// it, in the place of another of this name.
    Patch(Patch),
}

/// One edit of the copy of a file that the command names. The file itself is never touched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileEdit {
    /// Where the copy goes.
    pub copy: PathBuf,
    /// What the file says.
    #[serde(skip)]
    pub original: String,
    /// The first byte that goes.
    pub from: usize,
    /// The byte after the last that goes.
    pub to: usize,
    /// What stands there instead.
    pub with: String,
}

/// The command with the edits made. Words that no edit names come out as they went in.
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

/// The patches that the command has already, those of the edits in the place of theirs.
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

/// Sets a variable where the command already sets it, so that the order that was typed stays.
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
    // From the back, so that a place still is what it was; of two at one place the first stays first.
    splices.sort_by_key(|(from, to, _)| (*from, *to));
    let mut bytes = word.as_bytes().to_vec();
    for (from, to, with) in splices.into_iter().rev() {
        if from <= to && to <= bytes.len() {
            bytes.splice(from..to, with.as_bytes().iter().copied());
        }
    }
    Word(OsString::from_vec(bytes))
}
