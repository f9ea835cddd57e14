//! Fewer DataLoader workers, if the host's memory ran out: each of them has its own copy of the dataset's Python objects, and
//! prefetched batches. Or if they have memory on the GPU: each has a context there, and its own copy of what it puts there.

use super::loader::{compared, is_of_host};
use super::plan::Expectation;
use super::proposal::{Draft, Offering, Proposal};
use super::ram::{HeldByWorkers, RamAtOom};
use super::{NeedFrom, RemedyEffect, RemedyId, RemedySpec};
use crate::diagnosis::{Cause, Help};
use crate::event::{LoaderSettings, Patch};
use crate::recognize::argument::{Hit, Name};
use crate::recognize::family::{self, LoaderFlag};

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

/// Whether workers may be what filled a memory.
fn is_of_workers(cause: Option<Cause>) -> bool {
    is_of_host(cause) || cause == Some(Cause::GpuInWorkers)
}

/// The edits for half as many, or why there are none.
fn fewer(offering: &Offering<'_>) -> Result<Draft, String> {
    offering.recognized.check_open()?;
    let cause = offering.inputs.cause();
    if cause.is_some() && !is_of_workers(cause) {
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

/// What half of the workers need; without figures, what all of them held.
fn expected(offering: &Offering<'_>) -> Expectation {
    let ram = RamAtOom::of(offering.inputs);
    let held = ram.as_ref().and_then(RamAtOom::workers);
    let old = (offering.loader().map(|loader| loader.workers)).or(held.map(|held| held.count));
    let by_figures = |old: u32| ram?.with_workers(old, old / 2);
    old.filter(|old| *old > 0)
        .and_then(by_figures)
        .unwrap_or_else(|| {
            Expectation::unknown(match held {
                Some(HeldByWorkers { count, held }) => {
                    format!("{count} workers held {held} together")
                }
                None => "each worker uses host memory".into(),
            })
        })
}

fn propose(offering: &Offering<'_>) -> Option<Proposal> {
    let cause = offering.inputs.cause();
    if offering.inputs.forecast.oom.is_some() && !is_of_workers(cause) {
        return None;
    }
    let cost = [
        "same samples in the same order",
        "random augmentations differ",
        "data loading may become slower",
    ];
    let expectation = match cause {
        Some(Cause::GpuInWorkers) => Expectation::unknown(
            "half of the workers' CUDA contexts and tensors; how much each has is not known",
        ),
        _ => expected(offering),
    };
    Some(Proposal::new(fewer(offering), cost).expecting(expectation))
}
