//! Fewer batches that workers fetch in advance, if the host's memory ran out: workers × prefetch_factor of them wait in shared
//! memory.

use super::loader::{compared, is_of_host, proposal};
use super::proposal::{Draft, Offering, Proposal};
use super::{NeedFrom, RemedyEffect, RemedyId, RemedySpec};
use crate::diagnosis::Help;
use crate::event::{LoaderSettings, Patch};
use crate::recognize::family::{self, LoaderFlag};

pub(super) const REMEDY: RemedySpec = RemedySpec {
    comes_before: Some((Help::LessHostMemory, RemedyId::Wait)),
    of_loader: Some(|before, now| compared("prefetch_factor", |l| l.prefetch, before, now)),
    ..RemedySpec::new(
        'f',
        "fewer batches in advance",
        RemedyEffect::None,
        NeedFrom::Itself,
        propose,
    )
};

fn fewer(offering: &Offering<'_>) -> Result<Draft, String> {
    offering.recognized.check_open()?;
    let arguments = offering.recognized.arguments();
    let hits = family::of_loader(&arguments, LoaderFlag::Prefetch);
    let half = |old: u32| match old {
        0 | 1 => Err("a worker that waits for no batch fetches one".into()),
        old => Ok(old / 2),
    };
    let seen = |loader: &LoaderSettings| Some(loader.prefetch.unwrap_or(2));
    let what = (LoaderFlag::Prefetch, "prefetch_factor");
    offering.smaller_in_loader(what, &hits, half, seen, |loader| {
        let old = loader.prefetch.unwrap_or(2);
        let new = half(old)?;
        Ok((
            Patch::Prefetch(new),
            format!("DataLoader prefetch_factor {old}→{new}"),
        ))
    })
}

fn propose(offering: &Offering<'_>) -> Option<Proposal> {
    is_of_host(offering.inputs.cause()).then(|| {
        let saves = match offering.loader() {
            Some(loader) => format!(
                "{} batches wait in shared memory ({} workers × {})",
                loader.waiting(),
                loader.workers,
                loader.prefetch.unwrap_or(2)
            ),
            None => "fewer batches wait in shared memory".into(),
        };
        let cost = ["same numerics", "the GPU may wait for data"];
        proposal(fewer(offering), cost, saves)
    })
}
