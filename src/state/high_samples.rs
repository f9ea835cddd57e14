//! The highest samples of a process's last seconds: what is known of its allocator at the peak that counts as current.

use crate::event::Sample;
use crate::units::Moment;
use std::collections::VecDeque;
use std::time::Duration;

/// How long a peak counts as current.
const RECENT: Duration = Duration::from_secs(5);

/// Samples kept of them at most: ten a second.
const SAMPLES: usize = 64;

/// From when on something counts as current at `at`.
pub(super) fn recent(at: Moment) -> Moment {
    Moment(at.0.saturating_sub(RECENT.as_micros() as u64))
}

/// The samples of the last seconds that no later one exceeds, the highest first.
#[derive(Debug, Clone, Default)]
pub struct HighSamples(VecDeque<(Moment, Sample)>);

impl HighSamples {
    pub(super) fn highest(&self) -> Option<&(Moment, Sample)> {
        self.0.front()
    }

    /// After the last one: alone it is the process's latest sample, which is kept anyway.
    pub(super) fn ended(&mut self) {
        if self.0.len() == 1 {
            self.0 = VecDeque::new();
        }
    }

    pub(super) fn push(&mut self, at: Moment, sample: &Sample) {
        let kept = &mut self.0;
        let high = |sample: &Sample| (sample.reserved, sample.allocated);
        while kept
            .back()
            .is_some_and(|(_, last)| high(last) <= high(sample))
        {
            kept.pop_back();
        }
        let from = recent(at);
        while kept.front().is_some_and(|(first, _)| *first < from) || kept.len() >= SAMPLES {
            kept.pop_front();
        }
        kept.push_back((at, sample.clone()));
    }
}
