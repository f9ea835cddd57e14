//! What relaunches have shown of the numbers that may set the batch: with which one changed the model was given another
//! size, and with which one it was not.

use super::argument::same;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;

/// Where a number is set, as it is known again in another session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KnobPlace {
    /// An argument, or a variable in front of the command.
    Argument { name: String },
    /// A setting of a config file.
    Setting { file: String, name: String },
    /// A number in the program's text.
    Literal {
        file: String,
        line: u32,
        column: u32,
        name: String,
    },
}

/// What came of changing a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KnobEffect {
    /// The model was given the new size.
    Took,
    /// The model was given the same as before.
    Nothing,
    /// The same, in a session before the program was changed.
    NothingThen,
}

/// One number, and what came of changing it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LearnedKnob {
    pub place: KnobPlace,
    pub effect: KnobEffect,
    /// The session that showed it.
    pub session: String,
}

/// How far a number may be the one that sets the batch, by what was learned; the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum KnobStanding {
    Confirmed,
    Unknown,
    /// It had no effect in a program that was changed since.
    Doubtful,
    /// It has none.
    WithoutEffect,
}

impl KnobPlace {
    /// Whether it is an argument by one of these names.
    pub(crate) fn is_argument(&self, names: &[&str]) -> bool {
        match self {
            KnobPlace::Argument { name } => names.iter().any(|other| same(other, name)),
            KnobPlace::Setting { .. } | KnobPlace::Literal { .. } => false,
        }
    }
}

impl fmt::Display for KnobPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KnobPlace::Argument { name } => f.write_str(name),
            KnobPlace::Setting { file, name } => write!(f, "{name} in {file}"),
            KnobPlace::Literal {
                file, line, name, ..
            } => {
                let short = Path::new(file).file_name();
                let short = short.map_or(file.into(), |short| short.to_string_lossy());
                write!(f, "{short}:{line} {name}")
            }
        }
    }
}

impl fmt::Display for LearnedKnob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LearnedKnob { place, session, .. } = self;
        match self.effect {
            KnobEffect::Took => write!(f, "{place} sets the batch (session {session})"),
            KnobEffect::Nothing => write!(f, "{place} has no effect (session {session})"),
            KnobEffect::NothingThen => write!(
                f,
                "{place} had no effect before the program was changed (session {session})"
            ),
        }
    }
}

/// Of a place that `is_it` recognizes.
pub(crate) fn standing(
    learned: &[LearnedKnob],
    is_it: impl Fn(&KnobPlace) -> bool,
) -> KnobStanding {
    let of_it = learned.iter().rev().find(|known| is_it(&known.place));
    match of_it.map(|known| known.effect) {
        Some(KnobEffect::Took) => KnobStanding::Confirmed,
        None => KnobStanding::Unknown,
        Some(KnobEffect::NothingThen) => KnobStanding::Doubtful,
        Some(KnobEffect::Nothing) => KnobStanding::WithoutEffect,
    }
}
