//! `max_split_size_mb`, for versions of torch before expandable segments.

use super::expandable_segments::{EXPANDABLE_SINCE, draft, torch};
use super::plan::Expectation;
use super::proposal::{Offering, Proposal};
use crate::event::Hello;
use crate::recognize::alloc_conf::AllocConf;
use crate::units::Uuid;

/// The value most used in PyTorch's notes and in posts; every version accepts 21 and more.
const MAX_SPLIT_MB: &str = "128";

pub(super) fn propose(offering: &Offering<'_>) -> Option<Proposal> {
    let inputs = offering.inputs;
    if torch(inputs).is_none_or(|torch| (torch.major, torch.minor) >= EXPANDABLE_SINCE) {
        return None;
    }
    let (command, recognized) = (offering.command, offering.recognized);
    let draft = draft(
        command,
        recognized,
        inputs,
        "max_split_size_mb",
        MAX_SPLIT_MB,
    )
    .ok()?;
    Some(
        Proposal::new(Ok(draft), "slower allocation of large blocks")
            .expecting(Expectation::unknown("it makes fragmentation less likely")),
    )
}

/// Reports a setting that did not arrive.
pub(super) fn verify(hello: &Hello, _: Option<&Uuid>) -> Option<String> {
    let conf = AllocConf::parse(hello.alloc_conf.as_deref()?).ok()?;
    conf.value("max_split_size_mb").is_none().then(|| {
        "max_split_size_mb has no effect: something in the program configures the allocator itself"
            .into()
    })
}
