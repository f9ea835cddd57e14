//! What a run that was seen needs of the GPU's memory, also under other settings of the allocator: between what it had
//! allocated and what it had reserved, and where these are far apart by the replay of one of its traced steps, or by its
//! rehearsal.

use super::estimate::{ActivationReduction, Allocator, Estimate, Target};
use super::need::Need;
use super::rehearsed::Rehearsed;
use super::replay::{AllocatorSettings, ReplayRoom, Replayed, replay_until_steady};
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
/// The same where cuDNN's workspaces are optional: a U-Net ran with 1.3 % less, a ResNet with 0.5 %.
const WITH_WORKSPACES: f64 = 0.02;
/// What such a run needs at the least of what it had allocated, of which some were workspaces. A choice: it was 18 % less at
/// the most.
const LEAST_CONVOLUTIONS: f64 = 0.8;
/// The largest step may have been this many times the traced one.
const MOST_STRETCHED: f64 = 1.5;
/// More room than any training takes.
const WITHOUT_BOUND: Bytes = Bytes::gib(1 << 20);
/// To this share the smallest room is searched for.
const EXACTLY: f64 = 0.002;

/// What a run needs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Requirement {
    pub needs: Need,
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
        let nearest = match ran_out {
            true => None,
            false => nearest_replay(run, rank, &own, &settings),
        };
        if let Some(played) = nearest {
            return Some(Requirement {
                needs: Need::of(seen.within(played.needs)),
                is_bound: false,
                basis: played.basis,
                replayed: played.step,
            });
        }
        if let Some(needs) = as_rehearsed(run, rank, &settings) {
            let needs = seen.within(needs);
            return Some(Requirement {
                // The run reserved more than its rehearsal would: how much of that is needed is not known.
                needs: Need::of(needs.up_to(seen.most.unwrap_or(needs.high))),
                is_bound: false,
                basis: Basis::Rehearsed,
                replayed: None,
            });
        }
        let high = seen.most;
        Some(Requirement {
            needs: Need::of(Estimate::new(
                seen.least,
                rank.allocated_peak,
                high.unwrap_or(seen.least),
            )),
            is_bound: high.is_none(),
            basis: Basis::Measured,
            replayed: None,
        })
    }

    /// Whether a run fits where PyTorch may reserve so much; `None` where that is not known.
    pub fn fits(&self, room: Bytes) -> Option<bool> {
        match (
            self.needs.low() > room,
            self.needs.high() <= room,
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
            least: match has_convolutions(rank) {
                true => rank.allocated_peak.scale(LEAST_CONVOLUTIONS),
                false => rank.allocated_peak,
            },
            most: is_own.then_some(rank.reserved_peak),
        })
    }

    /// Of a run that memory ran out in.
    fn failed(run: &Run, rank: &RankState) -> RunSeen {
        let oom = run.explained_oom();
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

/// A need by a replay that gives what the run reserved.
struct Played {
    needs: Estimate,
    basis: Basis,
    /// The step that was replayed; `None` of a rehearsal.
    step: Option<u64>,
    /// What the run reserved, as a share of what the replay reserves where there is more room than it takes.
    off: f64,
}

impl Played {
    /// To a percent: what is nearer is so by chance.
    fn off_by(&self) -> f64 {
        ((self.off - 1.0).abs() * 100.0).round()
    }
}

fn has_convolutions(rank: &RankState) -> bool {
    (rank.rehearsal.as_ref()).is_some_and(|rehearsal| rehearsal.convolutions)
}

/// What is needed by the replay that is nearest to what the run reserved with its own settings. Of those that are as near it
/// is the rehearsal's: that begins with an empty allocator, as a run with less room would.
fn nearest_replay(
    run: &Run,
    rank: &RankState,
    own: &AllocatorSettings,
    asked: &AllocatorSettings,
) -> Option<Played> {
    let played = [rehearsed(run, rank, own, asked), replayed(rank, own, asked)];
    (played.into_iter().flatten()).min_by(|a, b| a.off_by().total_cmp(&b.off_by()))
}

fn play_step(step: &Trace, settings: &AllocatorSettings, device: Option<u64>) -> Replayed {
    let room = ReplayRoom { device, cap: None };
    replay_until_steady(step, STEPS, settings, room)
}

/// What the largest traced step needs: the smallest room that it runs in. `None` where its replay does not give what the
/// run reserved.
fn replayed(
    rank: &RankState,
    own: &AllocatorSettings,
    asked: &AllocatorSettings,
) -> Option<Played> {
    let step = rank.traces.largest().filter(|step| !step.failed)?;
    let convolves = has_convolutions(rank);
    let mut trace = Trace::of_step(step)?;
    let as_it_was = play_step(&trace, own, None);
    let off = rank
        .reserved_peak
        .fraction_of(Bytes(as_it_was.reserved_peak))
        .filter(|off| BELIEVED.contains(off))?;
    let larger = rank
        .allocated_peak
        .fraction_of(Bytes(as_it_was.allocated_peak))
        .filter(|larger| *larger <= MOST_STRETCHED)?
        .max(1.0);
    if asked != own {
        // Other settings lay the blocks out otherwise.
        trace.layout = None;
    }
    if convolves {
        trace = trace.with_workspaces();
    }
    let play = |device| play_step(&trace, asked, device);
    let free = play(None);
    let least = match convolves {
        true => 0,
        false => free.allocated_peak,
    };
    let (mut low, mut high) = (least, free.reserved_peak);
    while (high - low) as f64 > high as f64 * EXACTLY {
        let middle = low + (high - low) / 2;
        match play(Some(middle)).ran_out {
            None => high = middle,
            Some(_) => low = middle,
        }
    }
    let likely = Bytes(high).scale(larger);
    let spread = if convolves { WITH_WORKSPACES } else { REPLAYED };
    let most = likely.scale(off.max(1.0) * (1.0 + spread));
    let needs = Estimate::new(likely.scale(1.0 - spread), likely, most);
    // What other data would take is in no step that was seen.
    let assumes = (rank.rehearsal.as_ref()).is_some_and(|rehearsal| rehearsal.assumes_values);
    Some(Played {
        needs: match assumes {
            true => needs.up_to(rank.reserved_peak),
            false => needs,
        },
        basis: Basis::Measured,
        step: Some(step.step),
        off,
    })
}

/// What its rehearsal needs. `None` where that does not give what the run allocated and reserved.
fn rehearsed(
    run: &Run,
    rank: &RankState,
    own: &AllocatorSettings,
    asked: &AllocatorSettings,
) -> Option<Played> {
    let (of_own, target) = rehearsal(run, rank, own)?;
    let reserved = of_own.on_card(&target, WITHOUT_BOUND)?.reserved.likely;
    let off = (rank.reserved_peak.fraction_of(reserved)).filter(|off| is_exact(*off))?;
    let allocated = of_own.peak(&target)?.likely;
    (rank.allocated_peak.fraction_of(allocated)).filter(|off| is_exact(*off))?;
    let (of_asked, target) = rehearsal(run, rank, asked)?;
    let needs = of_asked.needs(&target)?;
    let most = needs.likely.scale(off.max(1.0) * (1.0 + REPLAYED));
    Some(Played {
        needs: Estimate::new(needs.likely.scale(1.0 - REPLAYED), needs.likely, most),
        basis: Basis::Rehearsed,
        step: None,
        off,
    })
}

fn is_exact(share: f64) -> bool {
    (share - 1.0).abs() <= REPLAYED
}

fn as_rehearsed(run: &Run, rank: &RankState, settings: &AllocatorSettings) -> Option<Estimate> {
    let (rehearsed, target) = rehearsal(run, rank, settings)?;
    rehearsed.needs(&target)
}

/// The rehearsal of a run's own batch, with these settings.
fn rehearsal(
    run: &Run,
    rank: &RankState,
    settings: &AllocatorSettings,
) -> Option<(Rehearsed, Target)> {
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
    let rehearsed = Rehearsed::new(rehearsal, counted)?.with_settings(settings);
    Some((rehearsed, target))
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

    /// Recorded on an H100 with torch 2.11; the same trainings ran out of memory bounded to the first figure, and ran with
    /// the second (GB, by bisection).
    #[test]
    fn a_need_is_what_a_bounded_run_ran_with() {
        for (name, basis, ran_out, ran) in [
            ("decoder", Basis::Rehearsed, 10.728, 10.796),
            ("encoder-lengths", Basis::Measured, 15.266, 15.312),
            ("unet-workspaces", Basis::Measured, 8.394, 8.450),
        ] {
            let state = state(name);
            let needs = Requirement::of_run(state.run().expect("a run"), None).expect("a figure");
            assert_eq!(needs.basis, basis, "{name}");
            let billions = |bytes: Bytes| bytes.0 as f64 / 1e9;
            let within = ran_out * 0.985..ran * 1.015;
            assert!(
                within.contains(&billions(needs.needs.likely())),
                "{name}: {needs:?}"
            );
            assert!(billions(needs.needs.low()) <= ran, "{name}: {needs:?}");
            assert!(billions(needs.needs.high()) >= ran_out, "{name}: {needs:?}");
        }
    }

    #[test]
    fn a_run_that_ran_out_needs_more_than_it_had_and_a_whole_one_no_more_than_it_reserved() {
        let failed = state("capacity");
        let run = failed.run().expect("a run");
        let needs = Requirement::of_run(run, None).expect("a bound");
        let oom = run.oom().expect("an OOM");
        let wanted = oom.allocated().unwrap() + oom.requested().unwrap();
        assert!(needs.needs.low() >= wanted);
        assert_eq!(needs.fits(wanted - Bytes(1)), Some(false));

        let whole = state("vit");
        let run = whole.run().expect("a run");
        let rank = &run.ranks[0];
        let needs = Requirement::of_run(run, None).expect("a figure");
        assert!(needs.needs.low() >= rank.allocated_peak);
        assert_eq!(needs.fits(rank.reserved_peak), Some(true));
        assert_eq!(needs.fits(rank.allocated_peak - Bytes(1)), Some(false));
        let other = Requirement::of_run(run, Some("expandable_segments:True")).expect("a figure");
        assert!(
            other.needs.low() >= rank.allocated_peak
                && other.needs.high() < rank.reserved_peak.scale(1.1)
        );
    }
}
