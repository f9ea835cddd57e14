//! The fits of a run's baselines, kept: within one look at a training, and within one frame, the same ones are asked for many times
//! (the forecast of a leak asks for those of all processes, and each leaking process for the forecast), and a fit compares
//! thousands of pairs.
//!
//! Nothing but time depends on what is kept: what is not, or is of other baselines, is fitted when it is asked for.

use super::baseline_growth::{BaselineGrowth, baseline_growth};
use crate::state::{RankState, State};
use crate::units::{Bytes, Moment, Pid};
use std::collections::HashMap;

/// The growth of the processes of a run, as far as it was worked out.
#[derive(Debug, Clone, Default)]
pub struct FittedGrowth {
    of: HashMap<Pid, FittedProcess>,
}

#[derive(Debug, Clone, Copy)]
struct FittedProcess {
    to: FittedTo,
    growth: Option<BaselineGrowth>,
}

/// What a fit is of: with the same of it the same comes out.
#[derive(Debug, Clone, Copy, PartialEq)]
struct FittedTo {
    card: Option<Bytes>,
    /// Tells a process from a later one with its PID.
    first_step: Option<Moment>,
    /// See [`crate::state::StepTrack::taken`].
    taken: u64,
}

impl FittedTo {
    fn new(rank: &RankState, card: Option<Bytes>) -> FittedTo {
        FittedTo {
            card,
            first_step: rank.steps.first,
            taken: rank.steps.taken,
        }
    }
}

impl FittedGrowth {
    /// Of the current run as it is.
    pub fn new(state: &State) -> FittedGrowth {
        let mut fitted = FittedGrowth::default();
        fitted.follow(state);
        fitted
    }

    /// Fits what has new baselines, and forgets what is not of the current run.
    pub fn follow(&mut self, state: &State) {
        let ranks = state.run().into_iter().flat_map(|run| run.ranks.iter());
        let of = ranks.map(|rank| {
            let device = rank.device.as_ref().and_then(|uuid| state.device(uuid));
            let card = device.and_then(|device| device.capacity);
            let fitted = FittedProcess {
                to: FittedTo::new(rank, card),
                growth: self.growth(rank, card),
            };
            (rank.hello.pid, fitted)
        });
        self.of = of.collect();
    }

    /// [`baseline_growth`] of a process.
    pub fn growth(&self, rank: &RankState, card: Option<Bytes>) -> Option<BaselineGrowth> {
        let to = FittedTo::new(rank, card);
        let known = self.of.get(&rank.hello.pid).filter(|known| known.to == to);
        match known {
            Some(known) => known.growth,
            None => baseline_growth(&rank.steps, card),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::tests::staged::{StagedSession, gib, step};

    /// A training that keeps a quarter of a GiB in each of its steps.
    fn leaking(steps: u64) -> StagedSession {
        let mut scene = StagedSession::training();
        scene.sampled(1.5, 1.0, 1.5);
        (1..=steps).for_each(|n| took_step(&mut scene, n));
        scene
    }

    fn took_step(scene: &mut StagedSession, n: u64) {
        let floor = 1.0 + 0.25 * n as f64;
        let at = 2.0 + n as f64;
        scene.add(at, step(100, n, gib(floor), gib(floor + 2.0)));
    }

    #[test]
    fn what_is_kept_is_what_a_fit_finds() {
        let mut scene = leaking(1);
        let mut fitted = FittedGrowth::default();
        let mut found = 0;
        for n in 2..=40 {
            took_step(&mut scene, n);
            fitted.follow(&scene.state);
            let (rank, card) = (
                &scene.state.runs[0].ranks[0],
                scene.state.devices[0].capacity,
            );
            let fresh = baseline_growth(&rank.steps, card);
            assert_eq!(fitted.growth(rank, card), fresh, "step {n}");
            found += usize::from(fresh.is_some());
        }
        assert!(found > 20, "{found}");
    }

    #[test]
    fn a_fit_is_used_until_there_is_a_new_baseline_or_another_card() {
        let mut scene = leaking(30);
        let card = scene.state.devices[0].capacity;
        let mut fitted = FittedGrowth::new(&scene.state);
        // Put in its place to see which is answered.
        let marked = |growth: BaselineGrowth| BaselineGrowth {
            per_step: 7.0,
            ..growth
        };
        let kept = fitted.of.get_mut(&Pid(100)).expect("a process");
        kept.growth = kept.growth.map(marked);
        let per_step = |fitted: &FittedGrowth, scene: &StagedSession, card| {
            let rank = &scene.state.runs[0].ranks[0];
            Some(fitted.growth(rank, card)?.per_step)
        };
        assert_eq!(per_step(&fitted, &scene, card), Some(7.0));
        fitted.follow(&scene.state);
        assert_eq!(per_step(&fitted, &scene, card), Some(7.0), "not again");
        let a_quarter = Some(gib(0.25).0 as f64);
        assert_eq!(per_step(&fitted, &scene, Some(gib(80.0))), a_quarter);
        scene.sampled(33.0, 1.0, 12.0);
        assert_eq!(per_step(&fitted, &scene, card), Some(7.0), "no step");
        took_step(&mut scene, 31);
        assert_eq!(per_step(&fitted, &scene, card), a_quarter, "unasked");
        fitted.follow(&scene.state);
        assert_eq!(per_step(&fitted, &scene, card), a_quarter);
    }
}
