//! Optimizers that step in one kernel (`fused=True`), where the temporaries of all parameters at once (`foreach`, torch's choice on a
//! GPU) were what did not fit and torch's own check allows it: the optimizer's own setting, at runtime, if the program says nothing
//! of it.

use super::no_foreach::{expected, foreach_step, is_worth_it};
use super::plan::Expectation;
use super::proposal::{Draft, Offering, Proposal};
use super::{NeedFrom, RemedyEffect, RemedySpec};
use crate::event::Patch;
use crate::forecast::{OptimizerStep, RecordedStep};

pub(super) const REMEDY: RemedySpec = RemedySpec::new(
    'K',
    "fused optimizer",
    RemedyEffect::RemovesCause,
    NeedFrom::Itself,
    propose,
);

/// The edit, or why not.
fn fused(
    offering: &Offering<'_>,
    step: &RecordedStep<'_>,
    instead: &OptimizerStep,
) -> Result<Draft, String> {
    offering.check_patch(Patch::Fused)?;
    is_worth_it(step, instead)?;
    let shown = format!("fused=True in {}", step.class());
    Ok(Draft::patching(Patch::Fused, &shown))
}

fn propose(offering: &Offering<'_>) -> Option<Proposal> {
    let step = foreach_step(offering)?;
    let instead = step.fused()?;
    let (draft, expectation) = match fused(offering, &step, &instead) {
        Ok(draft) => (Ok(draft), expected(offering, &step, &instead)),
        Err(why) => (Err(why), Expectation::default()),
    };
    Some(Proposal::new(draft, "equal to rounding").expecting(expectation))
}
