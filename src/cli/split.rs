//! Where our own words end and the command begins.

use crate::command::{EnvChange, Word};
use clap::Command;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

#[derive(Debug, Default)]
pub(super) struct SplitWords {
    /// Our options and subcommand, for clap.
    pub(super) ours: Vec<OsString>,
    /// The command, untouched.
    pub(super) command: Vec<OsString>,
}

/// Why the words could not be split.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SplitError {
    /// The last word is an option of ours that needs a value.
    ValueMissing(String),
    /// A word that the subcommand does not take; a command needs `--` in front.
    DashesMissing {
        subcommand: String,
        /// The first such word.
        word: String,
    },
}

impl fmt::Display for SplitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SplitError::ValueMissing(option) => {
                write!(
                    f,
                    "{option} needs a value; write {option} VALUE or {option}=VALUE"
                )
            }
            SplitError::DashesMissing { subcommand, word } => write!(
                f,
                "oomph {subcommand} does not take {word}; put `--` before a command"
            ),
        }
    }
}

/// What may follow a subcommand's name besides options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Following {
    /// A command: from the first word that isn't an option, or after `--`.
    Command,
    /// The subcommand's own arguments, then a command if there is a `--`.
    OwnThenCommand,
    /// Only the subcommand's own arguments.
    Own,
}

/// Splits `words` at the first one that is neither an option nor a subcommand of `definition`.
pub(super) fn split(definition: &Command, words: &[OsString]) -> Result<SplitWords, SplitError> {
    let mut parts = SplitWords::default();
    let mut scope = definition;
    let mut following = Following::Command;
    let mut own = 0;
    let mut spelled_out = false;
    let mut at = 0;
    while let Some(word) = words.get(at) {
        if word == "--" {
            parts.command = words[at + 1..].to_vec();
            return Ok(parts);
        }
        let is_option = word.as_bytes().len() > 1 && word.as_bytes().starts_with(b"-");
        if is_option {
            parts.ours.push(word.clone());
            at += 1;
            if takes_separate_value(scope, word) {
                let value = words
                    .get(at)
                    .ok_or_else(|| SplitError::ValueMissing(word.to_string_lossy().into_owned()))?;
                parts.ours.push(value.clone());
                at += 1;
            }
            continue;
        }
        let at_top = std::ptr::eq(scope, definition) && !spelled_out;
        // `oomph run` is oomph itself, spelled out: options before and after it are equivalent.
        if at_top && word == "run" {
            spelled_out = true;
            at += 1;
            continue;
        }
        let subcommand = at_top
            .then(|| {
                word.to_str()
                    .and_then(|name| definition.find_subcommand(name))
            })
            .flatten();
        if let Some(subcommand) = subcommand {
            scope = subcommand;
            following = following_of(subcommand);
            if following == Following::Own {
                parts.ours.extend_from_slice(&words[at..]);
                return Ok(parts);
            }
        } else if following == Following::Command {
            parts.command = words[at..].to_vec();
            return Ok(parts);
        } else if own == scope.get_positionals().count() {
            return Err(SplitError::DashesMissing {
                subcommand: scope.get_name().to_string(),
                word: word.to_string_lossy().into_owned(),
            });
        } else {
            own += 1;
        }
        parts.ours.push(word.clone());
        at += 1;
    }
    Ok(parts)
}

fn following_of(subcommand: &Command) -> Following {
    match subcommand.get_name() {
        "plan" | "fit" => Following::Command,
        "explain" => Following::OwnThenCommand,
        _ => Following::Own,
    }
}

fn takes_separate_value(scope: &Command, word: &OsStr) -> bool {
    let Some(text) = word.to_str() else {
        return false;
    };
    scope
        .get_arguments()
        .filter(|argument| argument.get_action().takes_values())
        .any(|argument| {
            argument
                .get_long()
                .is_some_and(|long| text.strip_prefix("--") == Some(long))
                || argument
                    .get_short()
                    .is_some_and(|short| text == format!("-{short}"))
        })
}

/// `NAME=VALUE` if NAME could be a variable's, unlike options and paths.
pub(super) fn assignment(word: &Word) -> Option<EnvChange> {
    let bytes = word.as_bytes();
    let equals = memchr::memchr(b'=', bytes)?;
    let (name, value) = (&bytes[..equals], &bytes[equals + 1..]);
    let is_name = name
        .first()
        .is_some_and(|b| b.is_ascii_alphabetic() || *b == b'_')
        && name.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_');
    is_name.then(|| EnvChange {
        name: Word(OsString::from_vec(name.to_vec())),
        value: Some(Word(OsString::from_vec(value.to_vec()))),
    })
}
