//! What stands on the command line: where oomph's own words end and the command begins, and what a
//! shell may propose at the cursor. Both read the definition of the command line, which is in
//! `commands`.

mod completion;

use crate::command::{EnvChange, Word};
use clap::{Arg, Command};
pub use completion::COMPLETE_WORD;
pub(crate) use completion::{NamedSessions, complete};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

#[derive(Debug, Default)]
pub(crate) struct SplitWords {
    /// Our options and subcommand, for clap.
    pub ours: Vec<OsString>,
    /// The command, untouched.
    pub command: Vec<OsString>,
    /// The subcommand.
    pub subcommand: Option<String>,
}

/// Why the words could not be split.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SplitError {
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

/// What a word is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WordRole {
    /// Ours, for clap.
    Ours,
    /// `run`: oomph itself, spelled out.
    SpelledOut,
    /// The `--` before a command.
    Dashes,
    /// The first word of a command.
    Command,
}

/// Reads our own words one by one, up to where the command begins.
#[derive(Debug)]
struct WordReader<'d> {
    definition: &'d Command,
    /// What the words belong to: oomph itself, or a subcommand.
    pub scope: &'d Command,
    pub following: Following,
    /// How many arguments of the scope's own were read.
    pub own: usize,
    /// The option whose value the next word is, as it was written.
    pub awaits: Option<(&'d Arg, String)>,
    spelled_out: bool,
}

impl<'d> WordReader<'d> {
    fn new(definition: &'d Command) -> WordReader<'d> {
        WordReader {
            definition,
            scope: definition,
            following: Following::Command,
            own: 0,
            awaits: None,
            spelled_out: false,
        }
    }

    /// Whether a subcommand may still come.
    fn is_at_top(&self) -> bool {
        std::ptr::eq(self.scope, self.definition) && !self.spelled_out
    }

    fn read(&mut self, word: &OsStr) -> Result<WordRole, SplitError> {
        if self.awaits.take().is_some() {
            return Ok(WordRole::Ours);
        }
        if word == "--" && self.following != Following::Own {
            return Ok(WordRole::Dashes);
        }
        if word.as_bytes().len() > 1 && word.as_bytes().starts_with(b"-") {
            self.awaits = awaiting(self.scope, word);
            return Ok(WordRole::Ours);
        }
        // `oomph run` is oomph itself, spelled out: options before and after it are equivalent.
        if self.is_at_top() && word == "run" {
            self.spelled_out = true;
            return Ok(WordRole::SpelledOut);
        }
        let subcommand = word
            .to_str()
            .filter(|_| self.is_at_top())
            .and_then(|name| self.definition.find_subcommand(name));
        if let Some(subcommand) = subcommand {
            self.scope = subcommand;
            self.following = following_of(subcommand.get_name());
            return Ok(WordRole::Ours);
        }
        match self.following {
            Following::Command => return Ok(WordRole::Command),
            Following::OwnThenCommand if self.own == self.scope.get_positionals().count() => {
                return Err(SplitError::DashesMissing {
                    subcommand: self.scope.get_name().to_string(),
                    word: word.to_string_lossy().into_owned(),
                });
            }
            // clap says what is wrong with one too many.
            Following::OwnThenCommand | Following::Own => self.own += 1,
        }
        Ok(WordRole::Ours)
    }
}

/// Splits `words` at the first one that is neither an option nor a subcommand of `definition`.
pub(crate) fn split(definition: &Command, words: &[OsString]) -> Result<SplitWords, SplitError> {
    let mut parts = SplitWords::default();
    let mut reader = WordReader::new(definition);
    for (at, word) in words.iter().enumerate() {
        let role = reader.read(word)?;
        let is_top = std::ptr::eq(reader.scope, definition);
        parts.subcommand = (!is_top).then(|| reader.scope.get_name().to_string());
        match role {
            WordRole::Ours => parts.ours.push(word.clone()),
            WordRole::SpelledOut => {}
            WordRole::Dashes => {
                parts.command = words[at + 1..].to_vec();
                return Ok(parts);
            }
            WordRole::Command => {
                parts.command = words[at..].to_vec();
                return Ok(parts);
            }
        }
    }
    match reader.awaits {
        Some((_, option)) => Err(SplitError::ValueMissing(option)),
        None => Ok(parts),
    }
}

/// Whether a command may follow the subcommand of this name.
pub(crate) fn takes_command(subcommand: &str) -> bool {
    following_of(subcommand) != Following::Own
}

fn following_of(subcommand: &str) -> Following {
    match subcommand {
        "plan" | "fit" | "doctor" | "check" => Following::Command,
        "explain" => Following::OwnThenCommand,
        _ => Following::Own,
    }
}

/// The option that `word` is, if its value is the next word.
fn awaiting<'d>(scope: &'d Command, word: &OsStr) -> Option<(&'d Arg, String)> {
    let text = word.to_str()?;
    scope
        .get_arguments()
        .filter(|argument| argument.get_action().takes_values())
        .find(|argument| {
            argument
                .get_long()
                .is_some_and(|long| text.strip_prefix("--") == Some(long))
                || argument
                    .get_short()
                    .is_some_and(|short| text == format!("-{short}"))
        })
        .map(|argument| (argument, text.to_string()))
}

/// `NAME=VALUE` if NAME could be a variable's, unlike options and paths.
pub(crate) fn assignment(word: &Word) -> Option<EnvChange> {
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
