//! Optimizer steps: peaks, baselines, and steps per second.

use super::rank::is_one_of_many;
use crate::event::Step;
use crate::state::bounded::push_bounded;
use crate::state::{RankState, State, StepTrack};
use crate::units::Moment;

/// Steps kept for the rate.
const RECENT: usize = 33;

/// Steps kept one by one: enough to see growth of a few thousandths of the GPU per step; and of each of
/// very many ranks.
const KEPT: usize = 512;
const KEPT_OF_MANY: usize = 256;

impl State {
    pub(super) fn stepped(&mut self, at: Moment, step: &Step) {
        let Some(run) = self.run_of_mut(step.pid) else {
            return;
        };
        run.survived(step.pid, at);
        if let Some(rank) = run.rank_mut(step.pid) {
            rank.take_peaks(step.before.peak.max(step.before.allocated));
            let reserved = step.before.reserved.max(step.after.reserved);
            rank.reserved_peak = rank.reserved_peak.max(reserved);
            if step.count == 1 {
                // Peaks before the first step ended belong to it.
                rank.peak_step.get_or_insert(1);
            }
            let kept = match is_one_of_many(&rank.hello) {
                true => KEPT_OF_MANY,
                false => KEPT,
            };
            rank.steps.ended(at, step, kept);
            rank.take_peaks_of(step);
        }
    }
}

impl RankState {
    /// Takes the peak of `step()` itself, which has ended.
    fn take_peaks_of(&mut self, step: &Step) {
        let peak = step.after.peak.max(step.after.allocated);
        if peak > self.allocated_peak {
            self.allocated_peak = peak;
            self.peak_step = Some(step.count);
        }
    }
}

impl StepTrack {
    fn ended(&mut self, at: Moment, step: &Step, kept: usize) {
        self.count = self.count.max(step.count);
        if step.figures_of.is_some() {
            // The step that they are of has been counted with them.
            return self.passed(at, step);
        }
        if step.count == 1 {
            self.first_step.get_or_insert_with(|| step.clone());
        }
        let (before, after) = (step.before, step.after);
        if self.peak < Some(before.peak.max(before.allocated)) {
            self.passes_peak = Some(before.peak.max(before.allocated));
        }
        if after.peak > before.peak.max(before.allocated) && self.peak < Some(after.peak) {
            self.optimizer_peak = Some(after.peak);
        }
        for reading in [step.before, step.after] {
            self.peak = self.peak.max(Some(reading.peak.max(reading.allocated)));
        }
        if self.last.as_ref().is_some_and(|(last, _)| at < *last) {
            return;
        }
        push_bounded(
            &mut self.baselines,
            (step.count, step.after.allocated),
            kept,
        );
        self.marks.ended(at, step, kept);
        self.passed(at, step);
    }

    /// Takes the time at which a step ended.
    fn passed(&mut self, at: Moment, step: &Step) {
        if self.last.as_ref().is_some_and(|(last, _)| at < *last) {
            return;
        }
        self.first.get_or_insert(at);
        self.last = Some((at, step.clone()));
        push_bounded(&mut self.recent, (at, step.count), RECENT);
        let mut gaps: Vec<f64> = self
            .recent
            .windows(2)
            .map(|pair| {
                let ((before, first), (after, last)) = (pair[0], pair[1]);
                // Not every step is told: of short ones, and of those on other nodes, some.
                after.since(before).as_secs_f64() / last.saturating_sub(first).max(1) as f64
            })
            .collect();
        gaps.sort_by(f64::total_cmp);
        self.rate = gaps
            .get(gaps.len() / 2)
            .filter(|gap| **gap > 0.0)
            .map(|gap| 1.0 / gap);
    }
}
