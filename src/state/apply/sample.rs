//! Samples of the allocator: the usage of each process on each device, and its peaks.

use crate::event::Sample;
use crate::state::bounded::push_bounded;
use crate::state::rank::DeviceUsage;
use crate::state::{RankState, State};
use crate::units::{Bytes, Moment};

/// Retries kept with their time.
const RETRIES: usize = 32;

impl State {
    /// Takes a sample, and before it a peak that was reached since the last one: the allocator
    /// knows peaks that sampling at 10 Hz misses.
    pub(super) fn sampled(&mut self, at: Moment, sample: &Sample) {
        self.mark_peak_passed(at, sample);
        self.take_sample(at, sample);
    }

    fn mark_peak_passed(&mut self, at: Moment, sample: &Sample) {
        let Some(uuid) = self.device_of(sample.pid, sample.device) else {
            return;
        };
        let Some(rank) = self.rank_mut(sample.pid) else {
            return;
        };
        let Some(held) = rank.usage_on(&uuid) else {
            return;
        };
        let (before, peak) = (held.at, sample.allocated_peak);
        let (allocated, reserved) = (held.sample.allocated, held.sample.reserved);
        let is_new = peak > held.sample.allocated_peak && peak > allocated.max(sample.allocated);
        if !is_new || before >= at || rank.disconnected.is_some() {
            return;
        }
        let between = before + at.since(before) / 2;
        let most_reserved = sample.reserved.max(reserved).max(peak);
        if rank.device.as_ref() == Some(&uuid) {
            rank.allocated.push(between, peak);
        }
        let Some(device) = self.devices.with_mut(&uuid) else {
            return;
        };
        // The other processes are as in their latest samples.
        if let Some((_, all)) = device.allocated.last() {
            device.allocated.push(between, all - allocated + peak);
        }
        if let Some((_, all)) = device.reserved.last() {
            device
                .reserved
                .push(between, all - reserved + most_reserved);
        }
    }

    fn take_sample(&mut self, at: Moment, sample: &Sample) {
        let Some(uuid) = self.device_of(sample.pid, sample.device) else {
            return;
        };
        if let Some(device) = self.devices.with_mut(&uuid)
            && !device.holders.contains(&sample.pid)
        {
            device.holders.push(sample.pid);
        }
        let Some(rank) = self.rank_mut(sample.pid) else {
            return;
        };
        rank.take_peaks(sample.allocated_peak.max(sample.allocated));
        rank.take_retries(at, sample);
        rank.reserved_peak = rank
            .reserved_peak
            .max(sample.reserved_peak)
            .max(sample.reserved);
        if rank.steps.count > 0 {
            rank.inactive_split_peak = rank.inactive_split_peak.max(sample.inactive_split);
            if sample.alloc_retries == 0 {
                rank.peaks_before_retry = Some((rank.allocated_peak, rank.reserved_peak));
            }
        }
        let holding = DeviceUsage {
            device: uuid.clone(),
            at,
            sample: sample.clone(),
        };
        match rank.usages.iter_mut().find(|held| held.device == uuid) {
            Some(held) if held.at > at => return,
            Some(held) => *held = holding,
            None => rank.usages.push(holding),
        }
        rank.choose_device();
        if rank.disconnected.is_some() {
            // A late sample of a process that has ended.
            return;
        }
        if rank.device.as_ref() == Some(&uuid) {
            rank.allocated.push(at, sample.allocated);
            rank.steps
                .marks
                .sampled(sample.allocated, sample.alloc_retries);
        }
        self.sum_up(at, &uuid);
    }
}

impl RankState {
    /// Takes a peak of the current step.
    pub(super) fn take_peaks(&mut self, peak: Bytes) {
        if peak > self.allocated_peak {
            self.allocated_peak = peak;
            self.peak_step = (self.steps.count > 0).then(|| self.steps.count + 1);
        }
    }

    /// Keeps when retries happened. Each device has its own count.
    fn take_retries(&mut self, at: Moment, sample: &Sample) {
        let before = self.usages.iter().map(|held| &held.sample);
        let before = before.filter(|held| held.device == sample.device);
        let before = before.map(|held| held.alloc_retries).next().unwrap_or(0);
        if sample.alloc_retries > before {
            let all = self.retries.last().map_or(0, |(_, count)| *count);
            let more = sample.alloc_retries - before;
            push_bounded(&mut self.retries, (at, all + more), RETRIES);
        }
    }
}
