//! Remedies, the edits they are made of, and several of them chosen together.

use crate::command::{CommandLine, Word};
use crate::units::Bytes;
use serde::Serialize;

/// Which remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RemedyId {
    /// A smaller batch, the effective batch kept where the program can accumulate.
    Batch,
    /// `expandable_segments:True`.
    ExpandableSegments,
    /// Automatic mixed precision.
    Amp,
}

/// Whether a remedy is offered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Availability {
    /// It is, by these edits.
    Offered,
    /// It is not, and this is why.
    NotOffered(String),
}

/// One edit of a command. Places count in the command as the user gave it, so that edits of
/// several remedies can be applied together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Edit {
    /// The word at this place becomes another.
    Replace {
        /// Its place.
        at: usize,
        /// The new word.
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
}

/// What a remedy is expected to do.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Expectation {
    /// What the run is expected to need on the device, if that can be said.
    pub needs: Option<Bytes>,
    /// Whether that fits; `None` where it is not known.
    pub fits: Option<bool>,
    /// The expectation in words: "needs 14.6 GiB, fits with 9.0 to spare", "unknown: …".
    pub words: String,
}

/// One remedy for one command.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Remedy {
    /// Which.
    pub id: RemedyId,
    /// Its key in the dialog.
    pub key: char,
    /// Its name for the eye: "smaller batch".
    pub title: String,
    /// Whether it is offered.
    pub availability: Availability,
    /// The edits; empty where it is not offered.
    pub edits: Vec<Edit>,
    /// What changes, in few words: "--batch-size 64→32  +--grad-accum 2".
    pub changes: String,
    /// What it is expected to do.
    pub expectation: Expectation,
    /// What it costs: "same batch of 64", "numerics change".
    pub cost: String,
}

/// Remedies chosen together, and the command they make.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    /// The remedies.
    pub remedies: Vec<RemedyId>,
    /// The command that they make.
    pub command: CommandLine,
}
