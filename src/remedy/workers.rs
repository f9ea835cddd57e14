//! Fewer DataLoader workers, if the host's memory ran out. Each of them has its own copy of the
//! dataset's Python objects, and prefetched batches.

use super::loader::{compared, is_of_host, proposal};
use super::proposal::{Draft, Offering, Proposal};
use super::{NeedFrom, RemedyEffect, RemedyId, RemedySpec};
use crate::diagnosis::Help;
use crate::event::{LoaderSettings, Patch};
use crate::recognize::argument::{Hit, Name};
use crate::recognize::family::{self, LoaderFlag};
use crate::units::Bytes;

pub(super) const REMEDY: RemedySpec = RemedySpec {
    comes_before: Some((Help::LessHostMemory, RemedyId::Wait)),
    of_loader: Some(|before, now| compared("DataLoader workers", |l| Some(l.workers), before, now)),
    ..RemedySpec::new(
        'l',
        "fewer DataLoader workers",
        RemedyEffect::None,
        NeedFrom::Itself,
        propose,
    )
};

/// The edits for half as many, or why there are none.
fn fewer(offering: &Offering<'_>) -> Result<Draft, String> {
    offering.recognized.check_open()?;
    let cause = offering.inputs.cause();
    if cause.is_some() && !is_of_host(cause) {
        return Err("GPU memory ran out, not host memory".into());
    }
    let arguments = offering.recognized.arguments();
    let names = offering
        .recognized
        .known
        .map_or(&[][..], |entry| &entry.workers);
    let last = |name: &String| arguments.find(Name::new(name)).pop();
    let mut hits: Vec<Hit<'_>> = names.iter().filter_map(last).collect();
    if hits.is_empty() {
        hits = family::of_loader(&arguments, LoaderFlag::Workers);
    }
    if let Some(loader) = offering.loader().filter(|_| hits.is_empty()) {
        hits = family::workers_by_number(&arguments, loader.workers);
    }
    let half = |old: u32| match old {
        0 => Err("data is loaded in the main process".into()),
        old => Ok(old / 2),
    };
    let what = (LoaderFlag::Workers, "the number of DataLoader workers");
    let seen = |loader: &LoaderSettings| Some(loader.workers);
    offering.smaller_in_loader(what, &hits, half, seen, in_loader)
}

/// Half as many in DataLoader itself.
fn in_loader(loader: &LoaderSettings) -> Result<(Patch, String), String> {
    if loader.iterable {
        return Err("an IterableDataset divides its data by the number of workers".into());
    }
    let (old, new) = (loader.workers, loader.workers / 2);
    Ok((
        Patch::Workers(new),
        format!("DataLoader workers {old}→{new}"),
    ))
}

/// What the workers held when memory ran out, if they shared nothing or that is counted once.
fn held(offering: &Offering<'_>) -> Option<(u32, Bytes)> {
    let (_, memory) = offering
        .inputs
        .forecast
        .oom?
        .host
        .as_ref()?
        .memory
        .as_ref()?;
    let workers = || memory.roles.iter().filter(|role| role.role.is_worker());
    let is_known = workers().next().is_some() && workers().all(|role| role.exact);
    is_known.then(|| {
        let count = workers().map(|role| role.count).sum();
        (count, workers().map(|role| role.held).sum())
    })
}

fn propose(offering: &Offering<'_>) -> Option<Proposal> {
    if offering.inputs.forecast.oom.is_some() && !is_of_host(offering.inputs.cause()) {
        return None;
    }
    let cost = [
        "same samples in the same order",
        "random augmentations differ",
        "data loading may become slower",
    ];
    let saves = match held(offering) {
        Some((count, held)) => format!("{count} workers held {held} together"),
        None => "each worker uses host memory".into(),
    };
    Some(proposal(fewer(offering), cost, saves))
}
