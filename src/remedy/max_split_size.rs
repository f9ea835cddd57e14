//! `max_split_size_mb`, for versions of torch before expandable segments.

use super::expandable_segments::{EXPANDABLE_SINCE, beside_own, breaks, draft};
use super::plan::Expectation;
use super::proposal::{Offering, Proposal};
use super::verify::RejectedThing;
use super::{NeedFrom, RemedyEffect, RemedyId, RemedySpec};
use crate::diagnosis::Help;
use crate::event::Hello;
use crate::recognize::alloc_conf::AllocConf;
use crate::units::Uuid;

pub(super) const REMEDY: RemedySpec = RemedySpec {
    comes_before: Some((Help::NoFragmentation, RemedyId::Batch)),
    verify: Some(verify),
    rejects: Some(RejectedThing::Allocator),
    ..RemedySpec::new(
        'm',
        "max split size",
        RemedyEffect::LessFragmentation,
        NeedFrom::Itself,
        propose,
    )
};

/// The value most used in PyTorch's notes and in posts; every version accepts 21 and more.
const MAX_SPLIT_MB: &str = "128";

/// What it does where segments can be expandable but may not be, if its replay says that it helps.
pub(super) fn helps(offering: &Offering<'_>) -> Option<Expectation> {
    breaks(
        offering.command,
        &offering.recognized.layout,
        offering.inputs,
    )?;
    let with_limit = beside_own(offering, &format!("max_split_size_mb:{MAX_SPLIT_MB}"))?;
    let cap = offering.inputs.forecast.oom.and_then(|oom| oom.limit());
    offering.predictor.under(&with_limit, cap)
}

fn propose(offering: &Offering<'_>) -> Option<Proposal> {
    let inputs = offering.inputs;
    let torch = inputs.torch()?;
    let expectation = match (torch.major, torch.minor) >= EXPANDABLE_SINCE {
        true => helps(offering)?,
        false => offering.predictor.of_failed_allocation(&[]),
    };
    let (command, recognized) = (offering.command, offering.recognized);
    let draft = draft(
        command,
        recognized,
        inputs,
        &[("max_split_size_mb", MAX_SPLIT_MB)],
    )
    .ok()?;
    let cost = "slower allocation of large blocks";
    Some(Proposal::new(Ok(draft), cost).expecting(expectation))
}

/// Reports a setting that did not arrive.
fn verify(hello: &Hello, _: Option<&Uuid>) -> Option<String> {
    let conf = AllocConf::parse(hello.alloc_conf.as_deref()?).ok()?;
    conf.value("max_split_size_mb").is_none().then(|| {
        "max_split_size_mb has no effect: something in the program configures the allocator itself"
            .into()
    })
}
