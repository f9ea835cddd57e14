//! No limit of the process's memory, where the allocator's settings in the command or its environment set one that was reached.
//!
//! Whoever set it may have meant to leave the rest of the GPU to others, so it is never taken unasked.

use super::expandable_segments::{draft, settings_in_training};
use super::plan::Expectation;
use super::proposal::{Draft, Offering, Proposal};
use super::verify::RejectedThing;
use super::{NeedFrom, RemedyEffect, RemedySpec};
use crate::diagnosis::Cause;
use crate::event::Hello;
use crate::recognize::alloc_conf::AllocConf;
use crate::units::Uuid;

pub(super) const REMEDY: RemedySpec = RemedySpec {
    verify: Some(verify),
    rejects: Some(RejectedThing::Allocator),
    ..RemedySpec::new(
        'L',
        "no memory limit",
        RemedyEffect::MoreFree,
        NeedFrom::Itself,
        propose,
    )
};

const KEY: &str = "per_process_memory_fraction";
/// The whole GPU.
const ALL: &str = "1.0";

fn propose(offering: &Offering<'_>) -> Option<Proposal> {
    let inputs = offering.inputs;
    if inputs.cause() != Some(Cause::Limit) {
        return None;
    }
    let oom = inputs.forecast.oom.filter(|oom| oom.limit().is_some())?;
    let cost = [
        "same numerics",
        "others on the GPU may need what it then takes",
    ];
    let proposal = Proposal::new(without_limit(offering), cost);
    let room = oom.reserved().zip(oom.free());
    let room = room.map(|(reserved, free)| reserved + free);
    let known = room.and_then(|room| offering.predictor.on(room));
    Some(proposal.expecting(known.unwrap_or_else(|| {
        Expectation::unknown(match room {
            Some(room) => format!("{room} could be had then"),
            None => "it depends on what is free on the GPU".into(),
        })
    })))
}

/// The edits that take the setting away: another process of the same settings would read 1.0 as no limit too.
fn without_limit(offering: &Offering<'_>) -> Result<Draft, String> {
    let (command, recognized) = (offering.command, offering.recognized);
    let set = settings_in_training(command, recognized, offering.inputs)?;
    match set.value(KEY) {
        Some(_) => draft(command, recognized, offering.inputs, &[(KEY, ALL)]),
        None => Err("the program sets the limit itself".into()),
    }
}

/// Reports a limit that is still there.
fn verify(hello: &Hello, _: Option<&Uuid>) -> Option<String> {
    let conf = AllocConf::parse(hello.alloc_conf.as_deref()?).ok()?;
    (conf.value(KEY)? != ALL).then(|| "the limit is still in force".to_string())
}
