//! What a remedy's own file is given, and what it answers.

use super::draft::Draft;
use super::expectation::Outlook;
use super::inputs::RemedyInputs;
use super::patch;
use super::plan::{Alteration, BatchChange, Expectation};
use crate::command::CommandLine;
use crate::diagnosis::Cause;
use crate::event::Patchable;
use crate::recognize::recognition::Recognised;

/// A command for which remedies are looked for.
pub(super) struct Offering<'a> {
    /// The command.
    pub command: &'a CommandLine,
    /// What it was understood as.
    pub recognised: &'a Recognised<'a>,
    /// What else is known.
    pub inputs: &'a RemedyInputs<'a>,
    /// What its runs are expected to need.
    pub outlook: &'a Outlook<'a>,
    /// The likeliest cause.
    pub cause: Option<Cause>,
}

/// What a remedy makes of a command.
pub(super) struct Proposal {
    /// The edits, or why there are none. One that acts shows what it does and edits nothing.
    pub draft: Result<Draft, String>,
    /// What it costs.
    pub cost: String,
    /// What it is expected to do, where the remedy's row leaves that to it.
    pub expectation: Expectation,
    /// What it makes of the batch.
    pub takes: Option<BatchChange>,
    /// What it alters in the training beyond what its row says.
    pub alters: Option<Alteration>,
}

impl Proposal {
    /// Edits and what they cost.
    pub(super) fn of(draft: Result<Draft, String>, cost: &str) -> Proposal {
        Proposal {
            draft,
            cost: cost.into(),
            expectation: Expectation::default(),
            takes: None,
            alters: None,
        }
    }

    /// Something that is done before the next run.
    pub(super) fn act(shown: String, cost: &str) -> Proposal {
        let shown = vec![shown];
        let draft = Draft {
            shown,
            ..Draft::default()
        };
        Proposal::of(Ok(draft), cost)
    }

    /// The same with what is expected of it.
    pub(super) fn expecting(self, expectation: Expectation) -> Proposal {
        Proposal {
            expectation,
            ..self
        }
    }
}

/// What an argument does; where none does, what a patch does if a run has shown what can be patched;
/// and where neither helps, both reasons.
pub(super) fn or_patched<T>(
    inputs: &RemedyInputs<'_>,
    by_argument: Result<T, String>,
    patched: impl FnOnce(&Patchable) -> Result<T, String>,
) -> Result<T, String> {
    match (by_argument, patch::patchable(inputs)) {
        (Err(reason), Some(found)) => {
            patched(found).map_err(|inside| format!("{reason}; no runtime patch: {inside}"))
        }
        (by_argument, _) => by_argument,
    }
}

pub(super) fn unknown(why: &str) -> Expectation {
    Expectation {
        words: format!("unknown: {why}"),
        ..Expectation::default()
    }
}
