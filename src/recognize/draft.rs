//! Edits while they are being made: places in, `Edit`s out, and the words that show them.

use super::argument::{ArgumentForm, Arguments, Hit, Value};
use super::edit::{Edit, FileEdit};
use super::environment::ConfigFile;
use super::file::FoundValue;
use crate::command::Word;
use std::path::Path;

/// Edits of one remedy so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Draft {
    /// The edits.
    pub edits: Vec<Edit>,
    /// Edits of copies of files that the command names.
    pub files: Vec<FileEdit>,
    /// What they change, for the eye.
    pub shown: Vec<String>,
}

impl Draft {
    /// Gives the argument `name` the value `new` in the bytes where its value stands.
    pub(crate) fn set(&mut self, name: &str, value: Value<'_>, new: &str) {
        self.edits.push(Edit::Splice {
            at: value.at,
            from: value.from,
            to: value.from + value.text.len(),
            with: new.into(),
        });
        self.shown.push(format!("{name} {}→{new}", value.text));
    }

    /// Puts `words` behind token `after` (or before the first where there is none).
    pub(crate) fn insert(
        &mut self,
        arguments: &Arguments<'_>,
        end: usize,
        words: &[String],
        separator: char,
    ) {
        if arguments.nested {
            let Some(last) = end.checked_sub(1).and_then(|k| arguments.tokens.get(k)) else {
                return;
            };
            let to = last.from + last.text.len();
            let mut with = String::new();
            for word in words {
                with.push(separator);
                with.push_str(word);
            }
            self.edits.push(Edit::Splice {
                at: last.at,
                from: to,
                to,
                with: with.into(),
            });
            self.shown.push(format!("+{}", words.join(" ")));
        } else if let Some(at) = place_before(arguments, end) {
            self.insert_at(at, words);
        }
    }

    /// Puts whole words before the word at `at`.
    pub(crate) fn insert_at(&mut self, at: usize, words: &[String]) {
        self.edits.push(Edit::Insert {
            at,
            words: words.iter().map(Word::from).collect(),
        });
        self.shown.push(format!("+{}", words.join(" ")));
    }

    /// Takes out an argument with its value.
    pub(crate) fn remove(&mut self, arguments: &Arguments<'_>, hit: &Hit<'_>, with_value: bool) {
        let at = arguments.tokens[hit.token].at;
        let count = if with_value && hit.form == ArgumentForm::Space {
            hit.end() - hit.token
        } else {
            1
        };
        self.edits.push(Edit::Remove { at, count });
        self.shown.push(format!("−{}", hit.name));
    }

    /// Gives a setting of a file the value `new`, in a copy that the command is pointed at. `copies` is
    /// where copies go, and for which run.
    pub(crate) fn set_in_copy(
        &mut self,
        file: &ConfigFile,
        value: &FoundValue,
        new: &str,
        copies: (&Path, u32),
    ) {
        let (directory, run) = copies;
        let copy = directory.join(format!("run{run}-{}", file.shown()));
        let pointed = Edit::Splice {
            at: file.at,
            from: file.from,
            to: file.from + file.name.as_os_str().len(),
            with: Word::from(&copy),
        };
        if !self.edits.contains(&pointed) {
            self.edits.push(pointed);
        }
        self.files.push(FileEdit {
            copy,
            original: file.text.clone(),
            from: value.from,
            to: value.to,
            with: new.to_string(),
        });
        self.shown.push(format!(
            "{} {}→{new} in a copy of {}",
            value.name,
            value.text,
            file.shown()
        ));
    }

    /// Sets a variable of the environment.
    pub(crate) fn set_env(&mut self, name: &str, old: Option<&str>, new: &str) {
        self.edits.push(Edit::Env {
            name: name.into(),
            value: Some(Word::from(new)),
        });
        self.shown.push(match old {
            Some(old) => format!("{name} {old}→{new}"),
            None => format!("{name}={new}"),
        });
    }
}

/// The word before which something stands that goes in front of token `k`.
fn place_before(arguments: &Arguments<'_>, k: usize) -> Option<usize> {
    match arguments.tokens.get(k) {
        Some(token) => Some(token.at),
        None => arguments.tokens.last().map(|token| token.at + 1),
    }
}
