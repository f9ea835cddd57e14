//! The traced steps of one process that are worth keeping.

use crate::event::StepTrace;

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
