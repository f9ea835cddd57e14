//! What the probes say from inside the training's processes.

use crate::event::{Hello, Level, ProbeDevice, ProbeGone, Sample, Step, Structure};
use crate::state::rank::DeviceUsage;
use crate::state::{DeviceState, RankState, State, StepTrack};
use crate::units::{Bytes, Moment, Pid, RunNumber, Uuid};

/// Processes kept of one run: more ranks than one host has, and room for those that a launcher
/// starts again and again.
const RANKS: usize = 256;

/// Devices kept: more than one host has. NVML lists its own; a hello may list anything.
const DEVICES: usize = 256;

impl State {
    pub(super) fn hello(&mut self, at: Moment, hello: &Hello) {
        let next = self.runs.last().map(|run| run.number.next());
        let known = self.runs.iter().any(|run| run.number == hello.run);
        if !known && next.is_some_and(|next| next != hello.run) {
            // Of a run that never began: an environment that outlived its session.
            return;
        }
        for device in &hello.devices {
            let uuid = self.uuid_of(device);
            if self.devices.len() >= DEVICES && self.device(&uuid).is_none() {
                continue;
            }
            let known = self.device_or_new(&uuid, &device.name, device.ordinal);
            known.capacity = known.capacity.or(Some(device.total));
        }
        let run = self.run_or_new(at, hello.run);
        let known = run
            .ranks
            .iter_mut()
            .find(|rank| rank.hello.pid == hello.pid);
        match known {
            // The same process again: its connection broke and it came back.
            Some(rank) => {
                rank.hello = hello.clone();
                rank.gone = None;
            }
            None => {
                if run.ranks.len() >= RANKS
                    && let Some(oldest) = run.ranks.iter().position(|rank| rank.gone.is_some())
                {
                    run.ranks.remove(oldest);
                }
                if run.ranks.len() < RANKS {
                    run.ranks.push(RankState::of(hello.clone(), at));
                }
            }
        }
    }

    /// A sample, and before it the peak that was reached and left since the one before: the
    /// allocator counts what no sampling at 10 Hz can see, and a peak must not vanish.
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
        if !is_new || before >= at || rank.gone.is_some() {
            return;
        }
        let between = before + at.since(before) / 2;
        let most_reserved = sample.reserved.max(reserved).max(peak);
        if rank.device.as_ref() == Some(&uuid) {
            rank.allocated.push(between, peak);
        }
        let Some(device) = self.devices.iter_mut().find(|device| device.uuid == uuid) else {
            return;
        };
        // What the other processes hold on it stays as it was last heard.
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
        if rank.gone.is_some() {
            // It came late: the process has ended and holds nothing any more.
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

    pub(super) fn stepped(&mut self, at: Moment, step: &Step) {
        let Some(run) = self
            .runs
            .iter_mut()
            .rfind(|run| run.ranks.iter().any(|rank| rank.hello.pid == step.pid))
        else {
            return;
        };
        run.survived(step.pid, at);
        if let Some(rank) = run.ranks.iter_mut().find(|rank| rank.hello.pid == step.pid) {
            rank.take_peaks(step.before.peak.max(step.before.allocated));
            let reserved = step.before.reserved.max(step.after.reserved);
            rank.reserved_peak = rank.reserved_peak.max(reserved);
            if step.count == 1 {
                // What was reached before any step had ended was reached in the first.
                rank.peak_step.get_or_insert(1);
            }
            rank.steps.ended(at, step);
            rank.take_peaks_of(step);
        }
    }

    pub(super) fn structure_read(&mut self, structure: &Structure) {
        let Some(rank) = self.rank_mut(structure.pid) else {
            return;
        };
        // A process sees only the devices of its hello.
        if rank.device_with(structure.device).is_none() {
            return;
        }
        match rank
            .structures
            .iter_mut()
            .find(|known| known.device == structure.device)
        {
            Some(known) => *known = structure.clone(),
            None => rank.structures.push(structure.clone()),
        }
        rank.choose_structure();
    }

    pub(super) fn probe_gone(&mut self, at: Moment, gone: &ProbeGone) {
        let Some(run) = self.run_of(gone.pid) else {
            return;
        };
        self.rank_ended(at, run, gone.pid);
        if let Some(reason) = &gone.reason {
            self.note(
                at,
                Level::Warning,
                format!("the probe in process {} has gone: {reason}", gone.pid),
            );
        }
    }

    /// Nothing more is known of a process from here on.
    pub(super) fn rank_ended(&mut self, at: Moment, run: RunNumber, pid: Pid) {
        let Some(rank) = self
            .runs
            .iter_mut()
            .find(|candidate| candidate.number == run)
            .and_then(|run| run.ranks.iter_mut().find(|rank| rank.hello.pid == pid))
            .filter(|rank| rank.gone.is_none())
        else {
            return;
        };
        rank.gone = Some(at);
        rank.allocated.gap(at);
        let devices: Vec<Uuid> = rank.usages.iter().map(|held| held.device.clone()).collect();
        for device in devices {
            self.sum_up(at, &device);
        }
    }

    /// The latest run in which this process said hello. (A later run's process may have the id
    /// of one that is long gone.)
    fn run_of(&self, pid: Pid) -> Option<RunNumber> {
        self.runs
            .iter()
            .rfind(|run| run.rank_with(pid).is_some())
            .map(|run| run.number)
    }

    pub(super) fn rank_mut(&mut self, pid: Pid) -> Option<&mut RankState> {
        self.runs
            .iter_mut()
            .rev()
            .flat_map(|run| &mut run.ranks)
            .find(|rank| rank.hello.pid == pid)
    }

    /// The device with an ordinal of a process.
    pub(super) fn device_of(&self, pid: Pid, ordinal: u32) -> Option<Uuid> {
        let run = self.runs.iter().rfind(|run| run.rank_with(pid).is_some())?;
        let device = run.rank_with(pid)?.device_with(ordinal)?;
        Some(self.uuid_of(device))
    }

    /// A device's UUID. An old torch does not say it: then it is the only device with that name,
    /// or else one that has no name but the process's ordinal (and that NVML's are not joined to,
    /// since `CUDA_VISIBLE_DEVICES` reorders ordinals).
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

    /// Takes in a peak that was seen while the step after the last ended one was going on.
    fn take_peaks(&mut self, peak: Bytes) {
        if peak > self.allocated_peak {
            self.allocated_peak = peak;
            self.peak_step = (self.steps.count > 0).then(|| self.steps.count + 1);
        }
    }

    /// Keeps when the count of retries grew. Samples of several devices have a count each.
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

    /// Takes in what `step()` itself reached, which is over.
    fn take_peaks_of(&mut self, step: &Step) {
        let peak = step.after.peak.max(step.after.allocated);
        if peak > self.allocated_peak {
            self.allocated_peak = peak;
            self.peak_step = Some(step.count);
        }
    }
}

/// Retries kept with their time: a list of events shows no more.
const RETRIES: usize = 32;

/// Ends of steps kept for the rate.
const RECENT: usize = 33;

/// Floors kept: enough for a climb of a few thousandths of the card a step to stand out.
const BASELINES: usize = 512;

impl StepTrack {
    fn ended(&mut self, at: Moment, step: &Step) {
        self.count = self.count.max(step.count);
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
        self.first.get_or_insert(at);
        self.last = Some((at, step.clone()));
        push_bounded(&mut self.recent, at, RECENT);
        push_bounded(
            &mut self.baselines,
            (step.count, step.after.allocated),
            BASELINES,
        );
        self.marks.ended(at, step);
        let mut gaps: Vec<f64> = self
            .recent
            .windows(2)
            .map(|pair| pair[1].since(pair[0]).as_secs_f64())
            .collect();
        gaps.sort_by(f64::total_cmp);
        self.rate = gaps
            .get(gaps.len() / 2)
            .filter(|gap| **gap > 0.0)
            .map(|gap| 1.0 / gap);
    }
}

fn push_bounded<T>(list: &mut Vec<T>, item: T, bound: usize) {
    if list.len() >= bound {
        list.remove(0);
    }
    list.push(item);
}
