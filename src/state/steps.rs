//! Optimizer steps: the latest, for the diagnosis to compare (baseline, peak, end, retries), and the traced ones worth keeping.

use crate::event::{BackwardReading, Step, StepLevels, StepTrace};
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
    /// What was read where the backward passes of this step, or of one shortly before it, began.
    pub backward: Option<BackwardReading>,
    /// How far that step went, by a traced one of the same input sizes.
    pub reached: Option<Bytes>,
}

impl StepMark {
    /// The most allocated in the step, and whether that is known or a lower bound.
    pub fn top(&self) -> (Bytes, bool) {
        let most = self
            .reached
            .map_or(self.peak, |reached| reached.max(self.peak));
        (most, self.is_exact || self.reached.is_some())
    }
}

/// Two steps had input sizes of the same kind where what they had made when their backward began differs by less than
/// this share: what is asked of the allocator and what it gives differ by as much.
const SAME_SIZES: f64 = 0.04;

/// The traced steps whose levels are kept.
const LEVELS: usize = 16;

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
    /// How far traced steps went, the latest last; bounded.
    traced: Vec<StepLevels>,
}

impl StepMarks {
    /// Takes a traced step that got through.
    pub(super) fn traced(&mut self, step: &StepTrace) {
        let levels = step.levels();
        if step.failed || levels.at_backward.is_none() {
            return;
        }
        push_bounded(&mut self.traced, levels, LEVELS);
        let mut marks = std::mem::take(&mut self.ended);
        for mark in marks.iter_mut().filter(|mark| mark.reached.is_none()) {
            mark.reached = mark.backward.and_then(|read| self.reached(read));
        }
        self.ended = marks;
    }

    /// How far a step went of which this was read, by the latest traced one that had made as much by then.
    fn reached(&self, read: BackwardReading) -> Option<Bytes> {
        let made = (read.allocated - read.before).0 as f64;
        let like = self.traced.iter().rev().find_map(|levels| {
            let at = levels.at_backward?;
            let of_traced = (at - levels.before).0 as f64;
            let is_like = (made - of_traced).abs() <= SAME_SIZES * of_traced;
            is_like.then(|| levels.peak - at)
        })?;
        // PyTorch's own is that of all steps.
        Some((read.allocated + like).min(self.peak))
    }

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
            backward: step.backward,
            reached: None,
        };
        self.peak = peak;
        let mark = StepMark {
            reached: step.backward.and_then(|read| self.reached(read)),
            ..mark
        };
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
    use crate::event::{Phase, PhaseStart, StepReading};

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
            backward: None,
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
    fn a_step_like_a_traced_one_went_as_far_above_its_backward() {
        let traced = |mib: u64| StepTrace {
            // Carried, made in forward, made in backward; in bytes of a MiB.
            trace: format!("{} | {} {} -1 -2", 10 << 20, mib << 20, 20 << 20),
            phases: vec![
                PhaseStart {
                    phase: Phase::Forward,
                    from: 0,
                },
                PhaseStart {
                    phase: Phase::Backward,
                    from: 1,
                },
            ],
            ..StepTrace::default()
        };
        let levels = traced(60).levels();
        assert_eq!(levels.before, Bytes::mib(10));
        assert_eq!(levels.at_backward, Some(Bytes::mib(70)));
        assert_eq!(levels.peak, Bytes::mib(90));
        let mut marks = StepMarks::default();
        let at = Moment::from_secs_f64;
        marks.ended(at(1.0), &step(1, 10, 95), KEPT);
        let read = |count: u64, before: u64, allocated: u64| Step {
            backward: Some(BackwardReading {
                step: count,
                before: Bytes::mib(before),
                allocated: Bytes::mib(allocated),
            }),
            ..step(count, 10, 95)
        };
        // Before any was traced there is only what was seen.
        marks.ended(at(2.0), &read(2, 10, 70), KEPT);
        assert_eq!(marks.ended[1].top(), (Bytes::mib(10), false));
        marks.traced(&traced(60));
        assert_eq!(marks.ended[1].top(), (Bytes::mib(90), true), "seen later");
        // One that began with more, one of other sizes, and one that went no further than PyTorch says.
        marks.ended(at(3.0), &read(3, 12, 72), KEPT);
        marks.ended(at(4.0), &read(4, 10, 40), KEPT);
        marks.ended(at(5.0), &read(5, 22, 82), KEPT);
        let tops: Vec<_> = marks.ended[2..].iter().map(StepMark::top).collect();
        let expected = [(92, true), (10, false), (95, true)];
        assert_eq!(tops, expected.map(|(mib, known)| (Bytes::mib(mib), known)));
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
