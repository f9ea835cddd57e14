//! PyTorch's cache emptied between training and evaluation, at runtime, where an evaluation ran out of memory by the pieces that
//! training had left.

use super::plan::Expectation;
use super::proposal::{Draft, Offering, Proposal};
use super::{NeedFrom, RemedyEffect, RemedyId, RemedySpec};
use crate::diagnosis::{Cause, Help};
use crate::event::{Patch, Phase};

pub(super) const REMEDY: RemedySpec = RemedySpec {
    comes_before: Some((Help::NoFragmentation, RemedyId::Batch)),
    ..RemedySpec::new(
        'E',
        "empty cache at phases",
        RemedyEffect::LessFragmentation,
        NeedFrom::FailedAllocation,
        propose,
    )
};

fn propose(offering: &Offering<'_>) -> Option<Proposal> {
    let record = offering.inputs.forecast.oom?.record.as_ref()?;
    let has_trained = record.phase == Phase::Evaluation && record.step > 0;
    if offering.inputs.cause() != Some(Cause::Fragmentation) || !has_trained {
        return None;
    }
    offering.inputs.patchable()?;
    let draft = offering.check_patch(Patch::EmptyCache).map(|()| {
        Draft::patching(
            Patch::EmptyCache,
            "PyTorch's cache is emptied between training and evaluation",
        )
    });
    let cost = [
        "same numerics",
        "each change of the phase takes some milliseconds more",
    ];
    let unknown = Expectation::unknown("it makes fragmentation less likely");
    Some(Proposal::new(draft, cost).expecting(unknown))
}
