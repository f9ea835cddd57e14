//! What is measured, folded into the state: the training's processes and their devices, samples of the allocator, optimizer
//! steps, and NVML's readings.

use crate::event::{
    DeviceReading, Hello, Level, NvmlState, ProbeDevice, ProbeGone, Sample, Step, Structure,
};
use crate::state::device::NonTorch;
use crate::state::high_samples::HighSamples;
use crate::state::indexed::push_bounded;
use crate::state::rank::DeviceUsage;
use crate::state::{DeviceState, RankState, Resolution, Run, State, StepTrack};
use crate::units::{Bytes, Moment, Pid, RunNumber, Uuid};

/// Processes kept of a run: more than a host has ranks, for launchers that restart them; of a job with
/// more ranks twice its number, up to a bound.
const RANKS: usize = 256;

const RANKS_OF_A_JOB: usize = 1_024;

/// Of a job with more ranks than this less is kept of each.
const MANY: u32 = 64;

/// Devices kept: more than a host has, since a hello may list anything; more of other nodes.
const DEVICES: usize = 256;

const DEVICES_OF_A_JOB: usize = 1_024;

/// Whether less is to be kept of each rank of its training.
fn is_one_of_many(hello: &Hello) -> bool {
    hello.world_size > Some(MANY)
}

impl State {
    pub(super) fn hello(&mut self, at: Moment, hello: &Hello) {
        let next = self.runs.last().map(|run| run.number.next());
        let known = self.runs.iter().any(|run| run.number == hello.run);
        if !known && next.is_some_and(|next| next != hello.run) {
            // Of a run that never started: its environment is from an earlier session.
            return;
        }
        let (most_ranks, most_devices) = bounds(hello);
        for device in &hello.devices {
            let uuid = self.uuid_of(device);
            if self.devices.len() >= most_devices && self.device(&uuid).is_none() {
                continue;
            }
            let known = self.device_or_new(&uuid, &device.name, device.ordinal);
            known.capacity = known.capacity.or(Some(device.total));
            if !hello.pid.is_here() && known.node.is_none() {
                known.node = hello.node.clone();
                if is_one_of_many(hello) {
                    known.keep_little();
                }
            }
        }
        let run = self.run_or_new(at, hello.run);
        match run.rank_mut(hello.pid) {
            // The same process has connected again.
            Some(rank) => {
                rank.hello = hello.clone();
                rank.disconnected = None;
                rank.said_end = false;
            }
            None => {
                if run.ranks.len() >= most_ranks
                    && let Some(oldest) = run
                        .ranks
                        .iter()
                        .position(|rank| rank.disconnected.is_some())
                {
                    run.ranks.remove(oldest);
                }
                if run.ranks.len() < most_ranks {
                    let resolution = match is_one_of_many(hello) {
                        true => Resolution::Small,
                        false => Resolution::Spark,
                    };
                    run.ranks
                        .push(RankState::new(hello.clone(), at, resolution));
                }
            }
        }
    }

    pub(super) fn structure_read(&mut self, structure: &Structure) {
        let Some(rank) = self.rank_mut(structure.pid) else {
            return;
        };
        // Not a device of its hello.
        if rank.device_with(structure.device).is_none() {
            return;
        }
        match rank
            .structures
            .iter_mut()
            .find(|known| known.device == structure.device)
        {
            Some(known) => *known = *structure,
            None => rank.structures.push(*structure),
        }
        rank.choose_structure();
    }

    pub(super) fn probe_gone(&mut self, at: Moment, gone: &ProbeGone) {
        let Some(run) = self.run_of(gone.pid).map(|run| run.number) else {
            return;
        };
        self.rank_ended(at, run, gone.pid);
        if let Some(rank) = self.rank_mut(gone.pid) {
            rank.said_end |= gone.said_end;
            if gone.said_end {
                rank.disconnected = Some(at);
            }
        }
        if let Some(reason) = &gone.reason {
            self.note(
                at,
                Level::Warning,
                format!("the probe in process {} has gone: {reason}", gone.pid),
            );
        }
    }

    /// From now on nothing is known of a process.
    pub(super) fn rank_ended(&mut self, at: Moment, run: RunNumber, pid: Pid) {
        let Some(rank) = self
            .runs
            .iter_mut()
            .find(|candidate| candidate.number == run)
            .and_then(|run| run.rank_mut(pid))
            .filter(|rank| rank.disconnected.is_none())
        else {
            return;
        };
        rank.disconnected = Some(at);
        rank.recent_samples.ended();
        rank.allocated.gap(at);
        let devices: Vec<Uuid> = rank.usages.iter().map(|held| held.device.clone()).collect();
        for device in devices {
            self.sum_up(at, &device);
        }
    }

    /// The latest run with this process: ids are reused.
    fn run_of(&self, pid: Pid) -> Option<&Run> {
        self.runs.iter().rfind(|run| run.rank_with(pid).is_some())
    }

    pub(super) fn run_of_mut(&mut self, pid: Pid) -> Option<&mut Run> {
        (self.runs.iter_mut()).rfind(|run| run.rank_with(pid).is_some())
    }

    pub(super) fn rank_mut(&mut self, pid: Pid) -> Option<&mut RankState> {
        self.run_of_mut(pid)?.rank_mut(pid)
    }

    /// The device that a process counts by this ordinal.
    pub(super) fn device_of(&self, pid: Pid, ordinal: u32) -> Option<Uuid> {
        let device = self.run_of(pid)?.rank_with(pid)?.device_with(ordinal)?;
        Some(self.uuid_of(device))
    }

    /// A device's UUID. Old versions of torch do not tell it: then it is NVML's only device of that
    /// name, or else a device known only by the ordinal, which is not joined to NVML's because
    /// `CUDA_VISIBLE_DEVICES` reorders ordinals.
    fn uuid_of(&self, device: &ProbeDevice) -> Uuid {
        if let Some(uuid) = &device.uuid {
            return uuid.clone();
        }
        let of_that_name =
            |known: &&DeviceState| known.name == device.name && known.reading.is_some();
        let mut candidates = self.devices.iter().filter(of_that_name);
        match (candidates.next(), candidates.next()) {
            (Some(only), None) => only.uuid.clone(),
            (None, _) | (Some(_), Some(_)) => Uuid::new(&format!("cuda:{}", device.ordinal)),
        }
    }
}

/// The ranks and devices that are kept.
fn bounds(hello: &Hello) -> (usize, usize) {
    let world = hello.world_size.map_or(0, |world| world as usize);
    let devices = match hello.pid.is_here() {
        true => DEVICES,
        false => DEVICES_OF_A_JOB,
    };
    (
        world.saturating_mul(2).clamp(RANKS, RANKS_OF_A_JOB),
        devices,
    )
}

impl RankState {
    fn choose_device(&mut self) {
        let most = self
            .usages
            .iter()
            .max_by_key(|held| {
                let current = self.device.as_ref() == Some(&held.device);
                (held.sample.reserved, current)
            })
            .map(|held| (held.device.clone(), held.at, held.sample.clone()));
        if let Some((device, at, sample)) = most {
            if self.device.as_ref().is_some_and(|before| *before != device) {
                self.allocated.gap(at);
                self.recent_samples = HighSamples::default();
            }
            self.device = Some(device);
            self.sample = Some((at, sample));
            self.choose_structure();
        }
    }

    fn choose_structure(&mut self) {
        let ordinal = self.sample.as_ref().map(|(_, sample)| sample.device);
        self.structure = match ordinal {
            Some(ordinal) => self.structure_on(ordinal).cloned(),
            None => self.structures.first().cloned(),
        };
    }
}

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
        rank.take_peaks(at, sample.allocated_peak.max(sample.allocated));
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
            rank.recent_samples.push(at, sample);
            rank.steps
                .marks
                .sampled(sample.allocated, sample.alloc_retries);
        }
        self.sum_up(at, &uuid);
    }
}

impl RankState {
    /// Takes a peak of the current step.
    fn take_peaks(&mut self, at: Moment, peak: Bytes) {
        if peak > self.allocated_peak {
            (self.allocated_peak, self.peak_at) = (peak, at);
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
            push_bounded(&mut self.retries, (at, all.saturating_add(more)), RETRIES);
        }
    }
}

/// Steps kept for the rate: the middle one of their gaps has passed a change of pace after half of them, and one slow step moves it
/// little.
const RECENT: usize = 12;

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
            rank.take_peaks(at, step.before.peak.max(step.before.allocated));
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
            rank.take_peaks_of(at, step);
            rank.peak_came_after(at, step);
        }
    }
}

impl RankState {
    /// Takes the peak of `step()` itself, which has ended.
    fn take_peaks_of(&mut self, at: Moment, step: &Step) {
        let peak = step.after.peak.max(step.after.allocated);
        if peak > self.allocated_peak {
            (self.allocated_peak, self.peak_at) = (peak, at);
            self.peak_step = Some(step.count);
        }
    }

    /// Not every step is told of at once: a sample may have been taken after steps that were told of later. A recording has both in
    /// the order of their times, and its peak is to be of the same step. What a step has counted itself is its own.
    fn peak_came_after(&mut self, at: Moment, step: &Step) {
        let counted = step.before.peak.max(step.after.peak);
        if at < self.peak_at && counted < self.allocated_peak && self.peak_step <= Some(step.count)
        {
            self.peak_step = Some(step.count + 1);
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
        self.read = self.read.max(step.count);
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
        self.taken += 1;
        self.passed(at, step);
    }

    /// Takes the time at which a step ended.
    fn passed(&mut self, at: Moment, step: &Step) {
        if self.last.as_ref().is_some_and(|(last, _)| at < *last) {
            return;
        }
        if self.first.is_none() {
            (self.first, self.first_count) = (Some(at), step.count);
        }
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

impl State {
    pub(super) fn nvml_said(&mut self, at: Moment, nvml: &NvmlState) {
        let before = self.nvml.replace(nvml.clone());
        if let (NvmlState::Unavailable { reason }, true) = (nvml, before.as_ref() != Some(nvml)) {
            self.note(at, Level::Info, format!("no NVML: {reason}"));
        }
        match nvml {
            NvmlState::Live { .. } => {}
            NvmlState::Unavailable { .. } | NvmlState::Stale | NvmlState::Off => {
                for device in self
                    .devices
                    .iter_mut()
                    .filter(|device| device.node.is_none())
                {
                    device.used.gap(at);
                }
            }
        }
    }

    pub(super) fn device_read(&mut self, at: Moment, reading: &DeviceReading) {
        let device = self.device_or_new(&reading.uuid, &reading.name, reading.index);
        // A lost device may have no name any more.
        if !reading.name.is_empty() {
            device.name = reading.name.clone();
        }
        device.index = reading.index;
        if let Some(total) = reading.total {
            device.capacity = Some(total - reading.driver_reserved.unwrap_or(Bytes::ZERO));
        }
        match (&reading.lost, reading.used) {
            (None, Some(used)) => device.used.push(at, used),
            (Some(_), _) | (None, None) => device.used.gap(at),
        }
        if reading.lost.is_some() {
            device.allocated.gap(at);
            device.reserved.gap(at);
        }
        if let Some(processes) = &reading.processes {
            let before = std::mem::take(&mut device.first_seen);
            device.first_seen = processes
                .iter()
                .map(|process| {
                    let seen = before.iter().find(|(pid, _)| *pid == process.pid);
                    seen.copied().unwrap_or((process.pid, at))
                })
                .collect();
        }
        device.reading = Some((at, reading.clone()));
        self.note_non_torch(&reading.uuid);
    }

    /// Keeps what this reading says about the training's memory outside PyTorch: a bound for now.
    fn note_non_torch(&mut self, uuid: &Uuid) {
        let Some(place) = self.devices.place(uuid) else {
            return;
        };
        match self.devices[place].ours_now(self) {
            Some((at, ours)) => {
                let device = &mut self.devices[place];
                let before = device.reserved.value_at(at).unwrap_or(Bytes::ZERO);
                device.non_torch.read(at, ours, before);
            }
            None => self.devices[place].non_torch = NonTorch::default(),
        }
    }

    fn device_or_new(&mut self, uuid: &Uuid, name: &str, index: u32) -> &mut DeviceState {
        let place = self.devices.place(uuid).unwrap_or_else(|| {
            self.devices
                .push(DeviceState::new(uuid.clone(), name, index));
            self.devices.len() - 1
        });
        &mut self.devices[place]
    }

    /// Updates a device's `allocated`, `reserved` and limit from the current run's live processes;
    /// without any, they are unknown from now on.
    pub(super) fn sum_up(&mut self, at: Moment, uuid: &Uuid) {
        let (Some(run), Some(device)) = (self.runs.last(), self.devices.with_mut(uuid)) else {
            return;
        };
        let mut held = device.usages_in(run).peekable();
        let known = held.peek().is_some();
        let (mut allocated, mut reserved, mut limit) = (Bytes::ZERO, Bytes::ZERO, None);
        // The oldest of their latest samples.
        let mut heard = at;
        for (_, holding) in held {
            let sample = &holding.sample;
            heard = heard.min(holding.at);
            allocated += sample.allocated;
            reserved += sample.reserved;
            limit = match (limit, sample.limit) {
                (Some(a), Some(b)) => Some(Bytes::min(a, b)),
                (a, b) => a.or(b),
            };
        }
        if known {
            device.allocated.push(at, allocated);
            device.reserved.push(at, reserved);
            device.limit = limit;
            device.non_torch.sampled(heard, reserved);
        } else {
            device.allocated.gap(at);
            device.reserved.gap(at);
        }
    }
}
