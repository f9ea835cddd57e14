//! The traced steps of one process that are worth keeping.

use crate::event::StepTrace;

/// The first traced step, the latest, and the one that ran out of memory.
#[derive(Debug, Clone, Default)]
pub struct StepTraces {
    first: Option<StepTrace>,
    latest: Option<StepTrace>,
    failed: Option<StepTrace>,
}

impl StepTraces {
    pub(super) fn keep(&mut self, trace: &StepTrace) {
        let place = if trace.failed {
            &mut self.failed
        } else if self.first.is_none() {
            &mut self.first
        } else {
            &mut self.latest
        };
        *place = Some(trace.clone());
    }

    /// By the order of their steps.
    pub fn all(&self) -> impl DoubleEndedIterator<Item = &StepTrace> {
        [&self.first, &self.latest, &self.failed]
            .into_iter()
            .flatten()
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
