//! What a run with other settings of its DataLoaders needs of RAM, by the figures of the last second before it ran out: what
//! processes and batches held then, in the shares that the settings have in it. What was still growing is a lower bound, which
//! can prove that a run does not fit and never that it does; batches that wait have an end, and are figures.

use super::inputs::RemedyInputs;
use super::plan::Expectation;
use crate::diagnosis::{Cause, LittleUse, Phrase};
use crate::event::{HostMemory, LoaderSettings, RamPrediction};
use crate::recognize::{HostView, host_view};
use crate::units::{Bytes, Pid};

/// What saves less than this share of what was used is no help.
const WORTH_IT: f64 = 0.03;

/// What was held when the RAM ran out.
pub(super) struct RamAtOom<'a> {
    memory: &'a HostMemory,
    /// What workers have copied of what they shared, where that is the cause.
    copied: Option<Bytes>,
    /// The loader whose batches may take most.
    loader: Option<&'a LoaderSettings>,
    /// All of the run, with their workers.
    loaders: Vec<&'a LoaderSettings>,
    /// What processes say that they have pinned.
    pinned: Bytes,
}

/// The workers together.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeldByWorkers {
    pub count: u32,
    pub held: Bytes,
}

impl<'a> RamAtOom<'a> {
    pub fn of(inputs: &RemedyInputs<'a>) -> Option<RamAtOom<'a>> {
        let host = inputs.forecast.oom?.host.as_deref()?;
        let (_, memory) = host.memory.as_ref()?;
        let run = inputs.forecast.state.and_then(|state| state.run());
        // What was read of another process than the program says nothing of it.
        if run.is_some_and(|run| host_view(&run.command, memory) == HostView::Nothing) {
            return None;
        }
        let loaders: Vec<&LoaderSettings> = run.into_iter().flat_map(|run| run.loaders()).collect();
        let ranks = run.into_iter().flat_map(|run| &run.ranks);
        let by_torch: Bytes = ranks.filter_map(|rank| rank.host.pinned).sum();
        let locked = memory.processes.iter().filter_map(|process| process.locked);
        Some(RamAtOom {
            memory,
            copied: (host.copied).filter(|_| inputs.cause() == Some(Cause::WorkerCopies)),
            loader: loaders
                .iter()
                .copied()
                .max_by_key(|loader| loader.waiting()),
            loaders,
            pinned: by_torch.max(locked.sum()),
        })
    }

    /// What the workers held, if they shared nothing or that is counted once.
    pub fn workers(&self) -> Option<HeldByWorkers> {
        let workers = || (self.memory.roles.iter()).filter(|role| role.role.is_worker());
        let is_known = workers().next().is_some() && workers().all(|role| role.exact);
        is_known.then(|| HeldByWorkers {
            count: workers().map(|role| role.count).sum(),
            held: workers().map(|role| role.held).sum(),
        })
    }

    fn shared(&self) -> Bytes {
        self.memory.shared.unwrap_or_default()
    }

    /// The batches that may wait with so many workers, and what they take.
    fn batches(&self, workers: u64, prefetch: u64) -> Bytes {
        let waiting = workers * prefetch;
        match (self.memory.batch, self.loader) {
            (Some(batch), _) => Bytes(batch.0.saturating_mul(waiting)),
            (None, Some(loader)) => {
                let share = waiting as f64 / loader.waiting().max(1) as f64;
                self.shared().scale(share.min(1.0))
            }
            (None, None) => self.shared(),
        }
    }

    /// With so many workers instead of as many as the loader has.
    pub fn with_workers(&self, old: u32, new: u32) -> Option<Expectation> {
        let workers = self.workers()?;
        // What each has copied of its parent is its own now, and is not in what it is seen to hold.
        let copied = self.copied.unwrap_or_default();
        let others = self.memory.used - workers.held - copied - self.shared();
        // Workers of other loaders stay as they are.
        let share = f64::from(new) / f64::from(old.max(1));
        let prefetch = (self.loader)
            .and_then(|loader| loader.prefetch)
            .unwrap_or(2);
        let shared = match self.loader {
            Some(_) => (self.batches(new.into(), prefetch.into())).min(self.shared()),
            None => self.shared().scale(share),
        };
        let now = (workers.held + copied).scale(share);
        let room = self.memory.limit - others - shared;
        let larger = room.fraction_of(now).unwrap_or(1.0).min(99.0);
        let why = format!("each worker has room for {larger:.1} times what it held");
        Some(self.expected(others + now + shared, RamBound::AtLeast, &why))
    }

    /// With so many batches of each worker in advance; `None` where it is not known what one takes.
    pub fn with_prefetch(&self, new: u32) -> Option<Expectation> {
        let loader = self.loader?;
        self.memory.batch.filter(|batch| *batch > Bytes::ZERO)?;
        let batches = self.batches(loader.workers.into(), new.into());
        let in_shm = self.memory.shm.is_none_or(|shm| batches <= shm.size);
        let needs = self.memory.used - self.shared() + batches;
        let words = format!(
            "{} workers × {new} batches of {}",
            loader.workers,
            self.memory.batch.unwrap_or_default()
        );
        let expected = self.expected(needs, RamBound::AtMost, &words);
        Some(match in_shm {
            true => expected,
            false => Expectation {
                fits: Some(false),
                words: Phrase::from(format!("won't fit: {batches} of batches for /dev/shm")),
                ..expected
            },
        })
    }

    /// Without what is pinned; `None` where that is not known.
    pub fn without_pinned(&self) -> Option<Expectation> {
        (self.pinned > Bytes::ZERO).then(|| {
            let words = format!("{} were pinned", self.pinned);
            self.expected(self.memory.used - self.pinned, RamBound::AtLeast, &words)
        })
    }

    /// Without workers that wait while those of another loader work; `None` where there are none.
    pub fn without_waiting_workers(&self) -> Option<Expectation> {
        let workers = self.workers()?;
        let there = |pid: &Pid| self.memory.processes.iter().any(|known| known.pid == *pid);
        let kept = self.loaders.iter().filter(|loader| loader.persistent);
        let alive: Vec<u32> = (kept
            .filter(|loader| loader.pids.is_empty() || loader.pids.iter().any(there)))
        .map(|loader| loader.workers)
        .collect();
        let all: u32 = alive.iter().sum();
        let most = alive.iter().max()?;
        if alive.len() < 2 {
            return None;
        }
        let saved = workers
            .held
            .scale(f64::from(all - most) / f64::from(workers.count.max(all)));
        let words = format!(
            "{} workers waited with {saved} while others worked",
            all - most
        );
        Some(self.expected(self.memory.used - saved, RamBound::AtLeast, &words))
    }

    /// With another limit, and at least such a need.
    pub fn with_limit(&self, limit: Bytes, needs: Bytes) -> Expectation {
        Expectation {
            ram: Some(RamPrediction {
                needs,
                limit,
                at_least: true,
            }),
            words: Phrase::from(format!(
                "may not fit: needs at least {needs} of {limit} of RAM"
            )),
            ..Expectation::default()
        }
    }

    fn expected(&self, needs: Bytes, bound: RamBound, why: &str) -> Expectation {
        let limit = self.memory.limit;
        let ram = RamPrediction {
            needs,
            limit,
            at_least: bound == RamBound::AtLeast,
        };
        if needs > self.memory.used.scale(1.0 - WORTH_IT) && needs <= self.memory.used {
            let words = format!("unlikely to help: needs {needs} of RAM, as much as before");
            return Expectation {
                futile: Some(LittleUse::UnlikelyToHelp),
                words: Phrase::from(words).and("; ", why),
                ..Expectation::default()
            };
        }
        let fits = (needs > limit).then_some(false);
        let words = match (fits, bound) {
            (Some(_), _) => format!("won't fit: needs {needs} of RAM, which has {limit}"),
            (None, RamBound::AtMost) if ram.likely_fits() => {
                format!(
                    "likely fits: needs {needs} of RAM, {} to spare",
                    limit - needs
                )
            }
            (None, RamBound::AtMost) => {
                format!("may not fit: needs {needs} of RAM, which has {limit}")
            }
            (None, RamBound::AtLeast) => {
                format!("may not fit: needs at least {needs} of {limit} of RAM")
            }
        };
        Expectation {
            ram: Some(ram),
            fits,
            words: Phrase::from(words).and("; ", why),
            ..Expectation::default()
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RamBound {
    AtMost,
    AtLeast,
}
