//! The training's memory outside PyTorch's allocator on a device: context, libraries, NCCL.
//!
//! It is NVML's figure minus reserved memory. Both are measured at different times, and a training
//! that starts may reserve most of a GPU between them. So a reading counts as exact only if
//! reserved memory was the same before and after it; otherwise the last exact figures are kept,
//! since the value hardly changes.

use super::bounded::push_bounded;
use crate::calibration::LARGE_SEGMENT;
use crate::units::{Bytes, Moment};

/// Exact readings kept; their median is the estimate. They are of less than a second, so that a
/// library loaded later is soon counted, but a single wrong reading is not.
const EXACT: usize = 7;

/// Bounds kept, for use while there is no exact reading.
const BOUNDS: usize = 16;

/// Samples around an exact reading may differ by one segment, which is far less than a context.
const STILL: Bytes = LARGE_SEGMENT;

#[derive(Debug, Clone, Default)]
pub(super) struct NonTorch {
    /// Oldest first.
    exact: Vec<Bytes>,
    /// Upper bounds, oldest first.
    bounds: Vec<Bytes>,
    /// The latest reading, until every process was sampled after it.
    open: Option<PendingReading>,
}

/// A reading of NVML between two samples.
#[derive(Debug, Clone, Copy)]
struct PendingReading {
    at: Moment,
    /// The training's memory, with PyTorch's.
    ours: Bytes,
    /// Reserved by the samples before it.
    before: Bytes,
}

impl NonTorch {
    /// Takes a reading of the training's memory, and what was reserved before it.
    pub(super) fn read(&mut self, at: Moment, ours: Bytes, before: Bytes) {
        self.open = Some(PendingReading { at, ours, before });
        push_bounded(&mut self.bounds, ours - before, BOUNDS);
    }

    /// Takes the reserved memory; `heard` is the oldest of the processes' latest samples.
    pub(super) fn sampled(&mut self, heard: Moment, reserved: Bytes) {
        let Some(reading) = self.open.filter(|reading| heard >= reading.at) else {
            return;
        };
        self.open = None;
        let (least, most) = (reading.before.min(reserved), reading.before.max(reserved));
        if most - least <= STILL && reading.ours >= most {
            push_bounded(&mut self.exact, reading.ours - most, EXACT);
        } else if let Some(bound) = self.bounds.last_mut() {
            // The cache may have been released before NVML was read.
            *bound = (*bound).max(reading.ours - least);
        }
    }

    /// The best estimate; `None` before any reading.
    pub(super) fn estimate(&self) -> Option<Bytes> {
        let mut exact = self.exact.clone();
        exact.sort_unstable();
        let median = exact.get(exact.len() / 2).copied();
        median.or_else(|| self.bounds.iter().min().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds readings (`Err`: what the training holds) and samples (`Ok`: what is reserved) in
    /// order, in MiB, and says what is known in the end.
    fn after(events: &[Result<u64, u64>]) -> Option<u64> {
        let mut outside = NonTorch::default();
        let mut reserved = Bytes::ZERO;
        for (at, event) in (0u64..).zip(events) {
            let at = Moment(at * 50_000);
            match event {
                Ok(mib) => {
                    reserved = Bytes::mib(*mib);
                    outside.sampled(at, reserved);
                }
                Err(mib) => outside.read(at, Bytes::mib(*mib), reserved),
            }
        }
        outside.estimate().map(|bytes| bytes.0 >> 20)
    }

    #[test]
    fn a_reading_between_two_equal_samples_is_exact() {
        assert_eq!(after(&[]), None);
        assert_eq!(after(&[Ok(5_000)]), None);
        assert_eq!(after(&[Ok(5_000), Err(5_518), Ok(5_000)]), Some(518));
        assert_eq!(after(&[Ok(5_000), Err(5_538), Ok(5_020)]), Some(518));
    }

    #[test]
    fn a_jump_before_or_after_a_reading_moves_nothing() {
        let still = [Ok(5_000), Err(5_518), Ok(5_000)];
        // Reserved has jumped when NVML is read, and the sample comes later; then the reverse.
        let late = [Err(90_518), Ok(90_000)];
        let early = [Ok(120_000), Err(90_518), Ok(120_000)];
        assert_eq!(after(&[still.to_vec(), late.to_vec()].concat()), Some(518));
        assert_eq!(
            after(&[still.to_vec(), late[..1].to_vec()].concat()),
            Some(518)
        );
        assert_eq!(after(&[still.to_vec(), early.to_vec()].concat()), Some(518));
    }

    #[test]
    fn while_nothing_is_still_the_least_bound_holds() {
        let growing = [
            Ok(1_000),
            Err(9_518),
            Ok(12_000),
            Err(13_518),
            Ok(30_000),
            Err(60_518),
        ];
        assert_eq!(after(&growing), Some(1_518));
        // What was given back before NVML was read makes no bound of nothing.
        assert_eq!(after(&[Ok(30_000), Err(5_518), Ok(4_000)]), Some(1_518));
    }

    #[test]
    fn what_comes_later_is_counted_soon() {
        let mut events = vec![Ok(5_000)];
        for outside in [518, 518, 518, 518, 740, 740, 740, 740] {
            events.extend([Err(5_000 + outside), Ok(5_000)]);
        }
        assert_eq!(after(&events), Some(740));
    }
}
