//! What a rule answers: a cause, how sure, the evidence, what follows.

use super::Cause;
use crate::units::{Bytes, Pid, Rank, Uuid};
use serde::Serialize;

/// How sure a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// It may be.
    Possible,
    /// The numbers point to it.
    Likely,
    /// The numbers leave nothing else.
    Certain,
}

/// One number that a finding rests on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// What it is, in the words of the house: "allocated", "requested", "largest free piece".
    pub what: String,
    /// How much.
    pub bytes: Bytes,
}

/// A cause found, with what it rests on and what follows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// The cause.
    pub cause: Cause,
    /// How sure.
    pub certainty: Certainty,
    /// The cause in one line, numbers included: the dialog's first line.
    pub headline: String,
    /// One or two sentences more: what was ruled out, what follows.
    pub explanation: String,
    /// The numbers.
    pub evidence: Vec<Evidence>,
    /// What to do in words, the most useful first, where oomph cannot do it.
    pub advice: Vec<String>,
    /// The device.
    pub device: Option<Uuid>,
    /// The rank.
    pub rank: Option<Rank>,
    /// The other process, for [`Cause::OtherProcess`].
    pub foreign: Option<Pid>,
}
