//! `TORCH_NCCL_AVOID_RECORD_STREAMS=1`, for versions of PyTorch whose collectives hold on to their tensors by `record_stream`
//! until another stream has come so far: what is freed cannot be used again for so long. It shows as active memory that is no
//! longer allocated.

use super::expandable_segments::set_in_training;
use super::plan::Expectation;
use super::proposal::{Draft, Offering, Proposal};
use super::{NeedFrom, RemedyEffect, RemedySpec};
use crate::recognize::layout::Variable;

pub(super) const REMEDY: RemedySpec = RemedySpec::new(
    'N',
    "no record_stream in NCCL",
    RemedyEffect::RemovesCause,
    NeedFrom::Itself,
    propose,
);

const NAME: &str = "TORCH_NCCL_AVOID_RECORD_STREAMS";

/// The first version that reads it under this name, and the first one that does so without being asked.
const SINCE: (u32, u32) = (2, 1);
const BY_DEFAULT: (u32, u32) = (2, 8);

fn propose(offering: &Offering<'_>) -> Option<Proposal> {
    let inputs = offering.inputs;
    let oom = inputs.forecast.oom?;
    let sample = &oom.record.as_ref()?.sample;
    let waiting = sample.active? - sample.allocated;
    let requested = oom.requested()?;
    let is_distributed = inputs.hello()?.world_size.is_some_and(|ranks| ranks > 1);
    let torch = inputs.torch()?;
    let version = (torch.major, torch.minor);
    if !is_distributed || !(SINCE..BY_DEFAULT).contains(&version) || waiting < requested {
        return None;
    }
    let (command, layout) = (offering.command, &offering.recognized.layout);
    let set = Variable::find(command, layout, NAME, inputs.launch.inherited_value(NAME));
    if set.is_some_and(|set| set.text() == "1") {
        return None;
    }
    let mut draft = Draft::default();
    let draft = set_in_training(&mut draft, command, layout, set, NAME, "1").map(|()| draft);
    let words = format!(
        "{waiting} was freed but still waited for another stream, {requested} was requested"
    );
    let cost = "same numerics";
    Some(Proposal::new(draft, cost).expecting(Expectation::unknown(words)))
}
