//! What each remedy's own file is given, and what it returns.

use super::draft::Draft;
use super::expectation::RemedyPredictor;
use super::inputs::RemedyInputs;
use super::patch;
use super::plan::{Alteration, BatchChange, Expectation};
use crate::command::CommandLine;
use crate::diagnosis::{Cause, Phrase};
use crate::event::Patchable;
use crate::recognize::recognized::Recognized;

/// A command to find remedies for.
pub(super) struct Offering<'a> {
    pub command: &'a CommandLine,
    pub recognized: &'a Recognized<'a>,
    pub inputs: &'a RemedyInputs<'a>,
    /// What its runs are expected to need.
    pub predictor: &'a RemedyPredictor<'a>,
    /// The likeliest cause.
    pub cause: Option<Cause>,
}

/// A remedy's changes of a command.
pub(super) struct Proposal {
    /// The edits, or why there are none. A remedy that acts shows what it does and edits nothing.
    pub draft: Result<Draft, String>,
    pub cost: Phrase,
    /// What it is expected to do, if [`NeedFrom`](super::effect::NeedFrom) leaves that to the
    /// remedy.
    pub expectation: Expectation,
    pub takes: Option<BatchChange>,
    /// What it changes in the training beyond what its row in the table says.
    pub alters: Option<Alteration>,
}

impl Proposal {
    pub(super) fn new(draft: Result<Draft, String>, cost: impl Into<Phrase>) -> Proposal {
        Proposal {
            draft,
            cost: cost.into(),
            expectation: Expectation::default(),
            takes: None,
            alters: None,
        }
    }

    /// Something done before the next run.
    pub(super) fn act(shown: String, cost: impl Into<Phrase>) -> Proposal {
        let shown = vec![shown];
        let draft = Draft {
            shown,
            ..Draft::default()
        };
        Proposal::new(Ok(draft), cost)
    }

    pub(super) fn expecting(self, expectation: Expectation) -> Proposal {
        Proposal {
            expectation,
            ..self
        }
    }
}

/// The argument's edits; without an argument, the patch's if a run has shown what can be patched;
/// without either, both reasons.
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
