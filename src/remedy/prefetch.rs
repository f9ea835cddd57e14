//! Fewer batches that workers fetch in advance, if the host's memory ran out: workers × prefetch_factor of them wait in shared
//! memory. Where it is known what one batch takes, as many as fit; else half as many.

use super::loader::{compared, is_of_host};
use super::plan::Expectation;
use super::proposal::{Draft, Offering, Proposal};
use super::ram::RamAtOom;
use super::{NeedFrom, RemedyEffect, RemedyId, RemedySpec};
use crate::diagnosis::Help;
use crate::event::{LoaderSettings, Patch};
use crate::recognize::family::{self, LoaderFlag};
use crate::state::Run;
use crate::units::Bytes;

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

/// This share of the RAM is kept free: other processes grow, too.
const KEPT_FREE: f64 = 0.1;

/// The batches that may wait, and the room that they have.
struct PrefetchRoom {
    workers: u64,
    prefetch: u32,
    /// What one batch takes.
    batch: Bytes,
    room: Bytes,
}

impl PrefetchRoom {
    /// `None` where it is not known what a batch takes.
    fn of(offering: &Offering<'_>) -> Option<PrefetchRoom> {
        let loader = offering.loader()?;
        let oom = offering.inputs.forecast.oom?;
        let (_, memory) = oom.host.as_ref()?.memory.as_ref()?;
        let batch = memory.batch.filter(|batch| *batch > Bytes::ZERO)?;
        let others = memory.used - memory.shared.unwrap_or_default();
        let in_limit = memory.limit.scale(1.0 - KEPT_FREE) - others;
        let in_shm = memory.shm.map(|shm| shm.size.scale(1.0 - KEPT_FREE));
        Some(PrefetchRoom {
            workers: u64::from(loader.workers.max(1)),
            prefetch: loader.prefetch.unwrap_or(2),
            batch,
            room: in_shm.map_or(in_limit, |in_shm| in_limit.min(in_shm)),
        })
    }

    /// The largest one that fits, but always smaller than before, and at most half where the figures have failed once.
    fn fitting(&self, has_failed: bool) -> u32 {
        let fits = self.room.0 / (self.workers * self.batch.0);
        let most = match has_failed {
            true => self.prefetch / 2,
            false => self.prefetch - 1,
        };
        u32::try_from(fits)
            .unwrap_or(u32::MAX)
            .clamp(1, most.max(1))
    }
}

/// Whether a run before this one had more batches in advance, and ran out as well.
fn has_failed_before(offering: &Offering<'_>) -> bool {
    let Some(state) = offering.inputs.forecast.state else {
        return false;
    };
    let now = offering.loader().and_then(|loader| loader.prefetch);
    let mut before = state.runs.iter().rev().skip(1).flat_map(Run::loaders);
    before.any(|loader| loader.prefetch > now)
}

fn fewer(offering: &Offering<'_>) -> Result<Draft, String> {
    offering.recognized.check_open()?;
    let arguments = offering.recognized.arguments();
    let hits = family::of_loader(&arguments, LoaderFlag::Prefetch);
    let smaller = |old: u32| match old {
        0 | 1 => Err("a worker that waits for no batch fetches one".into()),
        old => Ok(PrefetchRoom::of(offering)
            .filter(|queue| queue.prefetch == old)
            .map_or(old / 2, |queue| queue.fitting(has_failed_before(offering)))),
    };
    let seen = |loader: &LoaderSettings| Some(loader.prefetch.unwrap_or(2));
    let what = (LoaderFlag::Prefetch, "prefetch_factor");
    offering.smaller_in_loader(what, &hits, smaller, seen, |loader| {
        let old = loader.prefetch.unwrap_or(2);
        let new = smaller(old)?;
        Ok((
            Patch::Prefetch(new),
            format!("DataLoader prefetch_factor {old}→{new}"),
        ))
    })
}

fn propose(offering: &Offering<'_>) -> Option<Proposal> {
    is_of_host(offering.inputs.cause()).then(|| {
        let queue = PrefetchRoom::of(offering).filter(|queue| queue.prefetch > 1);
        let by_figures = queue.and_then(|queue| {
            let new = queue.fitting(has_failed_before(offering));
            RamAtOom::of(offering.inputs)?.with_prefetch(new)
        });
        let saves = || match offering.loader() {
            Some(loader) => format!(
                "{} batches wait in shared memory ({} workers × {})",
                loader.waiting(),
                loader.workers,
                loader.prefetch.unwrap_or(2)
            ),
            None => "fewer batches wait in shared memory".into(),
        };
        let cost = ["same numerics", "the GPU may wait for data"];
        let expectation = by_figures.unwrap_or_else(|| Expectation::unknown(saves()));
        Proposal::new(fewer(offering), cost).expecting(expectation)
    })
}
