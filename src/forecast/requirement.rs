//! What a run that was seen needs of the GPU's memory, also under other settings of the allocator: between what it had
//! allocated and what it had reserved, and where these are far apart by the replay of one of its traced steps, or by its
//! rehearsal.

use super::estimate::{ActivationReduction, Allocator, Estimate, Target};
use super::rehearsed::Rehearsed;
use super::replay::{AllocatorSettings, ReplayRoom, replay_until_steady};
use super::trace::Trace;
use crate::event::Basis;
use crate::recognize::{LaunchEnvironment, WorkloadKey};
use crate::state::{RankState, Run, RunOutcome};
use crate::units::Bytes;

/// How often a step is played until what it reserves repeats.
const STEPS: usize = 3;
/// What the run reserved, as a share of what the replay reserves, where the replay is believed: as for a traced step's
/// search for the largest batch.
const BELIEVED: std::ops::RangeInclusive<f64> = 0.95..=1.08;
/// How far off a replayed step is, where it is believed.
const REPLAYED: f64 = 0.01;
/// The largest step may have been this many times the traced one.
const MOST_STRETCHED: f64 = 1.5;
/// To this share the smallest room is searched for.
const EXACTLY: f64 = 0.002;

/// What a run needs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Requirement {
    /// What PyTorch's allocator must be able to reserve.
    pub needs: Estimate,
    /// Whether only the lower end is known.
    pub is_bound: bool,
    pub basis: Basis,
    /// The step that was replayed.
    pub replayed: Option<u64>,
}

/// The settings that a process of a run had.
pub fn run_settings(rank: &RankState) -> AllocatorSettings {
    let hello = &rank.hello;
    AllocatorSettings {
        expandable_segments: hello.expandable_segments == Some(true),
        ..AllocatorSettings::parse(hello.alloc_conf.as_deref().unwrap_or(""))
    }
}

/// The settings of a variable's text.
pub fn with_conf(text: &str) -> AllocatorSettings {
    AllocatorSettings::parse(text)
}

impl Requirement {
    /// What a run needs with these settings, or with its own; `None` where no process of it showed anything.
    pub fn of_run(run: &Run, conf: Option<&str>) -> Option<Requirement> {
        let rank = run.ranks.iter().max_by_key(|rank| rank.reserved_peak)?;
        let own = run_settings(rank);
        let settings = conf.map_or_else(|| own.clone(), with_conf);
        let ran_out = run.outcome() == RunOutcome::OutOfMemory || run.is_hidden_failure();
        let seen = match ran_out {
            true => RunSeen::failed(run, rank),
            false => RunSeen::whole(rank, settings == own)?,
        };
        let replayed = || match ran_out {
            true => None,
            false => replayed(rank, &own, &settings),
        };
        if let Some((step, needs)) = replayed() {
            return Some(Requirement {
                needs: seen.within(needs),
                is_bound: false,
                basis: Basis::Measured,
                replayed: Some(step),
            });
        }
        if let Some(needs) = rehearsed(run, rank, &settings) {
            return Some(Requirement {
                needs: seen.within(needs),
                is_bound: false,
                basis: Basis::Rehearsed,
                replayed: None,
            });
        }
        let high = seen.most;
        Some(Requirement {
            needs: Estimate::new(
                seen.least,
                high.unwrap_or(seen.least),
                high.unwrap_or(seen.least),
            ),
            is_bound: high.is_none(),
            basis: Basis::Measured,
            replayed: None,
        })
    }

    /// Whether a run fits where PyTorch may reserve so much; `None` where that is not known.
    pub fn fits(&self, room: Bytes) -> Option<bool> {
        match (
            self.needs.low > room,
            self.needs.high <= room,
            self.is_bound,
        ) {
            (true, _, _) => Some(false),
            (false, true, false) => Some(true),
            (false, _, _) => None,
        }
    }
}

/// What was measured, as bounds.
struct RunSeen {
    least: Bytes,
    most: Option<Bytes>,
}

impl RunSeen {
    /// Of a run that went well for a step at least.
    fn whole(rank: &RankState, is_own: bool) -> Option<RunSeen> {
        let trained = rank.steps.count > 0 && rank.allocated_peak > Bytes::ZERO;
        // Where the cache was given back, what was reserved is no measure of what is needed, but still ran.
        trained.then_some(RunSeen {
            least: rank.allocated_peak,
            most: is_own.then_some(rank.reserved_peak),
        })
    }

    /// Of a run that memory ran out in.
    fn failed(run: &Run, rank: &RankState) -> RunSeen {
        let oom = run.oom().or(run.ooms.last());
        let wanted = oom.and_then(|oom| Some(oom.allocated()? + oom.requested()?));
        let least = wanted.unwrap_or(Bytes::ZERO).max(rank.allocated_peak);
        RunSeen { least, most: None }
    }

    fn within(&self, needs: Estimate) -> Estimate {
        let least = |bytes: Bytes| bytes.max(self.least);
        let most = |bytes: Bytes| {
            self.most
                .map_or(bytes, |most| bytes.min(most.max(self.least)))
        };
        Estimate::new(
            most(least(needs.low)),
            most(least(needs.likely)),
            most(least(needs.high)),
        )
    }
}

/// What the largest traced step needs: the smallest room that it runs in. `None` where its replay does not give what the
/// run reserved.
fn replayed(
    rank: &RankState,
    own: &AllocatorSettings,
    settings: &AllocatorSettings,
) -> Option<(u64, Estimate)> {
    let step = rank.traces.largest().filter(|step| !step.failed)?;
    let trace: Trace = step.trace.parse().ok()?;
    let play = |settings: &AllocatorSettings, device: Option<u64>| {
        let room = ReplayRoom { device, cap: None };
        replay_until_steady(&trace, STEPS, settings, room)
    };
    let as_it_was = play(own, None);
    let off = rank
        .reserved_peak
        .fraction_of(Bytes(as_it_was.reserved_peak))
        .filter(|off| BELIEVED.contains(off))?;
    let larger = rank
        .allocated_peak
        .fraction_of(Bytes(as_it_was.allocated_peak))
        .filter(|larger| *larger <= MOST_STRETCHED)?
        .max(1.0);
    let free = play(settings, None);
    let (mut low, mut high) = (free.allocated_peak, free.reserved_peak);
    while (high - low) as f64 > high as f64 * EXACTLY {
        let middle = low + (high - low) / 2;
        match play(settings, Some(middle)).ran_out {
            None => high = middle,
            Some(_) => low = middle,
        }
    }
    let likely = Bytes(high).scale(larger);
    let most = likely.scale(off.max(1.0) * (1.0 + REPLAYED));
    Some((
        step.step,
        Estimate::new(likely.scale(1.0 - REPLAYED), likely, most),
    ))
}

fn rehearsed(run: &Run, rank: &RankState, settings: &AllocatorSettings) -> Option<Estimate> {
    let workload = WorkloadKey::new(&run.command, &LaunchEnvironment::default());
    let counted = workload.at_once.max(1);
    let rehearsal = rank.rehearsal.as_ref()?;
    let target = Target {
        batch: counted,
        keeps_gradients: workload.keeps_gradients(),
        treatment: ActivationReduction::default(),
        allocator: match settings.expandable_segments {
            true => Allocator::Expandable,
            false => Allocator::Fixed,
        },
    };
    Rehearsed::new(rehearsal, counted)?
        .with_settings(settings)
        .needs(&target)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event;
    use crate::state::State;

    fn state(name: &str) -> State {
        let path = format!("{}/tests/replay/{name}.jsonl", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).expect("a recording");
        let mut state = State::default();
        for line in text.lines() {
            state.apply(&serde_json::from_str::<Event>(line).expect("an event"));
        }
        state
    }

    #[test]
    fn a_run_that_ran_out_needs_more_than_it_had_and_a_whole_one_no_more_than_it_reserved() {
        let failed = state("capacity");
        let run = failed.run().expect("a run");
        let needs = Requirement::of_run(run, None).expect("a bound");
        let oom = run.oom().expect("an OOM");
        let wanted = oom.allocated().unwrap() + oom.requested().unwrap();
        assert!(needs.needs.low >= wanted);
        assert_eq!(needs.fits(wanted - Bytes(1)), Some(false));

        let whole = state("vit");
        let run = whole.run().expect("a run");
        let rank = &run.ranks[0];
        let needs = Requirement::of_run(run, None).expect("a figure");
        assert!(needs.needs.low >= rank.allocated_peak);
        assert_eq!(needs.fits(rank.reserved_peak), Some(true));
        assert_eq!(needs.fits(rank.allocated_peak - Bytes(1)), Some(false));
        let other = Requirement::of_run(run, Some("expandable_segments:True")).expect("a figure");
        assert!(
            other.needs.low >= rank.allocated_peak
                && other.needs.high < rank.reserved_peak.scale(1.1)
        );
    }
}
