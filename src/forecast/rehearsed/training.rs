//! A training put together from its rehearsed step, as the program will run it: micro-steps, the optimizer's step with
//! its state, the gradients let go of where the program does, what variables and lists hold beyond the step, again and
//! again until what is reserved repeats.

use super::Variant;
use crate::event::{OptimizerMemory, Rehearsal, RehearsedVariant, ZeroGrad};
use crate::forecast::replay::{AllocatorSettings, Replayed, replay_steps};
use crate::forecast::trace::{Trace, TraceBlock, TraceEvent};
use crate::forecast::workspaces::Workspaces;
use crate::units::Bytes;

/// A training has so many steps before what is reserved may repeat: the optimizer's state is there from the second on;
/// what its blocks leave between them can fail the third (a decoder at its largest batch but one under a cap).
const LEAST_STEPS: usize = 3;
/// So many are played where what is reserved repeats by then.
const USUAL_STEPS: usize = 4;
/// What still grows after so many grows on: then what is needed is an interval.
const MOST_STEPS: usize = 10;

/// Tensors that a step through the parameters one by one makes of the largest of them, at the most but for RAdam's: Adam with
/// weight decay makes three (`tests/torch/test_optimizers.py`).
const ONE_BY_ONE: usize = 3;

/// NCCL's thread lets go of what it has sent each 0.1 s (`kWatchdogThreadSleepMillis` in ProcessGroupNCCL.hpp), so the buckets
/// that DistributedDataParallel makes anew at its second step may lie beside the old ones until then. A step of more operations
/// does not come to its peak by then on any GPU: 10¹⁵ a second, a third of them in forward.
const OLD_BUCKETS_LAST: u64 = 300_000_000_000_000;
/// Of fewer, one that is compiled as a whole most likely does: one of the two ranks had both at its peak in five runs of five
/// (decoders of 1.5 to 5.5 · 10¹² operations, torch 2.11), as they were written in none of four.
const OLD_BUCKETS_LAST_COMPILED: u64 = 10_000_000_000_000;

/// An evaluation has many calls; the second finds what the first returned, and the third is like the second.
const EVALUATED: usize = 2;
/// So many tensors are there at once where nothing is kept for a backward pass: an output and what it is made of.
const EVALUATION_KEEPS: usize = 3;

/// Which way is taken where the program's lines do not tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Reading {
    Least,
    Likely,
    Most,
}

/// What a training is put together from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pieces<'a> {
    pub said: &'a Rehearsal,
    pub step: &'a Variant,
    /// Samples of a call of the model.
    pub batch: u64,
    pub workspaces: Workspaces,
    /// Whether the model was called before its first step.
    pub evaluated: bool,
    /// Whether the optimizer goes through its parameters one after the other.
    pub one_by_one: bool,
    pub reading: Reading,
}

/// A training of several steps.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ComposedTraining {
    pub trace: Trace,
    /// What becomes of it where there is room.
    pub free: Replayed,
    /// The event that its last step begins with.
    pub last_step: usize,
    /// Whether what is reserved repeats.
    repeats: bool,
    /// What each allocation is of, by its number.
    kinds: Vec<Part>,
}

impl ComposedTraining {
    pub fn new(
        pieces: Pieces<'_>,
        keeps_gradients: bool,
        settings: &AllocatorSettings,
    ) -> ComposedTraining {
        let counts: &[usize] = match pieces.reading {
            Reading::Least => &[LEAST_STEPS],
            // Most repeat soon.
            Reading::Likely | Reading::Most => &[USUAL_STEPS, MOST_STEPS],
        };
        let mut found = None;
        for count in counts {
            let composed = Composition::of(pieces).training(keeps_gradients, *count);
            let (free, repeats) =
                replay_steps(&composed.trace, &composed.ends, LEAST_STEPS, settings);
            let is_steady = repeats.is_some();
            found = Some(ComposedTraining {
                last_step: composed.ends[composed.ends.len().saturating_sub(2)],
                trace: composed.trace,
                free,
                repeats: is_steady,
                kinds: composed.kinds,
            });
            if is_steady {
                break;
            }
        }
        found.unwrap_or_default()
    }

    /// The events of a training's first steps alone, where only room for them is asked for.
    pub fn events(pieces: Pieces<'_>, keeps_gradients: bool) -> Trace {
        let count = match pieces.step.0.grows.is_empty() {
            true => USUAL_STEPS,
            false => MOST_STEPS,
        };
        let composed = Composition::of(pieces);
        composed.training(keeps_gradients, count).trace
    }

    /// Whether there is but one way to read what was rehearsed.
    pub fn is_sure(&self, said: &Rehearsal, variant: &RehearsedVariant) -> bool {
        let lines_tell = variant.may_hold.is_empty()
            && said.zero_grad != Some(ZeroGrad::Unknown)
            && !said.rebuilds_buckets;
        let is_known = lines_tell && !said.copies_model && said.optimizer.is_some();
        self.repeats && (is_known || said.evaluates)
    }

    /// What is alive when the most is.
    pub fn at_its_peak(&self) -> WholeStep {
        self.when_most(WholeStep::total)
    }

    /// What is alive when the most is that no activations are.
    pub fn beside_activations(&self) -> Bytes {
        let beside = |now: &WholeStep| now.total() - now.activations;
        beside(&self.when_most(beside))
    }

    fn when_most(&self, measure: impl Fn(&WholeStep) -> Bytes) -> WholeStep {
        let (mut now, mut most) = (WholeStep::default(), WholeStep::default());
        let mut sizes = Vec::with_capacity(self.kinds.len());
        for event in &self.trace.events {
            match *event {
                TraceEvent::Alloc(block) => {
                    let size = Bytes(block.size);
                    *now.part(self.kinds[sizes.len()]) += size;
                    sizes.push(size);
                    if measure(&now) > measure(&most) {
                        most = now;
                    }
                }
                // It does without where there is no room.
                TraceEvent::Workspace(_) => sizes.push(Bytes::ZERO),
                TraceEvent::Free(number) => {
                    let part = now.part(self.kinds[number]);
                    *part = *part - sizes[number];
                }
                TraceEvent::EmptyCache => {}
            }
        }
        most
    }
}

/// A trace while it is put together.
struct Composition<'a> {
    said: &'a Rehearsal,
    workspaces: Workspaces,
    evaluated: bool,
    one_by_one: bool,
    variant: &'a RehearsedVariant,
    reading: Reading,
    /// The step's events at this batch, and what becomes of each of its allocations.
    events: Vec<TraceEvent>,
    fates: Vec<Fate>,
    batch: u64,
    arguments: u64,
    trace: Trace,
    kinds: Vec<Part>,
    /// Where each step ends.
    ends: Vec<usize>,
    /// What variables hold beyond the step that made it, each with the event before which the next step lets go of it.
    held: Vec<(usize, usize)>,
    gradients: Vec<usize>,
    /// How many workspaces of cuBLAS there are.
    taken: u32,
}

/// What becomes of an allocation of the step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It is freed in the step.
    Freed,
    /// It is let go of when the step has ended.
    Ends,
    /// It stays until a variable is bound again, after the next forward.
    Held,
    /// It stays for good.
    Stays,
    /// It is a gradient.
    Gradient,
}

impl<'a> Composition<'a> {
    fn of(pieces: Pieces<'a>) -> Composition<'a> {
        let Pieces {
            said,
            step: (variant, template),
            batch,
            workspaces,
            evaluated,
            one_by_one,
            reading,
        } = pieces;
        let events = template.events(batch, 0);
        let fates = fates(variant, &events, reading);
        Composition {
            said,
            workspaces,
            evaluated,
            one_by_one,
            variant,
            reading,
            events,
            fates,
            batch,
            arguments: said.arguments.0 / said.batch * batch,
            trace: Trace::default(),
            kinds: Vec::new(),
            ends: Vec::new(),
            held: Vec::new(),
            gradients: Vec::new(),
            taken: workspaces.before,
        }
    }

    /// A training of so many steps.
    fn training(mut self, keeps_gradients: bool, count: usize) -> Composition<'a> {
        self.steps(keeps_gradients, count);
        self
    }

    fn steps(&mut self, keeps_gradients: bool, count: usize) {
        if self.said.evaluates {
            self.calls(count);
            return;
        }
        let states = self.before();
        let optimizer = self.optimizer();
        if self.evaluated && self.reading != Reading::Least {
            self.evaluate();
        }
        for number in 0..count {
            let old_buckets = match number {
                1 => self.old_buckets(),
                _ => Vec::new(),
            };
            self.micro_step();
            old_buckets.into_iter().for_each(|number| self.free(number));
            if keeps_gradients {
                self.micro_step_that_adds();
            }
            if number == 0 {
                for _ in 0..states {
                    self.all_trained();
                }
            }
            let made = match (optimizer.foreach, self.one_by_one) {
                (true, false) => self.all_trained(),
                (true, true) => self.of_the_largest(),
                (false, _) => Vec::new(),
            };
            made.into_iter().for_each(|number| self.free(number));
            match self.zero_grad() {
                ZeroGrad::Forward | ZeroGrad::Unknown => self.let_go_of_gradients(),
                ZeroGrad::Backward | ZeroGrad::Never => {}
            }
            if number == 0 && self.said.copies_model && self.reading == Reading::Most {
                let weights = self.weights().iter().sum();
                self.allocate(weights, Part::Other);
            }
            self.ends.push(self.trace.events.len());
        }
    }

    /// An evaluation: call after call, with what there is beside it.
    fn calls(&mut self, count: usize) {
        self.before();
        for _ in 0..count {
            self.passes(false);
            self.ends.push(self.trace.events.len());
        }
    }

    /// What is there before the first step; how many state tensors of each parameter come in it.
    fn before(&mut self) -> u32 {
        let said = self.said;
        let weights: u64 = said.weights.iter().sum();
        let optimizer = self.optimizer();
        let rest = said.before - said.arguments - Bytes(weights);
        // What was made of the batch is less with a smaller one.
        let of_batch = said.before_of_batch.unwrap_or_default().min(rest);
        let rest = rest - of_batch;
        let of_batch = of_batch.0 / said.batch * self.batch;
        let trained: u64 = said.trained.iter().sum();
        let (states, rest, of_rest) = match (optimizer.has_state, optimizer.states) {
            // An optimizer that is not known most likely is one of Adam's kind.
            (false, states) => (states.unwrap_or(2), rest, Part::Other),
            // A process that starts anew has no state in its first step: the state then lies among
            // what that step's activations left.
            (true, Some(states)) if rest.0 >= trained * u64::from(states) => {
                let state = Bytes(trained * u64::from(states));
                (states, rest - state, Part::Other)
            }
            (true, _) => (0, rest, Part::Optimizer),
        };
        let weights = self.weights().iter().map(|size| (*size, Part::Parameters));
        for (size, of) in weights.chain([(rest.0, of_rest), (of_batch, Part::Other)]) {
            if size > 0 {
                self.allocate(size, of);
            }
        }
        states
    }

    /// The weights that are on the GPU.
    fn weights(&self) -> &'a [u64] {
        self.variant.weights.as_ref().unwrap_or(&self.said.weights)
    }

    /// A program without an optimizer of torch's changes its weights by itself, most likely without any state.
    fn optimizer(&self) -> OptimizerMemory {
        let none = OptimizerMemory {
            states: (self.reading != Reading::Most).then_some(0),
            ..OptimizerMemory::default()
        };
        self.said.optimizer.clone().unwrap_or(none)
    }

    fn trained_sizes(&self) -> &'a [u64] {
        self.variant.trained.as_ref().unwrap_or(&self.said.trained)
    }

    /// What gradients were sent in before their buckets were made anew, where it may still be there.
    fn old_buckets(&mut self) -> Vec<usize> {
        let flops = self.variant.flops / self.said.batch * self.batch;
        let may_last = match self.reading {
            Reading::Least => false,
            Reading::Likely => self.said.compiled_whole && flops < OLD_BUCKETS_LAST_COMPILED,
            Reading::Most => flops < OLD_BUCKETS_LAST,
        };
        if !may_last || !self.said.rebuilds_buckets {
            return Vec::new();
        }
        let sizes = self.trained_sizes().iter();
        sizes
            .map(|size| self.allocate(*size, Part::Other))
            .collect()
    }

    /// One tensor like each trained parameter.
    fn all_trained(&mut self) -> Vec<usize> {
        self.trained_sizes()
            .iter()
            .map(|size| self.allocate(*size, Part::Optimizer))
            .collect()
    }

    /// What a step through the parameters one by one makes at the most: tensors like the largest of them.
    fn of_the_largest(&mut self) -> Vec<usize> {
        let sizes = self.trained_sizes().iter();
        let largest = sizes.max().copied().filter(|size| *size > 0);
        let several = std::iter::repeat_n(largest, ONE_BY_ONE).flatten();
        several
            .map(|size| self.allocate(size, Part::Optimizer))
            .collect()
    }

    /// When the gradients are let go of. A probe that did not ask leaves it at what is usual.
    fn zero_grad(&self) -> ZeroGrad {
        match (self.said.zero_grad, self.reading) {
            (Some(ZeroGrad::Unknown), Reading::Most) => ZeroGrad::Backward,
            (Some(said), _) => said,
            (None, _) => ZeroGrad::Forward,
        }
    }

    /// A thread's first matrix product: cuBLAS takes a workspace for it and keeps it, in the best place that is free by then.
    /// The forward pass and the backward pass have a thread each.
    fn multiply(&mut self, threads: u32) {
        let threads = threads.min(self.workspaces.threads);
        while self.taken < threads && self.reading != Reading::Least {
            self.allocate(self.workspaces.size.0, Part::Other);
            self.taken += 1;
        }
    }

    fn allocate(&mut self, size: u64, of: Part) -> usize {
        self.allocate_block(TraceBlock { size, stream: 0 }, of)
    }

    fn allocate_block(&mut self, block: TraceBlock, of: Part) -> usize {
        self.trace.events.push(TraceEvent::Alloc(block));
        self.kinds.push(of);
        self.kinds.len() - 1
    }

    fn take_if_there_is_room(&mut self, block: TraceBlock) -> usize {
        self.trace.events.push(TraceEvent::Workspace(block));
        self.kinds.push(Part::Other);
        self.kinds.len() - 1
    }

    fn free(&mut self, allocation: usize) {
        self.trace.events.push(TraceEvent::Free(allocation));
    }

    /// Those variables of the step before that are bound again by this event.
    fn let_go(&mut self, event: usize) {
        for (allocation, until) in std::mem::take(&mut self.held) {
            match until <= event {
                true => self.free(allocation),
                false => self.held.push((allocation, until)),
            }
        }
    }

    /// The event of the next step before which what a variable holds of this one is let go of.
    fn until(&self, allocation: usize) -> usize {
        let held = self.variant.held.iter();
        let mut known = held.zip(&self.variant.until);
        let found = known.find(|(number, _)| **number == allocation);
        found.map_or(self.variant.forward, |(_, until)| *until)
    }

    fn let_go_of_gradients(&mut self) {
        for allocation in std::mem::take(&mut self.gradients) {
            self.free(allocation);
        }
    }

    /// Calls of the model without gradients: what forward would keep for backward is let go of when what is made of it is
    /// there. Its segments stay in the cache, and the first step divides them among smaller tensors.
    fn evaluate(&mut self) {
        let forward = self.variant.loss.max(self.variant.forward);
        let events = std::mem::take(&mut self.events);
        let mut returned = Vec::new();
        for _ in 0..EVALUATED {
            let mut live: Vec<Option<usize>> = Vec::new();
            for event in &events[..forward.min(events.len())] {
                let taken = match *event {
                    TraceEvent::Alloc(block) => Some(self.allocate_block(block, Part::Activations)),
                    TraceEvent::Workspace(block) => Some(self.take_if_there_is_room(block)),
                    TraceEvent::Free(_) | TraceEvent::EmptyCache => None,
                };
                if taken.is_some() {
                    live.push(taken);
                    let past = live.len().checked_sub(EVALUATION_KEEPS + 1);
                    let past = past.filter(|at| self.fates[*at] != Fate::Held);
                    if let Some(number) = past.and_then(|at| live[at].take()) {
                        self.free(number);
                    }
                }
                if let TraceEvent::Free(allocation) = *event
                    && let Some(number) = live[allocation].take()
                {
                    self.free(number);
                }
            }
            let last = std::mem::replace(&mut returned, live.into_iter().flatten().collect());
            last.into_iter().for_each(|number| self.free(number));
        }
        returned.into_iter().for_each(|number| self.free(number));
        self.events = events;
    }

    /// Forward and backward of a step's first part. The gradients of the step before may still be there.
    fn micro_step(&mut self) {
        match self.gradients.is_empty() || self.zero_grad() != ZeroGrad::Never {
            true => self.passes(false),
            false => self.passes(true),
        }
    }

    /// Those of a further part, which adds to the gradients of the one before.
    fn micro_step_that_adds(&mut self) {
        self.passes(true);
    }

    /// Forward and backward. What is not freed by then are gradients; where gradients are there already, new ones are
    /// added to them and freed at once. What the program's variables hold at the end stays until they are bound again,
    /// after the next forward.
    fn passes(&mut self, adds: bool) {
        let given = (self.arguments > 0).then(|| self.allocate(self.arguments, Part::Activations));
        self.multiply(1);
        let mut numbers = Vec::with_capacity(self.fates.len());
        let (mut at_event, mut pending) = (0, None);
        let events = std::mem::take(&mut self.events);
        let backward = self.variant.loss.max(self.variant.forward);
        for event in &events {
            self.let_go(at_event);
            if at_event == backward {
                if !adds {
                    self.let_go_of_gradients();
                }
                self.multiply(2);
            }
            at_event += 1;
            match *event {
                TraceEvent::Alloc(block) => {
                    let fate = self.fates[numbers.len()];
                    let of = match fate {
                        Fate::Gradient => Part::Gradients,
                        Fate::Stays => Part::Other,
                        Fate::Freed | Fate::Ends | Fate::Held => Part::Activations,
                    };
                    let number = self.allocate_block(block, of);
                    numbers.push(number);
                    if let Some(gradient) = pending.take() {
                        self.free(gradient);
                    }
                    if adds && fate == Fate::Gradient {
                        pending = Some(number);
                    }
                }
                TraceEvent::Workspace(block) => numbers.push(self.take_if_there_is_room(block)),
                TraceEvent::Free(allocation) => {
                    if self.fates[allocation] == Fate::Freed {
                        self.free(numbers[allocation]);
                    }
                }
                TraceEvent::EmptyCache => self.trace.events.push(TraceEvent::EmptyCache),
            }
        }
        self.events = events;
        pending
            .into_iter()
            .chain(given)
            .for_each(|number| self.free(number));
        self.let_go(usize::MAX);
        if !adds {
            self.let_go_of_gradients();
        }
        let fates = std::mem::take(&mut self.fates);
        for (at, fate) in fates.iter().enumerate() {
            match fate {
                Fate::Ends => self.free(numbers[at]),
                Fate::Held => self.held.push((numbers[at], self.until(at))),
                Fate::Gradient if !adds => self.gradients.push(numbers[at]),
                Fate::Gradient | Fate::Freed | Fate::Stays => {}
            }
        }
        self.fates = fates;
    }
}

fn fates(variant: &RehearsedVariant, events: &[TraceEvent], reading: Reading) -> Vec<Fate> {
    let mut fates = Vec::new();
    for event in events {
        match *event {
            TraceEvent::Alloc(_) | TraceEvent::Workspace(_) => fates.push(Fate::Gradient),
            TraceEvent::Free(allocation) => fates[allocation] = Fate::Freed,
            TraceEvent::EmptyCache => {}
        }
    }
    let alive = |fate: Fate| fate == Fate::Gradient;
    for (lists, kept) in [(&variant.held, Fate::Held), (&variant.grows, Fate::Stays)] {
        for at in lists {
            if let Some(fate) = fates.get_mut(*at).filter(|fate| alive(**fate)) {
                *fate = kept;
            }
        }
    }
    for at in &variant.may_hold {
        // What was rehearsed as let go of in the step may be held all the same.
        let Some(fate) = fates.get_mut(*at) else {
            continue;
        };
        *fate = match (*fate, reading) {
            (Fate::Stays, _) => Fate::Stays,
            (_, Reading::Most) => Fate::Held,
            (Fate::Gradient, Reading::Least | Reading::Likely) => Fate::Ends,
            (known, Reading::Least | Reading::Likely) => known,
        };
    }
    fates
}

/// What a piece of memory is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Parameters,
    Gradients,
    /// The state, and what its step makes for itself.
    Optimizer,
    Activations,
    Other,
}

/// What a whole training step holds at its peak.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WholeStep {
    /// Parameters and buffers of the model.
    pub parameters: Bytes,
    /// The gradients that are there by then.
    pub gradients: Bytes,
    /// The optimizer's.
    pub optimizer: Bytes,
    /// What forward keeps for backward, the batch itself, and temporaries.
    pub activations: Bytes,
    /// What the program had allocated beside its model.
    pub other: Bytes,
}

impl WholeStep {
    /// All of it.
    pub fn total(&self) -> Bytes {
        self.parameters + self.gradients + self.optimizer + self.activations + self.other
    }

    fn part(&mut self, part: Part) -> &mut Bytes {
        match part {
            Part::Parameters => &mut self.parameters,
            Part::Gradients => &mut self.gradients,
            Part::Optimizer => &mut self.optimizer,
            Part::Activations => &mut self.activations,
            Part::Other => &mut self.other,
        }
    }
}
