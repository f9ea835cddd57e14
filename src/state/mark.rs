//! What each of the latest optimizer steps was like: its baseline, what it reached, how long it took,
//! and how often the allocator had to try again. The diagnosis compares steps with these.
//!
//! PyTorch's peak is one of the whole run and is never reset, so a step that stays below the run's
//! maximum shows no peak of its own: of it only the largest sample is known, and that is a lower
//! bound and is marked as one.

use super::bounded::push_bounded;
use crate::event::Step;
use crate::units::{Bytes, Moment};

/// One ended step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepMark {
    /// How many steps had ended with it.
    pub count: u64,
    /// When it ended.
    pub at: Moment,
    /// Allocated after it.
    pub baseline: Bytes,
    /// The most that was allocated in it (and in those before it that were not read singly).
    pub peak: Bytes,
    /// Whether `peak` is exact; otherwise more may have been allocated between two samples.
    pub is_exact: bool,
    /// How often cudaMalloc had failed and been tried again, over the run so far.
    pub retries: u64,
}

/// The latest steps, and what was seen of the one that goes on.
#[derive(Debug, Clone, Default)]
pub struct StepMarks {
    /// The latest ended steps, oldest first; bounded.
    pub ended: Vec<StepMark>,
    /// The largest sample since the last of them ended.
    seen: Bytes,
    /// The retries as of the latest sample.
    retries: u64,
    /// PyTorch's peak at the end of the latest step.
    peak: Bytes,
}

/// StepMarks kept: as many as baselines are.
const KEPT: usize = 512;

impl StepMarks {
    /// A sample of the device that the process uses most.
    pub(super) fn sampled(&mut self, allocated: Bytes, retries: u64) {
        self.seen = self.seen.max(allocated);
        self.retries = self.retries.max(retries);
    }

    /// A step ended.
    pub(super) fn ended(&mut self, at: Moment, step: &Step) {
        let peak = step.before.peak.max(step.after.peak);
        let seen = self
            .seen
            .max(step.before.allocated)
            .max(step.after.allocated);
        // A new maximum was reached in this step. One that fell was reset by the program and says
        // what was reached since.
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
        push_bounded(&mut self.ended, mark, KEPT);
    }

    /// How often cudaMalloc failed and was tried again, as of the latest sample.
    pub fn retries(&self) -> u64 {
        self.retries
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::StepReading;

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
            micros: 1,
        }
    }

    #[test]
    fn a_step_below_the_maximum_has_only_a_bound() {
        let mut marks = StepMarks::default();
        let at = Moment::from_secs_f64;
        marks.ended(at(1.0), &step(1, 10, 90));
        marks.sampled(Bytes::mib(70), 2);
        marks.ended(at(2.0), &step(2, 10, 90));
        marks.ended(at(3.0), &step(3, 10, 95));
        // The program reset the peak.
        marks.ended(at(4.0), &step(4, 10, 60));
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
            marks.ended(Moment::from_secs_f64(n as f64), &step(n, 1, n));
        }
        assert_eq!(marks.ended.len(), KEPT);
        assert_eq!(marks.ended.last().map(|mark| mark.count), Some(1_999));
    }
}
