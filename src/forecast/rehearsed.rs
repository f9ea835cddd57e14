//! What a training needs by a rehearsal of its step: the rehearsed allocations, the optimizer's state and
//! its temporaries put together to two steps, and played through the allocator.

use super::estimate::Estimate;
use super::replay::{AllocatorSettings, ReplayRoom, replay};
use super::target::{Allocator, Target};
use super::trace::{Trace, TraceBlock, TraceEvent, TraceTemplate};
use crate::event::{Rehearsal, RehearsedVariant};
use crate::units::Bytes;

/// What matrix products and other kernels take for themselves, which a rehearsal does not see: cuBLAS has
/// a workspace for each thread that calls it (32 MiB on Hopper, 8 MiB before).
const WORKSPACES: (Bytes, Bytes) = (Bytes::mib(64), Bytes::mib(160));
/// How far off a rehearsed peak was at the most, as a share of it (decoders, BERT, ViT, LoRA, ResNet; fp32
/// and bf16; torch 2.11): 0.0 to 2.4 %, always below.
const SPREAD: f64 = 0.025;
/// The same where there are convolutions, whose workspaces are as large as their outputs: up to 28 %.
const CONVOLUTIONS: f64 = 0.30;
/// Steps after which what is reserved repeats: the optimizer's state is there from the second on.
const STEPS: usize = 2;

/// A training by its rehearsal.
#[derive(Debug, Clone)]
pub struct Rehearsed {
    said: Rehearsal,
    /// The batch that the forecast counts for the rehearsal's own.
    counted: u64,
    variants: Vec<(RehearsedVariant, TraceTemplate)>,
}

impl Rehearsed {
    /// A rehearsal of a run whose command says a batch of `counted`; `None` where it came to nothing.
    pub fn of(said: &Rehearsal, counted: u64) -> Option<Rehearsed> {
        let read = |variant: &RehearsedVariant| {
            let template = variant.trace.as_ref()?.parse().ok()?;
            Some((variant.clone(), template))
        };
        let variants: Vec<_> = said.variants.iter().filter_map(read).collect();
        (!variants.is_empty() && said.batch > 0 && counted > 0).then(|| Rehearsed {
            said: said.clone(),
            counted,
            variants,
        })
    }

    /// The same, where what was counted as `of` is really `batch`.
    pub(super) fn counted(self, batch: u64, of: u64) -> Rehearsed {
        let counted = self.counted.saturating_mul(batch) / of.max(1);
        Rehearsed {
            counted: counted.max(1),
            ..self
        }
    }

    /// Whether the target was rehearsed.
    pub fn knows(&self, target: &Target) -> bool {
        self.variant(target).is_some()
    }

    /// The allocated peak of a target.
    pub fn peak(&self, target: &Target) -> Option<Estimate> {
        let done = self.played(target)?;
        Some(self.around(Bytes(done.allocated_peak)))
    }

    /// What the allocator must be able to reserve for a target.
    pub fn needs(&self, target: &Target) -> Option<Estimate> {
        let done = self.played(target)?;
        Some(self.around(Bytes(done.reserved_peak)))
    }

    fn around(&self, bytes: Bytes) -> Estimate {
        let spread = match self.said.convolutions {
            true => CONVOLUTIONS,
            false => SPREAD,
        };
        let (likely, most) = WORKSPACES;
        let likely = bytes + likely;
        let high = bytes.scale(1.0 + spread) + most;
        // A loss that the program computes by itself is an assumption.
        let low = match self.said.own_loss {
            true => bytes,
            false => bytes.scale(0.9),
        };
        Estimate::of(low, likely, high)
    }

    fn variant(&self, target: &Target) -> Option<&TraceTemplate> {
        let treatment = target.treatment;
        self.variants
            .iter()
            .find(|(variant, _)| {
                variant.amp == treatment.mixed && variant.checkpointing == treatment.recomputed
            })
            .map(|(_, template)| template)
    }

    fn played(&self, target: &Target) -> Option<super::replay::Replayed> {
        let trace = self.training(self.variant(target)?, target);
        let settings = AllocatorSettings {
            expandable_segments: target.allocator == Allocator::Expandable,
            ..AllocatorSettings::default()
        };
        Some(replay(&trace, &settings, ReplayRoom::default()))
    }

    /// Two steps of the training at a batch.
    fn training(&self, step: &TraceTemplate, target: &Target) -> Trace {
        let batch = (target.batch.saturating_mul(self.said.batch) / self.counted).max(1);
        let said = &self.said;
        let weights: u64 = said.weights.iter().sum();
        let rest = said.before - said.arguments - Bytes(weights);
        let mut trace = Made::default();
        let there = said.weights.iter().copied().chain([rest.0]);
        for size in there.filter(|size| *size > 0) {
            trace.allocate(size);
        }
        let optimizer = said.optimizer.clone().unwrap_or_default();
        let states = match (optimizer.has_state, optimizer.states) {
            (true, _) => 0,
            // An optimizer that is not known most likely is one of Adam's kind.
            (false, states) => states.unwrap_or(2),
        };
        let arguments = said.arguments.0 / said.batch * batch;
        for number in 0..STEPS {
            let mut gradients = trace.step(step, batch, arguments, false);
            if target.keeps_gradients {
                gradients.extend(trace.step(step, batch, arguments, true));
            }
            if number == 0 {
                for size in said
                    .trained
                    .iter()
                    .flat_map(|size| vec![*size; states as usize])
                {
                    trace.allocate(size);
                }
            }
            if optimizer.foreach {
                let made: Vec<usize> = said
                    .trained
                    .iter()
                    .map(|size| trace.allocate(*size))
                    .collect();
                made.into_iter().for_each(|number| trace.free(number));
            }
            gradients.into_iter().for_each(|number| trace.free(number));
        }
        trace.trace
    }
}

/// A trace while it is put together.
#[derive(Default)]
struct Made {
    trace: Trace,
    allocated: usize,
}

impl Made {
    fn allocate(&mut self, size: u64) -> usize {
        let block = TraceBlock { size, stream: 0 };
        self.trace.events.push(TraceEvent::Alloc(block));
        self.allocated += 1;
        self.allocated - 1
    }

    fn free(&mut self, allocation: usize) {
        self.trace.events.push(TraceEvent::Free(allocation));
    }

    /// Forward and backward: what is not freed by then are gradients, which are returned. Where
    /// gradients are there already, new ones are added to them and freed at once.
    fn step(&mut self, step: &TraceTemplate, batch: u64, arguments: u64, adds: bool) -> Vec<usize> {
        let given = (arguments > 0).then(|| self.allocate(arguments));
        let first = self.allocated;
        let events = step.events(batch, first);
        let count = events
            .iter()
            .filter(|e| matches!(e, TraceEvent::Alloc(_)))
            .count();
        let mut alive = vec![true; count];
        for event in &events {
            if let TraceEvent::Free(allocation) = event {
                alive[allocation - first] = false;
            }
        }
        let mut pending = None;
        for event in events {
            self.trace.events.push(event);
            if let TraceEvent::Alloc(_) = event {
                let number = self.allocated;
                self.allocated += 1;
                if let Some(gradient) = pending.take() {
                    self.free(gradient);
                }
                if adds && alive[number - first] {
                    pending = Some(number);
                }
            }
        }
        if let Some(gradient) = pending {
            self.free(gradient);
        }
        if let Some(given) = given {
            self.free(given);
        }
        let gradients = (0..count).filter(|at| alive[*at] && !adds);
        gradients.map(|at| first + at).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::OptimizerMemory;
    use crate::forecast::Treatment;

    const MIB: u64 = 1 << 20;

    /// A model of one weight of 64 MiB: forward keeps 8 MiB a sample, backward makes the gradient.
    fn said() -> Rehearsal {
        let trace = |each: u64| Some(format!("x{each} {} -2", 64 * MIB));
        Rehearsal {
            batch: 16,
            before: Bytes((64 + 16) * MIB),
            arguments: Bytes(16 * MIB),
            weights: vec![64 * MIB],
            trained: vec![64 * MIB],
            optimizer: Some(OptimizerMemory {
                class: "AdamW".into(),
                states: Some(2),
                ..OptimizerMemory::default()
            }),
            own_loss: true,
            variants: vec![
                RehearsedVariant {
                    trace: trace(8 * MIB),
                    ..RehearsedVariant::default()
                },
                RehearsedVariant {
                    checkpointing: true,
                    trace: trace(2 * MIB),
                    ..RehearsedVariant::default()
                },
            ],
            ..Rehearsal::default()
        }
    }

    fn target(batch: u64) -> Target {
        Target {
            batch,
            keeps_gradients: false,
            treatment: Treatment::default(),
            allocator: Allocator::Expandable,
        }
    }

    #[test]
    fn the_second_step_has_the_optimizers_state() {
        let step = Rehearsed::of(&said(), 16).unwrap();
        for batch in [1, 16, 100] {
            // The weight, two states, the arguments, what forward keeps and the gradient.
            let expected = Bytes((64 + 128 + batch + 8 * batch + 64) * MIB);
            assert_eq!(
                step.peak(&target(batch)).unwrap().low,
                expected,
                "batch {batch}"
            );
        }
    }

    #[test]
    fn gradients_that_are_kept_and_other_treatments() {
        let step = Rehearsed::of(&said(), 16).unwrap();
        let plain = step.peak(&target(16)).unwrap();
        let kept = Target {
            keeps_gradients: true,
            ..target(16)
        };
        // The second micro-batch finds the gradient of the first, and makes its own beside it.
        assert_eq!(step.peak(&kept).unwrap().low, plain.low + Bytes(64 * MIB));
        let recomputed = |mixed| Target {
            treatment: Treatment {
                mixed,
                recomputed: true,
            },
            ..target(16)
        };
        let less = step.peak(&recomputed(false)).unwrap();
        assert_eq!(less.low, plain.low - Bytes(6 * 16 * MIB));
        assert!(
            step.peak(&recomputed(true)).is_none(),
            "it was not rehearsed"
        );
    }

    #[test]
    fn the_commands_batch_may_be_another_count() {
        // 4 in the command are 16 samples of the call: sequences of one text, or devices.
        let step = Rehearsed::of(&said(), 4).unwrap();
        let plain = Rehearsed::of(&said(), 16).unwrap();
        assert_eq!(step.peak(&target(2)), plain.peak(&target(8)));
    }

    #[test]
    fn what_came_to_nothing_is_no_rehearsal() {
        let mut said = said();
        said.variants = vec![RehearsedVariant {
            why_not: Some("it took too long".into()),
            ..RehearsedVariant::default()
        }];
        assert!(Rehearsed::of(&said, 16).is_none());
        assert_eq!(said.why_not(), Some("it took too long"));
    }
}
