//! One process of the training that uses a device, as its probe shows it.

use super::{Resolution, Series, StepMarks};
use crate::event::{Hello, Patchable, Patched, ProbeDevice, Rehearsal, Sample, Step, Structure};
use crate::units::{Bytes, Moment, Uuid};

/// One process that initialised CUDA.
#[derive(Debug, Clone, Default)]
pub struct RankState {
    /// What it said of itself.
    pub hello: Hello,
    /// When it first did.
    pub joined: Moment,
    /// What it holds on each device that it has a sample of, in order of first sight.
    pub usages: Vec<DeviceUsage>,
    /// The device that it uses most (the one of its latest sample with the most reserved).
    pub device: Option<Uuid>,
    /// Its latest sample on that device.
    pub sample: Option<(Moment, Sample)>,
    /// `allocated` over time, on that device, over this run.
    pub allocated: Series,
    /// The largest `allocated` of the run.
    pub allocated_peak: Bytes,
    /// The largest `reserved` of the run.
    pub reserved_peak: Bytes,
    /// The largest `allocated` and `reserved` so far, as of the last sample before the allocator had
    /// to give anything back: what it holds where nothing presses it.
    pub peaks_before_retry: Option<(Bytes, Bytes)>,
    /// The most that was seen, after a first step, to lie in pieces beside blocks in use.
    pub inactive_split_peak: Option<Bytes>,
    /// At which step the peak was reached, where steps are known.
    pub peak_step: Option<u64>,
    /// When cudaMalloc had failed and was tried again without the cache, and how often until then;
    /// bounded, the latest.
    pub retries: Vec<(Moment, u64)>,
    pub steps: StepTrack,
    /// What its memory is made of, on the device that it uses most.
    pub structure: Option<Structure>,
    /// The same for each device that it uses.
    pub structures: Vec<Structure>,
    /// What it could be changed in, found when its memory ran out.
    pub patchable: Option<Patchable>,
    /// The step that memory ran out in, rehearsed on fake tensors.
    pub rehearsal: Option<Rehearsal>,
    /// What became of the patches that the user chose, by name.
    pub patches: Vec<Patched>,
    /// When its probe's connection ended.
    pub disconnected: Option<Moment>,
}

/// What one process holds on one device.
#[derive(Debug, Clone)]
pub struct DeviceUsage {
    pub device: Uuid,
    /// When it was read.
    pub at: Moment,
    pub sample: Sample,
}

impl RankState {
    /// A process that has just said hello.
    pub(super) fn of(hello: Hello, joined: Moment) -> RankState {
        RankState {
            hello,
            joined,
            allocated: Series::with(Resolution::Spark),
            ..RankState::default()
        }
    }

    /// What it holds on a device, as of its latest sample.
    pub fn usage_on(&self, device: &Uuid) -> Option<&DeviceUsage> {
        self.usages.iter().find(|holding| &holding.device == device)
    }

    /// What its memory is made of on the device with this ordinal.
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

/// The optimizer steps of one process.
#[derive(Debug, Clone, Default)]
pub struct StepTrack {
    /// How many it has ended.
    pub count: u64,
    /// When the first that was seen ended.
    pub first: Option<Moment>,
    /// The latest, and when it ended.
    pub last: Option<(Moment, Step)>,
    /// Steps a second, over the latest steps (a median of gaps, so that an evaluation between two
    /// steps does not count).
    pub rate: Option<f64>,
    /// Ends of the latest steps, for the rate; bounded.
    pub recent: Vec<Moment>,
    /// Allocated after the latest steps (the baseline, step by step); bounded, oldest first.
    pub baselines: Vec<(u64, Bytes)>,
    /// The largest allocated up to the end of the latest step: of all that was seen whole, an
    /// out-of-memory in the step after it left out.
    pub peak: Option<Bytes>,
    /// The first step, where it was read: before it the optimizer had no state.
    pub first_step: Option<Step>,
    /// The largest allocated that forward and backward are known to have reached: read before
    /// `step()`, and more than anything before it.
    pub passes_peak: Option<Bytes>,
    /// The largest allocated inside `step()`, where that was more than anything before it.
    pub optimizer_peak: Option<Bytes>,
    /// What the latest steps were like, one by one.
    pub marks: StepMarks,
}
