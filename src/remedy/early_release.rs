//! `garbage_collection_threshold`: cached segments go back to the GPU before memory runs out.
//!
//! What PyTorch does with it (torch 1.12 to 2.15). Only where a block has to be asked of the GPU, and more than this share of
//! the process's limit is reserved, the cached segments that no part is in use of are given back, those first that lay unused for
//! longer than the average, until what is reserved is below the share. Segments that can grow are passed over.
//!
//! Without a limit nothing happens: the program calls `set_per_process_memory_fraction`, or since torch 2.10 a setting has
//! `per_process_memory_fraction` below 1.
//!
//! An allocation that fails gives all such segments back in any case and is tried again. So it can only help by what happens
//! before that: a cached segment that is gone cannot be cut up by small tensors that stay. It may as well do harm. Only a replay
//! of the step can tell.

use super::expandable_segments::{EXPANDABLE_SINCE, beside_own, draft, why_not_expandable};
use super::plan::Expectation;
use super::proposal::{Offering, Proposal};
use super::verify::RejectedThing;
use super::{NeedFrom, RemedyEffect, RemedyId, RemedySpec, max_split_size};
use crate::diagnosis::Help;
use crate::event::Hello;
use crate::recognize::alloc_conf::AllocConf;
use crate::units::{Bytes, Uuid};

pub(super) const REMEDY: RemedySpec = RemedySpec {
    comes_before: Some((Help::NoFragmentation, RemedyId::Batch)),
    verify: Some(verify),
    rejects: Some(RejectedThing::Allocator),
    ..RemedySpec::new(
        'G',
        "early cache release",
        RemedyEffect::LessFragmentation,
        NeedFrom::Itself,
        propose,
    )
};

const KEY: &str = "garbage_collection_threshold";
const LIMIT_KEY: &str = "per_process_memory_fraction";
/// Shares of the limit that are tried: the larger, the more seldom cached memory is given back and asked for again.
const THRESHOLDS: [&str; 3] = ["0.9", "0.8", "0.6"];
/// The first version whose settings can have a limit.
const LIMIT_SINCE: (u32, u32) = (2, 10);
/// A limit that takes nothing away: a process's CUDA context alone is more than a thousandth of the GPU. A share of 1 is none.
const LIMIT: (&str, f64) = ("0.999", 0.999);

/// The limit that it goes by, and whether that has to be set.
fn limit(offering: &Offering<'_>) -> Option<(Bytes, bool)> {
    let oom = offering.inputs.forecast.oom?;
    if let Some(limit) = oom.limit() {
        return Some((limit, false));
    }
    let torch = offering.inputs.torch()?;
    let can_be_set = (torch.major, torch.minor) >= LIMIT_SINCE;
    can_be_set.then_some((oom.capacity()?.scale(LIMIT.1), true))
}

/// The settings with which the step's replay runs, and what it needs with them.
fn helps(offering: &Offering<'_>) -> Option<(Vec<(&'static str, &'static str)>, Expectation)> {
    let (limit, is_to_set) = limit(offering)?;
    THRESHOLDS.iter().find_map(|threshold| {
        let mut settings = vec![(KEY, *threshold)];
        if is_to_set {
            settings.insert(0, (LIMIT_KEY, LIMIT.0));
        }
        let with_it = beside_own(offering, &format!("{KEY}:{threshold}"))?;
        let expectation = offering.predictor.under(&with_it, Some(limit))?;
        Some((settings, expectation))
    })
}

fn propose(offering: &Offering<'_>) -> Option<Proposal> {
    let torch = offering.inputs.torch()?;
    // Segments that grow are not cut up at all; before them, and beside a limit for splitting that helps, nobody needs it.
    why_not_expandable(offering)?;
    if (torch.major, torch.minor) < EXPANDABLE_SINCE || max_split_size::helps(offering).is_some() {
        return None;
    }
    let (settings, expectation) = helps(offering)?;
    let (command, recognized) = (offering.command, offering.recognized);
    let draft = draft(command, recognized, offering.inputs, &settings).ok()?;
    let cost = [
        "same numerics",
        "slower where cached memory has to be asked for again",
    ];
    Some(Proposal::new(Ok(draft), cost).expecting(expectation))
}

/// Reports a setting that did not arrive.
fn verify(hello: &Hello, _: Option<&Uuid>) -> Option<String> {
    let conf = AllocConf::parse(hello.alloc_conf.as_deref()?).ok()?;
    conf.value(KEY).is_none().then(|| {
        format!("{KEY} has no effect: something in the program configures the allocator itself")
    })
}
