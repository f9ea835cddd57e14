//! Edits in the making: places in, `Edit`s out, and the words that show them.

use super::edit::{Edit, FileEdit};
use crate::command::Word;
use crate::recognize::ConfigFile;
use crate::recognize::argument::{ArgumentForm, Arguments, Hit, InsertPoint, Value};
use crate::recognize::batch::{Knob, Place};
use crate::recognize::config_file::FoundValue;
use crate::recognize::layout::Variable;
use std::path::Path;

/// The edits of one remedy so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Draft {
    pub edits: Vec<Edit>,
    /// Edits of copies of config files.
    pub files: Vec<FileEdit>,
    /// What they change, for display.
    pub shown: Vec<String>,
}

impl Draft {
    /// Sets the argument `name` to `new`, in the bytes of its value.
    pub(super) fn set(&mut self, name: &str, value: Value<'_>, new: &str) {
        self.edits.push(Edit::Splice {
            at: value.at,
            from: value.from,
            to: value.from + value.text.len(),
            with: new.into(),
        });
        self.shown.push(format!("{name} {}→{new}", value.text));
    }

    /// Sets a number to another value, wherever it is. `copies` is the directory for copies of
    /// files, and the run that they are for.
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

    /// Removes an argument, with its value if `with_value`.
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

    /// Sets a value in a copy of a config file, and points the command at the copy.
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

    /// Changes a variable where it is set, or sets it in front of the command.
    pub(super) fn set_variable(&mut self, name: &str, set: Option<Variable<'_>>, new: &str) {
        match set {
            Some(Variable::Word(value)) => self.set(name, value, new),
            Some(Variable::Environment(old)) => self.set_env(name, Some(old), new),
            None => self.set_env(name, None, new),
        }
    }

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
