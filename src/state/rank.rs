//! A process of the training, as its probe reports it.

use super::high_samples::HighSamples;
use super::{Keyed, Resolution, Series, StepMarks, StepTraces};
use crate::event::{
    Hello, HostActivity, HostGrowthSpot, LoaderSettings, Patchable, Patched, ProbeDevice,
    ProbeErrors, Rehearsal, Retainers, Sample, Step, StepLoss, Structure,
};
use crate::units::{Bytes, Moment, Pid, Uuid};

/// Buckets that show the shape of a series.
const SHAPE: usize = 16;

/// One process that initialised CUDA.
#[derive(Debug, Clone, Default)]
pub struct RankState {
    pub hello: Hello,
    /// The time of its first hello.
    pub joined: Moment,
    /// Its usage of each device, in order of first sight.
    pub usages: Vec<DeviceUsage>,
    /// The device that it uses most, by reserved memory.
    pub device: Option<Uuid>,
    /// Its latest sample on that device.
    pub sample: Option<(Moment, Sample)>,
    /// The highest samples of the last seconds on that device.
    pub recent_samples: HighSamples,
    /// `allocated` over time on that device.
    pub allocated: Series,
    /// The largest `allocated` of the run.
    pub allocated_peak: Bytes,
    /// The largest `reserved` of the run.
    pub reserved_peak: Bytes,
    /// The peaks of `allocated` and `reserved` before the first retry, while memory was not short.
    pub peaks_before_retry: Option<(Bytes, Bytes)>,
    /// The largest `inactive_split` after the first step.
    pub inactive_split_peak: Option<Bytes>,
    /// The step of the peak, if known.
    pub peak_step: Option<u64>,
    /// When a sample or a step showed the peak.
    pub peak_at: Moment,
    /// What the program did at the highest reading, by device.
    pub peak_doing: Vec<(u32, HostActivity)>,
    /// The latest retries of cudaMalloc, each with the count so far; bounded.
    pub retries: Vec<(Moment, u64)>,
    pub steps: StepTrack,
    /// What its optimizers know of the memory on that device.
    pub structure: Option<Structure>,
    /// What its optimizers know of the memory, one for each device.
    pub structures: Vec<Structure>,
    /// What can be patched in it, found at an OOM.
    pub patchable: Option<Patchable>,
    /// The step of an OOM, rehearsed on fake tensors.
    pub rehearsal: Option<Rehearsal>,
    /// Steps that were traced.
    pub traces: StepTraces,
    /// Who keeps its memory alive, as it was last searched, and when.
    pub retainers: Option<(Moment, Retainers)>,
    /// What it says of its use of the host's memory.
    pub host: RankHost,
    /// The outcomes of the chosen patches.
    pub patches: Vec<Patched>,
    /// The losses of its first steps.
    pub losses: Vec<StepLoss>,
    /// torch's seed in it.
    pub seed: Option<u64>,
    /// Whether an OOM error that nobody caught has ended it, as it said itself.
    pub ended_by_oom: bool,
    /// Errors of its probe's own, as it last counted them, and when.
    pub probe_errors: Option<(Moment, ProbeErrors)>,
    /// When its probe disconnected.
    pub disconnected: Option<Moment>,
    /// Whether it has said, on another node, that it ends.
    pub said_end: bool,
}

/// What a process says of its use of the host's memory.
#[derive(Debug, Clone, Default)]
pub struct RankHost {
    /// Its DataLoaders that have had workers.
    pub loaders: Vec<LoaderSettings>,
    /// Where it last grew fast, and when.
    pub growth: Option<(Moment, HostGrowthSpot)>,
    /// What torch has pinned in it.
    pub pinned: Option<Bytes>,
}

/// A peak above that of a step by this factor is another one.
const WELL_ABOVE: f64 = 1.05;

/// The usage of a device by a process.
#[derive(Debug, Clone)]
pub struct DeviceUsage {
    pub device: Uuid,
    pub at: Moment,
    pub sample: Sample,
}

impl Keyed for RankState {
    type Key = Pid;

    fn key(&self) -> &Pid {
        &self.hello.pid
    }
}

impl RankState {
    pub(super) fn new(hello: Hello, joined: Moment, resolution: Resolution) -> RankState {
        RankState {
            hello,
            joined,
            allocated: Series::with(resolution),
            ..RankState::default()
        }
    }

    /// In WSL2: the most that it has reserved, and the GPU that it is more than. No other driver gives out more than
    /// there is; that one moves what does not fit into RAM.
    pub fn spilled(&self) -> Option<(Bytes, Bytes)> {
        let (_, sample) = self.sample.as_ref().filter(|_| self.hello.wsl)?;
        let mut devices = self.hello.devices.iter();
        let total = devices
            .find(|device| device.ordinal == sample.device)?
            .total;
        let reserved = self.reserved_peak.max(sample.reserved);
        (total > Bytes::ZERO && reserved > total).then_some((reserved, total))
    }

    /// `rank 12 on gpu-2`.
    pub fn name(&self) -> String {
        let who = match self.hello.rank {
            Some(number) => format!("rank {number}"),
            None => format!("process {}", self.hello.pid),
        };
        match &self.hello.node {
            Some(node) => format!("{who} on {node}"),
            None => who,
        }
    }

    /// The process's peak and its step, if that is known, where it is well above what another step held.
    pub fn higher_peak_than(&self, step: u64, held: Bytes) -> Option<(Bytes, Option<u64>)> {
        let is_another = self.peak_step != Some(step);
        let is_well_above = self.allocated_peak > held.scale(WELL_ABOVE);
        (is_another && is_well_above).then_some((self.allocated_peak, self.peak_step))
    }

    /// The process's peak where it is this step's and prints as more than what its allocations add up to.
    pub fn counted_peak(&self, step: u64, traced: Bytes) -> Option<Bytes> {
        let counted = self.allocated_peak;
        let is_more = counted > traced && counted.to_string() != traced.to_string();
        (self.peak_step == Some(step) && is_more).then_some(counted)
    }

    /// Keeps what a row of a table and predictions need: of the series its shape, of the baselines the
    /// first, the smallest and the last.
    pub(super) fn condense(&mut self) {
        self.allocated.thin(SHAPE);
        self.recent_samples = HighSamples::default();
        self.retries = self.retries.last().copied().into_iter().collect();
        (self.patchable, self.rehearsal) = (None, None);
        (self.traces, self.retainers) = (StepTraces::default(), None);
        let steps = &mut self.steps;
        steps.recent = Vec::new();
        steps.marks = StepMarks::default();
        let ends = [steps.baselines.first(), steps.baselines.last()];
        let smallest = steps.baselines.iter().min_by_key(|(_, floor)| *floor);
        let mut kept: Vec<(u64, Bytes)> = ends
            .into_iter()
            .chain([smallest])
            .flatten()
            .copied()
            .collect();
        kept.sort_unstable();
        kept.dedup();
        steps.baselines = kept;
        steps.taken += 1;
    }

    /// Its usage of a device by its latest sample.
    pub fn usage_on(&self, device: &Uuid) -> Option<&DeviceUsage> {
        self.usages.iter().find(|holding| &holding.device == device)
    }

    /// What the program did where most was allocated on the device that it uses most.
    pub fn doing_at_peak(&self) -> Option<HostActivity> {
        let (_, sample) = self.sample.as_ref()?;
        let mut known = self.peak_doing.iter();
        let found = known.find(|(device, _)| *device == sample.device);
        found.map(|(_, doing)| *doing)
    }

    /// Its structure on the device with this ordinal.
    pub fn structure_on(&self, ordinal: u32) -> Option<&Structure> {
        self.structures
            .iter()
            .find(|structure| structure.device == ordinal)
    }

    /// The device with this ordinal, as this process counts them.
    pub fn device_with(&self, ordinal: u32) -> Option<&ProbeDevice> {
        self.hello
            .devices
            .iter()
            .find(|device| device.ordinal == ordinal)
    }
}

#[derive(Debug, Clone, Default)]
pub struct StepTrack {
    /// The number of ended steps.
    pub count: u64,
    /// The latest of them that was read itself: of short steps only some are, and the figures told with the others
    /// are an earlier one's.
    pub read: u64,
    /// The end of the first step seen.
    pub first: Option<Moment>,
    /// Its number.
    pub first_count: u64,
    /// The latest step and its end.
    pub last: Option<(Moment, Step)>,
    /// Steps per second, by the median of the latest gaps: an evaluation between two steps does not
    /// count.
    pub rate: Option<f64>,
    /// Ends of the latest steps that were told, with their numbers; bounded.
    pub recent: Vec<(Moment, u64)>,
    /// Allocated after each of the latest steps; bounded, oldest first.
    pub baselines: Vec<(u64, Bytes)>,
    /// How often baselines and marks have changed: what is worked out of them stays true until that does.
    pub taken: u64,
    /// The largest `allocated` up to the end of the latest step, without an OOM in the step after
    /// it.
    pub peak: Option<Bytes>,
    /// The first step of all, before which the optimizer had no state.
    pub first_step: Option<Step>,
    /// The largest `allocated` known to be of forward and backward: a new maximum before `step()`.
    pub passes_peak: Option<Bytes>,
    /// The largest `allocated` inside `step()`, if that was a new maximum.
    pub optimizer_peak: Option<Bytes>,
    /// The latest steps, one by one.
    pub marks: StepMarks,
}

impl StepTrack {
    /// Steps per second over the whole run: from the end of the first step to that of the latest, with all that lay between.
    pub fn mean_rate(&self) -> Option<f64> {
        let (from, (to, last)) = (self.first?, self.last.as_ref()?);
        let steps = last.count.checked_sub(self.first_count)?;
        let seconds = to.since(from).as_secs_f64();
        (steps > 0 && seconds > 0.0).then(|| steps as f64 / seconds)
    }
}
