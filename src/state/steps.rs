//! The latest optimizer steps, for the diagnosis to compare: baseline, peak, end, retries.
//!
//! PyTorch's peak is never reset, so the peak of a step is known only if it is a new maximum of the
//! run. Of other steps only the largest sample is known, which is a lower bound.

use super::bounded::push_bounded;
use crate::event::Step;
use crate::units::{Bytes, Moment};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepMark {
    /// The number of ended steps, this one included.
    pub count: u64,
    /// When it ended.
    pub at: Moment,
    /// Allocated after it.
    pub baseline: Bytes,
    /// The most allocated in it (and in earlier steps that were not seen singly).
    pub peak: Bytes,
    /// Whether `peak` is exact, or a lower bound.
    pub is_exact: bool,
    /// Retries of cudaMalloc in the run so far.
    pub retries: u64,
}

/// The latest steps, and what was seen of the current one.
#[derive(Debug, Clone, Default)]
pub struct StepMarks {
    /// Oldest first; bounded.
    pub ended: Vec<StepMark>,
    /// The largest sample of the current step.
    seen: Bytes,
    /// Retries by the latest sample.
    retries: u64,
    /// PyTorch's peak at the end of the latest step.
    peak: Bytes,
}

impl StepMarks {
    /// Takes a sample of the device that the process uses most.
    pub(super) fn sampled(&mut self, allocated: Bytes, retries: u64) {
        self.seen = self.seen.max(allocated);
        self.retries = self.retries.max(retries);
    }

    /// Takes a step that has ended; `kept` of them are kept.
    pub(super) fn ended(&mut self, at: Moment, step: &Step, kept: usize) {
        let peak = step.before.peak.max(step.after.peak);
        let seen = self
            .seen
            .max(step.before.allocated)
            .max(step.after.allocated);
        // A new maximum is of this step. A peak that fell was reset by the program, and is the peak
        // since then.
        let rose = peak > self.peak;
        let was_reset = peak < self.peak;
        let mark = StepMark {
            count: step.count,
            at,
            baseline: step.after.allocated,
            peak: if rose || was_reset {
                peak.max(seen)
            } else {
                seen
            },
            is_exact: rose || (was_reset && peak >= seen),
            retries: self.retries,
        };
        self.peak = peak;
        self.seen = Bytes::ZERO;
        push_bounded(&mut self.ended, mark, kept);
    }

    /// Retries of cudaMalloc by the latest sample.
    pub fn retries(&self) -> u64 {
        self.retries
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::StepReading;

    const KEPT: usize = 8;

    fn step(count: u64, baseline: u64, peak: u64) -> Step {
        let reading = StepReading {
            allocated: Bytes::mib(baseline),
            reserved: Bytes::mib(peak),
            peak: Bytes::mib(peak),
        };
        Step {
            count,
            before: reading,
            after: reading,
            pid: Default::default(),
            device: 0,
            figures_of: None,
            micros: 1,
        }
    }

    #[test]
    fn a_step_below_the_maximum_has_only_a_bound() {
        let mut marks = StepMarks::default();
        let at = Moment::from_secs_f64;
        marks.ended(at(1.0), &step(1, 10, 90), KEPT);
        marks.sampled(Bytes::mib(70), 2);
        marks.ended(at(2.0), &step(2, 10, 90), KEPT);
        marks.ended(at(3.0), &step(3, 10, 95), KEPT);
        // The program reset the peak.
        marks.ended(at(4.0), &step(4, 10, 60), KEPT);
        let said: Vec<_> = marks
            .ended
            .iter()
            .map(|mark| (mark.peak, mark.is_exact, mark.retries))
            .collect();
        assert_eq!(
            said,
            [
                (Bytes::mib(90), true, 0),
                (Bytes::mib(70), false, 2),
                (Bytes::mib(95), true, 2),
                (Bytes::mib(60), true, 2),
            ]
        );
    }

    #[test]
    fn marks_are_bounded() {
        let mut marks = StepMarks::default();
        for n in 1..2_000 {
            marks.ended(Moment::from_secs_f64(n as f64), &step(n, 1, n), KEPT);
        }
        assert_eq!(marks.ended.len(), KEPT);
        assert_eq!(marks.ended.last().map(|mark| mark.count), Some(1_999));
    }
}
