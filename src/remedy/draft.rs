//! Edits while they are being made: places in, `Edit`s out, and the words that show them.

use super::edit::{Edit, FileEdit};
use crate::command::Word;
use crate::recognize::ConfigFile;
use crate::recognize::argument::{ArgumentForm, Arguments, Hit, InsertPoint, Value};
use crate::recognize::batch::{Knob, Place};
use crate::recognize::file::FoundValue;
use crate::recognize::variable::Variable;
use std::path::Path;

/// Edits of one remedy so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Draft {
    /// The edits.
    pub edits: Vec<Edit>,
    /// Edits of copies of files that the command names.
    pub files: Vec<FileEdit>,
    /// What they change, for the eye.
    pub shown: Vec<String>,
}

impl Draft {
    /// Gives the argument `name` the value `new` in the bytes where its value stands.
    pub(super) fn set(&mut self, name: &str, value: Value<'_>, new: &str) {
        self.edits.push(Edit::Splice {
            at: value.at,
            from: value.from,
            to: value.from + value.text.len(),
            with: new.into(),
        });
        self.shown.push(format!("{name} {}→{new}", value.text));
    }

    /// Gives a number another value, in whatever way it is written back. `copies` is where copies of
    /// files go, and for which run.
    pub(super) fn write(
        &mut self,
        knob: &Knob<'_>,
        new: u64,
        copies: Option<(&Path, u32)>,
    ) -> Result<(), String> {
        match &knob.place {
            Place::Word(value) => self.set(&knob.name, *value, &new.to_string()),
            Place::Variable(old) => self.set_env(&knob.name, Some(old), &new.to_string()),
            Place::Added(addition) => self.insert(addition.gap, &addition.saying(new)),
            Place::File(file, found) => {
                let copies = copies.ok_or_else(|| {
                    format!(
                        "{} is {} in {}: a relaunch by key uses a copy with {new}",
                        knob.name,
                        knob.value,
                        file.shown()
                    )
                })?;
                self.set_in_copy(file, found, &new.to_string(), copies);
            }
        }
        Ok(())
    }

    /// Puts words where there is room for them.
    pub(super) fn insert(&mut self, gap: InsertPoint, words: &[String]) {
        self.edits.push(match gap {
            InsertPoint::Before(at) => Edit::Insert {
                at,
                words: words.iter().map(Word::from).collect(),
            },
            InsertPoint::Inside {
                at,
                from,
                separator,
            } => Edit::Splice {
                at,
                from,
                to: from,
                with: words
                    .iter()
                    .map(|word| format!("{separator}{word}"))
                    .collect::<String>()
                    .into(),
            },
        });
        self.shown.push(format!("+{}", words.join(" ")));
    }

    /// Takes out an argument with its value.
    pub(super) fn remove(&mut self, arguments: &Arguments<'_>, hit: &Hit<'_>, with_value: bool) {
        let at = arguments.tokens[hit.token].at;
        let count = if with_value && hit.form == ArgumentForm::Space {
            hit.end() - hit.token
        } else {
            1
        };
        self.edits.push(Edit::Remove { at, count });
        self.shown.push(format!("−{}", hit.name));
    }

    /// Gives a setting of a file the value `new`, in a copy that the command is pointed at.
    fn set_in_copy(
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

    /// Gives a variable another value where it is set, or sets it before the command.
    pub(super) fn set_variable(&mut self, name: &str, set: Option<Variable<'_>>, new: &str) {
        match set {
            Some(Variable::Word(value)) => self.set(name, value, new),
            Some(Variable::Environment(old)) => self.set_env(name, Some(old), new),
            None => self.set_env(name, None, new),
        }
    }

    /// Sets a variable of the environment.
    fn set_env(&mut self, name: &str, old: Option<&str>, new: &str) {
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
