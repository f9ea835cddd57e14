//! Optimizer steps: the latest, for the diagnosis to compare (baseline, peak, end, retries), and the traced ones worth keeping.

use crate::event::{Step, StepTrace};
use crate::state::indexed::push_bounded;
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

/// The first traced step, the largest, the latest, and the one that ran out of memory.
#[derive(Debug, Clone, Default)]
pub struct StepTraces {
    first: Option<StepTrace>,
    /// Only one that is larger than the first and the latest.
    largest: Option<StepTrace>,
    latest: Option<StepTrace>,
    failed: Option<StepTrace>,
}

impl StepTraces {
    pub(crate) fn keep(&mut self, trace: &StepTrace) {
        let trace = Some(trace.clone());
        match &trace {
            Some(failed) if failed.failed => self.failed = trace,
            _ if self.first.is_none() => self.first = trace,
            _ => {
                let before = std::mem::replace(&mut self.latest, trace);
                let ends = [&self.first, &self.latest];
                let most = ends.into_iter().flatten().map(StepTrace::peak).max();
                let candidates = [self.largest.take(), before].into_iter().flatten();
                self.largest = candidates
                    .filter(|trace| Some(trace.peak()) > most)
                    .max_by_key(StepTrace::peak);
            }
        }
    }

    /// By the order of their steps.
    pub fn all(&self) -> impl DoubleEndedIterator<Item = &StepTrace> {
        [&self.first, &self.largest, &self.latest, &self.failed]
            .into_iter()
            .flatten()
    }

    pub fn first(&self) -> Option<&StepTrace> {
        self.first.as_ref()
    }

    /// The one at whose peak the most was allocated.
    pub fn largest(&self) -> Option<&StepTrace> {
        self.all().max_by_key(|trace| trace.peak())
    }

    /// The one that ran out of memory.
    pub fn failed(&self) -> Option<&StepTrace> {
        self.failed.as_ref()
    }

    /// The latest of them.
    pub fn last(&self) -> Option<&StepTrace> {
        self.all().next_back()
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

    #[test]
    fn the_first_the_largest_and_the_latest_stay() {
        let mut traces = StepTraces::default();
        let kept = |traces: &StepTraces| traces.all().map(|t| t.step).collect::<Vec<u64>>();
        let steps = [(3, 50), (6, 40), (12, 70), (24, 60), (48, 65), (96, 90)];
        let after = [
            vec![3],
            vec![3, 6],
            vec![3, 12],
            vec![3, 12, 24],
            vec![3, 12, 48],
            vec![3, 96],
        ];
        for ((step, bytes), after) in steps.into_iter().zip(after) {
            traces.keep(&StepTrace {
                step,
                trace: format!("| {bytes}"),
                ..StepTrace::default()
            });
            assert_eq!(kept(&traces), after);
        }
        assert_eq!(traces.largest().map(|trace| trace.step), Some(96));
        traces.keep(&StepTrace {
            step: 97,
            failed: true,
            trace: "| 95".into(),
            ..StepTrace::default()
        });
        assert_eq!(kept(&traces), [3, 96, 97]);
        assert_eq!(traces.largest().map(|trace| trace.step), Some(97));
        assert_eq!(traces.first().map(|trace| trace.step), Some(3));
    }
}
