//! Optimizers that step through their parameters one by one, where the temporaries of all of them at once (`foreach`, torch's
//! choice on a GPU) were what did not fit: the optimizer's own setting, at runtime, if the program says nothing of it.

use super::plan::Expectation;
use super::proposal::{Draft, Offering, Proposal};
use super::{NeedFrom, RemedyEffect, RemedySpec};
use crate::event::{Patch, Phase};
use crate::forecast::{OptimizerStep, RecordedStep, StepLoop};
use crate::units::Bytes;

pub(super) const REMEDY: RemedySpec = RemedySpec::new(
    'n',
    "no foreach temporaries",
    RemedyEffect::RemovesCause,
    // By itself the recorded step says what it needs, beside a smaller batch the rehearsed one.
    NeedFrom::ForecastIfKnown(|_, target| target.treatment.one_by_one = true),
    propose,
);

/// A smaller share of what the step needs isn't worth a try.
const WORTH: f64 = 0.01;

/// The edit, and what the step then takes; or why not.
fn without(
    offering: &Offering<'_>,
    step: &RecordedStep<'_>,
) -> Result<(Draft, OptimizerStep), String> {
    offering.check_patch(Patch::Foreach)?;
    let class = step.class();
    let instead = step.one_by_one().ok_or_else(|| {
        format!("the program itself sets foreach in {class}: foreach=False there")
    })?;
    is_worth_it(step, &instead)?;
    let shown = format!("foreach=False in {class}");
    Ok((Draft::patching(Patch::Foreach, &shown), instead))
}

/// Whether the step then needs less, or why not.
pub(super) fn is_worth_it(step: &RecordedStep<'_>, instead: &OptimizerStep) -> Result<(), String> {
    let (now, then) = (step.needs(&step.as_it_is), step.needs(instead));
    match (now - then).0 as f64 <= WORTH * now.0 as f64 {
        true => Err(format!(
            "{} then needs as much: one parameter is most of them, or another moment is the peak",
            step.class()
        )),
        false => Ok(()),
    }
}

pub(super) fn expected(
    offering: &Offering<'_>,
    step: &RecordedStep<'_>,
    instead: &OptimizerStep,
) -> Expectation {
    let pieces = (offering.inputs.forecast.oom)
        .and_then(|oom| oom.record.as_ref())
        .and_then(|record| record.sample.inactive_split)
        .unwrap_or(Bytes::ZERO);
    let mut expected = offering.predictor.summed(
        step.needs(instead),
        step.there(),
        pieces,
        step.knows_passes(),
    );
    let (now, then) = (step.as_it_is.temporaries, instead.temporaries);
    let then = match then {
        Bytes::ZERO => "no temporaries".into(),
        then => format!("temporaries of {then}"),
    };
    expected
        .words
        .push("; ", format!("{then} instead of {now}"));
    expected
}

/// The step that ran out with the temporaries of foreach.
pub(super) fn foreach_step<'a>(offering: &Offering<'a>) -> Option<RecordedStep<'a>> {
    let record = offering.inputs.forecast.oom?.record.as_ref()?;
    let step = RecordedStep::new(record)?;
    let has_them = record.phase == Phase::Optimizer && step.step_loop() == StepLoop::Foreach;
    has_them.then_some(step)
}

fn propose(offering: &Offering<'_>) -> Option<Proposal> {
    let step = foreach_step(offering)?;
    let (draft, expectation) = match without(offering, &step) {
        Ok((draft, instead)) => (Ok(draft), expected(offering, &step, &instead)),
        Err(why) => (Err(why), Expectation::default()),
    };
    let cost = [
        "equal to rounding",
        "the optimizer's step is slower, by how much depends on the number of parameters",
    ];
    Some(Proposal::new(draft, cost).expecting(expectation))
}
