//! One process of the training that uses a device, as its probe shows it.

use super::Series;
use crate::event::{Hello, Sample, Step, Structure};
use crate::units::{Bytes, Moment, Uuid};

/// One process that initialised CUDA.
#[derive(Debug, Clone)]
pub struct RankState {
    /// What it said of itself.
    pub hello: Hello,
    /// The device that it uses most (the one of its latest sample with the most reserved).
    pub device: Option<Uuid>,
    /// Its latest sample on that device.
    pub sample: Option<(Moment, Sample)>,
    /// `allocated` over time, on that device, over this run.
    pub allocated: Series,
    /// `reserved` over time.
    pub reserved: Series,
    /// The largest `allocated` of the run.
    pub allocated_peak: Bytes,
    /// The largest `reserved` of the run.
    pub reserved_peak: Bytes,
    /// At which step the peak was reached, where steps are known.
    pub peak_step: Option<u64>,
    /// Its optimizer steps.
    pub steps: StepTrack,
    /// What its memory is made of.
    pub structure: Option<Structure>,
    /// When its probe's connection ended.
    pub gone: Option<Moment>,
}

/// The optimizer steps of one process.
#[derive(Debug, Clone, Default)]
pub struct StepTrack {
    /// How many it has ended.
    pub count: u64,
    /// The latest, and when it ended.
    pub last: Option<(Moment, Step)>,
    /// Steps a second, over the latest steps (a median of gaps, so that an evaluation between two
    /// steps does not count).
    pub rate: Option<f64>,
    /// Ends of the latest steps, for the rate; bounded.
    pub recent: Vec<Moment>,
    /// Allocated after the latest steps (the floor, step by step); bounded, oldest first.
    pub floors: Vec<(u64, Bytes)>,
}
