//! Edits while they are being made: places in, `Edit`s out, and the words that show them.

use super::argument::{Arguments, Form, Hit, Value};
use super::plan::Edit;
use crate::command::Word;

/// Edits of one remedy so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Draft {
    /// The edits.
    pub edits: Vec<Edit>,
    /// What they change, for the eye.
    pub shown: Vec<String>,
}

impl Draft {
    /// Gives the argument `name` the value `new` in the bytes where its value stands.
    pub fn set(&mut self, name: &str, value: Value<'_>, new: &str) {
        self.edits.push(Edit::Splice {
            at: value.at,
            from: value.from,
            to: value.from + value.text.len(),
            with: new.into(),
        });
        self.shown.push(format!("{name} {}→{new}", value.text));
    }

    /// Puts `words` behind token `after` (or before the first where there is none).
    pub fn insert(
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
    pub fn insert_at(&mut self, at: usize, words: &[String]) {
        self.edits.push(Edit::Insert {
            at,
            words: words.iter().map(Word::from).collect(),
        });
        self.shown.push(format!("+{}", words.join(" ")));
    }

    /// Takes out an argument with its value.
    pub fn remove(&mut self, arguments: &Arguments<'_>, hit: &Hit<'_>, with_value: bool) {
        let at = arguments.tokens[hit.token].at;
        let count = if with_value && hit.form == Form::Space {
            hit.end() - hit.token
        } else {
            1
        };
        self.edits.push(Edit::Remove { at, count });
        self.shown.push(format!("−{}", hit.name));
    }

    /// Sets a variable of the environment.
    pub fn set_env(&mut self, name: &str, old: Option<&str>, new: &str) {
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
