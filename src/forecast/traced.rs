//! How far a training's batch could go, from one traced step of it: its allocations scaled to other
//! batches and played through the allocator, again and again until what is reserved repeats.
//!
//! Parameters, gradients, the optimizer's state and what its step makes stay as they are; everything
//! else counts as growing with the batch, also where it may not (copies of weights under autocast),
//! so that too little is promised rather than too much. The replay at the run's own batch must give
//! what the run reserved, or nothing is said.

use super::largest::{edge, rounded};
use super::replay::{AllocatorSettings, ReplayRoom, Replayed, replay_until_steady};
use super::trace::places_of;
use super::trace::{Trace, TraceEvent};
use crate::event::{MemoryKind, Phase, StepTrace};
use crate::units::Bytes;
use std::fmt;

/// How often a step is played until what it reserves repeats: the second time most often.
const STEPS: usize = 3;
/// What the run reserved, as a share of what the replay reserves, where the replay is believed. What
/// came before the traced step (the first steps, an evaluation) leaves its own pieces.
const BELIEVED: std::ops::RangeInclusive<f64> = 0.95..=1.08;
/// What outlives a step takes the place of what it freed, to this share: else memory grows.
const STEADY: f64 = 0.01;
/// How much larger than the traced step the largest may have been for the one to be scaled to it.
const MOST_STRETCHED: f64 = 4.0;
/// A largest step beyond the traced one by less than this share is as large.
const AS_LARGE: f64 = 1.005;
/// Beside the margin: how far off peaks at other batches were for each doubling, and at no distance.
const DOUBLING: f64 = 0.012;
const REPEATED: f64 = 0.004;
/// No batch beyond this many times the run's own is looked at.
const AT_MOST_TIMES: u64 = 64;

/// A traced step and the batch that it took.
#[derive(Debug, Clone)]
struct TracedStep {
    trace: Trace,
    /// Which allocations grow with the batch, by number.
    grows: Vec<bool>,
    /// Which allocations are the optimizer's state that it found, by number.
    state: Vec<usize>,
}

/// A search for the largest batch; it takes up to a second and is the same wherever it runs.
#[derive(Debug, Clone)]
pub struct TracedSearch {
    /// Which step was traced.
    pub step: StepTrace,
    /// Samples that it took at once.
    pub batch: u64,
    /// In how many parts a step took it.
    pub parts: u64,
    pub settings: AllocatorSettings,
    /// The most that the run had allocated and reserved.
    pub peak: Bytes,
    pub reserved: Bytes,
    /// The step that had the most allocated, where it is known.
    pub peak_step: Option<u64>,
    /// What the process may reserve.
    pub room: Bytes,
    /// Whether that counts the GPU as its alone.
    pub is_alone: bool,
    /// The share of its need by which a batch is to stay below the room.
    pub margin: f64,
}

/// The largest batch by a traced step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TracedRoom {
    pub batch: u64,
    /// The step that was replayed.
    pub step: u64,
    /// A larger one, as large as which it was replayed: the run's largest.
    pub as_large_as: Option<u64>,
    /// What that step was given; others may be given more.
    pub inputs: Option<InputShape>,
}

/// The size of an input: `64×192`. Of more dimensions the first ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InputShape {
    sizes: [u64; InputShape::MOST],
    dimensions: usize,
}

impl InputShape {
    const MOST: usize = 5;

    /// `None` where no size is known.
    pub fn new(sizes: &[u64]) -> Option<InputShape> {
        let dimensions = sizes.len().min(InputShape::MOST);
        let mut all = [0; InputShape::MOST];
        all[..dimensions].copy_from_slice(&sizes[..dimensions]);
        (dimensions > 0).then_some(InputShape {
            sizes: all,
            dimensions,
        })
    }
}

impl fmt::Display for InputShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes: Vec<String> = self.sizes[..self.dimensions]
            .iter()
            .map(u64::to_string)
            .collect();
        f.write_str(&sizes.join("×"))
    }
}

impl TracedSearch {
    /// The largest batch that fits, rounded as people write them; `None` where the trace does not
    /// give what the run showed, or not even the run's own batch fits.
    pub fn run(&self) -> Option<TracedRoom> {
        let traced = TracedStep::new(&self.step)?;
        let play_trace = |trace: &Trace, room: Option<u64>| {
            let room = ReplayRoom {
                device: room,
                cap: None,
            };
            replay_until_steady(trace, STEPS, &self.settings, room)
        };
        let play = |share: f64, room: Option<u64>| play_trace(&traced.at(share), room);
        let own = play(1.0, None);
        let stretched = self.as_large_as_the_largest(&traced, &own, &play)?;
        // What the run had reserved: by its largest step as it was then, or by those after it.
        let largest = (stretched > 1.0).then(|| match self.is_largest_without_state() {
            true => play_trace(&traced.without_state(stretched), None),
            false => play(stretched, None),
        });
        let largest = largest.map_or(0, |largest| largest.reserved_peak);
        let replayed = own.reserved_peak.max(largest);
        let off = self.reserved.fraction_of(Bytes(replayed))?;
        if !BELIEVED.contains(&off) {
            return None;
        }
        let fits = |batch: u64| {
            let share = batch as f64 / self.batch as f64;
            let spread = REPEATED + DOUBLING * share.log2().abs();
            let more = off.max(1.0) * (1.0 + self.margin.max(spread));
            let room = self.room.scale(1.0 / more);
            play(share * stretched, Some(room.0)).ran_out.is_none()
        };
        let most = self.batch.saturating_mul(AT_MOST_TIMES);
        let batch = rounded(edge(most, fits));
        (batch >= self.batch).then_some(TracedRoom {
            batch,
            step: self.step.step,
            as_large_as: self.peak_step.filter(|_| stretched > 1.0),
            inputs: InputShape::new(&self.step.inputs).filter(|_| stretched <= 1.0),
        })
    }

    /// By what the traced step is to be scaled to be as large as the run's largest.
    fn as_large_as_the_largest(
        &self,
        traced: &TracedStep,
        own: &Replayed,
        play: &impl Fn(f64, Option<u64>) -> Replayed,
    ) -> Option<f64> {
        let peak = self.peak.0 as f64;
        if peak <= own.allocated_peak as f64 * AS_LARGE {
            return Some(1.0);
        }
        let missing = if self.is_largest_without_state() {
            traced.state_size() as f64
        } else {
            0.0
        };
        let twice = play(2.0, None).allocated_peak as f64;
        let slope = twice - own.allocated_peak as f64;
        let stretched = 1.0 + (peak + missing - own.allocated_peak as f64) / slope;
        (slope > 0.0 && stretched <= MOST_STRETCHED).then_some(stretched)
    }

    /// A first step has no optimizer's state yet: where it was the largest, the rest of it is larger by as
    /// much.
    fn is_largest_without_state(&self) -> bool {
        self.peak_step == Some(1)
    }
}

impl TracedStep {
    /// `None` for a step that ran out of memory, is no such text, or leaves more than it found.
    fn new(step: &StepTrace) -> Option<TracedStep> {
        let trace: Trace = step.trace.parse().ok()?;
        let origins = places_of(&step.blocks, step.origins.len()).ok()?;
        let sizes: Vec<u64> = trace.allocations().map(|block| block.size).collect();
        if step.failed || origins.len() != sizes.len() {
            return None;
        }
        let carried = trace.carried.len();
        let mut is_freed = vec![false; sizes.len()];
        let mut made_in = vec![Phase::Unknown; sizes.len()];
        let mut next = carried;
        for (number, event) in trace.events.iter().enumerate() {
            match event {
                TraceEvent::Alloc(_) | TraceEvent::Workspace(_) => {
                    let begun = step.phases.iter().take_while(|start| start.from <= number);
                    made_in[next] = begun.last().map_or(Phase::Unknown, |start| start.phase);
                    next += 1;
                }
                TraceEvent::Free(block) => is_freed[*block] = true,
                TraceEvent::EmptyCache => {}
            }
        }
        let kind_of = |number: usize| origins[number].and_then(|origin| step.origins[origin].kind);
        let is_state = |number: &usize| kind_of(*number) == Some(MemoryKind::OptimizerState);
        let state = (0..carried).filter(is_state).collect();
        let stays = |number: usize| {
            let kind = kind_of(number);
            let known = matches!(
                kind,
                Some(
                    MemoryKind::Parameters
                        | MemoryKind::Gradients
                        | MemoryKind::OptimizerState
                        | MemoryKind::Frozen
                )
            );
            known || made_in[number] == Phase::Optimizer
        };
        let mut grows: Vec<bool> = (0..sizes.len())
            .map(|number| number >= carried && !stays(number))
            .collect();
        // The last batch's inputs are followed by this one's, of the same size.
        let left: Vec<usize> = (carried..sizes.len()).filter(|n| !is_freed[*n]).collect();
        let growing: Vec<u64> = left
            .iter()
            .filter(|n| grows[**n])
            .map(|n| sizes[*n])
            .collect();
        for number in (0..carried).filter(|number| is_freed[*number]) {
            grows[number] = growing.contains(&sizes[number]);
        }
        let found: u64 = (0..carried)
            .filter(|n| is_freed[*n])
            .map(|n| sizes[n])
            .sum();
        let leaves: u64 = left.iter().map(|number| sizes[*number]).sum();
        let all: u64 = trace.carried.iter().map(|block| block.size).sum();
        let is_steady = found.abs_diff(leaves) as f64 <= all as f64 * STEADY;
        is_steady.then_some(TracedStep {
            trace,
            grows,
            state,
        })
    }

    fn state_size(&self) -> u64 {
        let sizes = self.state.iter().map(|n| self.trace.carried[*n].size);
        sizes.sum()
    }

    /// The step with so many times the batch, as a first step: no optimizer's state is there yet.
    fn without_state(&self, share: f64) -> Trace {
        let mut trace = self.at(share);
        for number in &self.state {
            trace.carried[*number].size = 0;
        }
        trace
    }

    /// The step with so many times the batch.
    fn at(&self, share: f64) -> Trace {
        let mut trace = self.trace.clone();
        let made = trace.events.iter_mut().filter_map(|event| match event {
            TraceEvent::Alloc(block) | TraceEvent::Workspace(block) => Some(block),
            TraceEvent::Free(_) | TraceEvent::EmptyCache => None,
        });
        let blocks = trace.carried.iter_mut().chain(made);
        for (block, _) in blocks.zip(&self.grows).filter(|(_, grows)| **grows) {
            block.size = (block.size as f64 * share).ceil() as u64;
        }
        trace
    }
}

#[cfg(test)]
pub(super) mod tests;
