//! What a training needs by a rehearsal of its step: the rehearsed allocations, the optimizer's state and
//! its temporaries put together to two steps, and played through the allocator.

#[cfg(test)]
mod tests;

use super::estimate::ActivationReduction;
use super::estimate::Estimate;
use super::estimate::{Allocator, Target};
use super::replay::{AllocatorSettings, ReplayRoom, replay};
use super::trace::{Trace, TraceBlock, TraceEvent, TraceTemplate};
use crate::event::{InputSizes, Rehearsal, RehearsedVariant};
use crate::units::Bytes;

/// What matrix products and other kernels take for themselves, which a rehearsal does not see: cuBLAS has
/// a workspace for each thread that calls it (32 MiB on Hopper, 8 MiB before).
const WORKSPACES: (Bytes, Bytes) = (Bytes::mib(64), Bytes::mib(160));
/// How far off a rehearsed peak was at the most, as a share of it (decoders, BERT, ViT, LoRA, ResNet; fp32
/// and bf16; torch 2.11): 0.0 to 2.4 %, always below.
const SPREAD: f64 = 0.025;
/// How far off it was at the most where there are convolutions, whose workspaces are as large as their outputs: up to 28 %.
const CONVOLUTIONS: f64 = 0.30;
/// By how much these need more than was rehearsed where there is no more room: cuDNN then takes what
/// needs less. At the largest batch that ran under a cap (U-Nets, ResNet, RetinaNet; fp32 and bf16) it
/// was 1 % less to 4 % more.
const PRESSED_CONVOLUTIONS: f64 = 0.05;
/// What they need at the least, as a share of it: a U-Net in bf16 ran with 18 % less than was replayed.
const LEAST_CONVOLUTIONS: f64 = 0.82;
/// By how much their allocated peak most likely exceeds the rehearsed one: 0 to 9 % in 24 relaunches.
const LIKELY_CONVOLUTIONS: f64 = 0.03;
/// How far beyond the largest inputs seen later ones are allowed for: of the range of those seen, so
/// many parts of (calls − 1), at most the whole. A choice: of evenly spread sizes the largest of `n`
/// lies one part below the end on average, and three parts at 19 times of 20.
pub(crate) const RANGES_BEYOND: f64 = 3.0;
/// A rehearsal that falls short by more than this is of something else than what failed.
const MOST_RAISED: f64 = 2.0;
/// The share of a need to which it is searched for.
const EXACTLY: f64 = 0.003;
/// Steps after which what is reserved repeats. The optimizer's state is there from the second on; what
/// its blocks leave between them can fail the third (a decoder at its largest batch but one under a cap).
const STEPS: usize = 4;

/// How far what a run reserves may be from a replay that begins with its first step: what else it did before leaves its own
/// pieces (as `BELIEVED` of a traced step). It grows by as much again as in a last step that had not repeated.
const RESERVED: f64 = 0.08;

/// A training on a GPU of some size, by its replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OnCard {
    /// Whether it fits only because the allocator gives its cache back and tries again, which takes time.
    pub retries: bool,
    /// What it will have reserved: what it needs, and what stays in the cache where there is room.
    pub reserved: Estimate,
}

/// What was said of a variant, and its trace.
type Variant = (RehearsedVariant, TraceTemplate);

/// A training by its rehearsal.
#[derive(Debug, Clone)]
pub struct Rehearsed {
    said: Rehearsal,
    /// The batch that the forecast counts for the rehearsal's own.
    counted: u64,
    /// How the allocator was set.
    settings: AllocatorSettings,
    variants: Vec<Variant>,
    /// How many times as much is needed as was rehearsed, by what ran out of memory although it should have fit.
    raised: f64,
}

impl Rehearsed {
    /// A rehearsal of a run whose command says a batch of `counted`; `None` where it came to nothing.
    pub fn new(said: &Rehearsal, counted: u64) -> Option<Rehearsed> {
        let read = |variant: &RehearsedVariant| {
            let template = variant.trace.as_ref()?.parse().ok()?;
            Some((variant.clone(), template))
        };
        let variants: Vec<_> = said.variants.iter().filter_map(read).collect();
        (!variants.is_empty() && said.batch > 0 && counted > 0).then(|| Rehearsed {
            said: said.clone(),
            counted,
            settings: AllocatorSettings::default(),
            variants,
            raised: 1.0,
        })
    }

    /// The rehearsed step with other settings of the allocator (`PYTORCH_CUDA_ALLOC_CONF`).
    pub fn under(self, alloc_conf: &str) -> Rehearsed {
        let settings = AllocatorSettings::parse(alloc_conf);
        Rehearsed { settings, ..self }
    }

    /// With what is known of targets that ran out of memory where so much could be had: where one should have fit by its
    /// rehearsal, everything needs more by as much.
    pub fn that_failed(self, failed: impl Iterator<Item = (Target, Bytes)>) -> Rehearsed {
        let short = |(target, room): (Target, Bytes)| room.fraction_of(self.needs(&target)?.likely);
        let raised = failed.filter_map(short).fold(1.0, f64::max);
        Rehearsed {
            raised: raised.min(MOST_RAISED),
            ..self
        }
    }

    /// This step, where what was counted as `of` is really `batch`.
    pub(super) fn counted(self, batch: u64, of: u64) -> Rehearsed {
        let counted = self.counted.saturating_mul(batch) / of.max(1);
        Rehearsed {
            counted: counted.max(1),
            ..self
        }
    }

    /// Whether the model has convolutions, whose workspaces no rehearsal sees.
    pub fn has_convolutions(&self) -> bool {
        self.said.convolutions
    }

    /// Whether the target was rehearsed.
    pub fn knows(&self, target: &Target) -> bool {
        self.variant(target).is_some()
    }

    /// What the step that ran out would have needed as a whole, and of what.
    pub fn whole_step(&self) -> Option<WholeStep> {
        let as_it_was = Target {
            batch: self.counted,
            keeps_gradients: false,
            treatment: ActivationReduction::default(),
            allocator: Allocator::Fixed,
        };
        Some((self.made(self.variant(&as_it_was)?, &as_it_was)).at_its_peak())
    }

    /// The least that a step of one sample needs: as it was, with checkpointing, in bf16, or both.
    pub fn least_step(&self) -> Option<WholeStep> {
        let of_variant = |variant: &Variant| {
            let one = Target {
                batch: 1,
                keeps_gradients: false,
                treatment: ActivationReduction {
                    mixed: variant.0.amp,
                    recomputed: variant.0.checkpointing,
                },
                allocator: Allocator::Expandable,
            };
            self.made(variant, &one).at_its_peak()
        };
        let all = self.variants.iter().map(of_variant);
        all.min_by_key(WholeStep::total)
    }

    /// The allocated peak of a target.
    pub fn peak(&self, target: &Target) -> Option<Estimate> {
        let trace = self.training(self.variant(target)?, target);
        let done = replay(&trace, &self.settings(target), ReplayRoom::default());
        let peak = Bytes(done.allocated_peak).scale(self.raised);
        let (likely, spread) = match self.said.convolutions {
            true => (peak.scale(1.0 + LIKELY_CONVOLUTIONS), CONVOLUTIONS),
            false => (peak, SPREAD),
        };
        let seen = self.around(peak, likely, spread);
        Some(match self.with_larger_inputs(target) {
            Some(larger) => seen.up_to(self.of_these_inputs().peak(&larger)?.high),
            None => seen,
        })
    }

    /// What the allocator must be able to reserve for a target. It reserves more where there is more,
    /// and gives back what it can where there is not.
    pub fn needs(&self, target: &Target) -> Option<Estimate> {
        let trace = self.training(self.variant(target)?, target);
        let settings = self.settings(target);
        let free = replay(&trace, &settings, ReplayRoom::default());
        let (mut low, mut high) = (free.allocated_peak, free.reserved_peak);
        while (high - low) as f64 > high as f64 * EXACTLY {
            let middle = low + (high - low) / 2;
            match runs_in(&trace, &settings, middle) {
                true => high = middle,
                false => low = middle,
            }
        }
        let needed = Bytes(high).scale(self.raised);
        let seen = self.around(needed, needed, self.spread_at_the_limit());
        let seen = match self.said.convolutions {
            true => Estimate::new(seen.low.scale(LEAST_CONVOLUTIONS), seen.likely, seen.high),
            false => seen,
        };
        Some(match self.with_larger_inputs(target) {
            Some(larger) => seen.up_to(self.of_these_inputs().needs(&larger)?.high),
            None => seen,
        })
    }

    /// What a target does where PyTorch may reserve so much; `None` where memory runs out by its rehearsal.
    pub fn on_card(&self, target: &Target, room: Bytes) -> Option<OnCard> {
        let trace = self.training(self.variant(target)?, target);
        let settings = self.settings(target);
        let own_room = room.scale(1.0 / self.raised);
        let within = |device| replay(&trace, &settings, ReplayRoom { device, cap: None });
        let played = within(Some(own_room.0));
        if played.ran_out.is_some() {
            return None;
        }
        // Where there is more room than here nothing is given back, and before the last step nothing had to be.
        let free = within(None);
        let last_step = trace.events.len() - trace.events.len() / STEPS;
        let grown = match played.last_raised >= last_step {
            true => played.reserved_peak - played.before_that.min(played.reserved_peak),
            false => 0,
        };
        let spread = RESERVED
            + if self.said.convolutions {
                CONVOLUTIONS
            } else {
                0.0
            };
        let (usual, most) = WORKSPACES;
        let likely = Bytes(played.reserved_peak).scale(self.raised) + usual;
        let most = Bytes(free.reserved_peak + grown).scale(self.raised * (1.0 + spread)) + most;
        let least = self.needs(target)?.low;
        Some(OnCard {
            retries: played.retries > 0,
            reserved: Estimate::new(least.min(room), likely.min(room), most.min(room)),
        })
    }

    /// The sizes of its inputs, where they differed or larger ones may come.
    pub fn input_sizes(&self) -> Option<InputSizes> {
        let varies = |sizes: &InputSizes| sizes.differ() || sizes.beyond(RANGES_BEYOND) > 0.0;
        self.said.inputs.filter(varies)
    }

    /// Where inputs differ in size: the target as if its inputs were as much larger than the largest
    /// seen as later ones may be. What grows with the batch grows with them at least as fast.
    fn with_larger_inputs(&self, target: &Target) -> Option<Target> {
        let beyond = self.input_sizes()?.beyond(RANGES_BEYOND);
        Some(Target {
            batch: (target.batch as f64 * (1.0 + beyond)).ceil() as u64,
            ..*target
        })
    }

    /// The rehearsed step as if no inputs were larger.
    fn of_these_inputs(&self) -> Rehearsed {
        let mut same = self.clone();
        same.said.inputs = None;
        same
    }

    /// By what share more is computed where activations are recomputed as the target has them.
    pub fn computes_again(&self, target: &Target) -> Option<f64> {
        let flops = |treatment: ActivationReduction| {
            let (variant, _) = self.entry(treatment)?;
            (variant.flops > 0).then_some(variant.flops as f64)
        };
        let recomputed = target.treatment;
        let kept = ActivationReduction {
            recomputed: false,
            ..recomputed
        };
        // In other precision no more and no less is computed.
        let plain = flops(kept).or_else(|| flops(ActivationReduction::default()))?;
        let more = flops(recomputed).filter(|_| recomputed.recomputed)? / plain - 1.0;
        (more >= 0.0).then_some(more)
    }

    /// Whether a target runs in so much room by its rehearsal alone.
    pub fn runs_in(&self, target: &Target, room: Bytes) -> Option<bool> {
        let trace = self.training(self.variant(target)?, target);
        let room = room.scale(1.0 / self.raised);
        Some(runs_in(&trace, &self.settings(target), room.0))
    }

    /// Whether the upper end of what a target needs fits with this margin, of which the interval is a
    /// part. One replay says it.
    pub(super) fn fits(&self, target: &Target, room: Bytes, margin: f64) -> Option<bool> {
        let target = &self.with_larger_inputs(target).unwrap_or(*target);
        let trace = self.training(self.variant(target)?, target);
        let share = 1.0 + self.spread_at_the_limit().max(margin);
        let room = (room - WORKSPACES.1).scale(1.0 / share / self.raised);
        Some(runs_in(&trace, &self.settings(target), room.0))
    }

    fn spread_at_the_limit(&self) -> f64 {
        match self.said.convolutions {
            true => PRESSED_CONVOLUTIONS,
            false => SPREAD,
        }
    }

    fn settings(&self, target: &Target) -> AllocatorSettings {
        AllocatorSettings {
            expandable_segments: target.allocator == Allocator::Expandable,
            ..self.settings.clone()
        }
    }

    fn around(&self, bytes: Bytes, likely: Bytes, spread: f64) -> Estimate {
        let (usual, most) = WORKSPACES;
        let likely = likely + usual;
        let high = bytes.scale(1.0 + spread) + most;
        // A loss that the program computes by itself is an assumption.
        let low = match self.said.own_loss {
            true => bytes,
            false => bytes.scale(0.9),
        };
        Estimate::new(low, likely, high)
    }

    fn variant(&self, target: &Target) -> Option<&Variant> {
        self.entry(target.treatment)
    }

    fn entry(&self, treatment: ActivationReduction) -> Option<&Variant> {
        self.variants.iter().find(|(variant, _)| {
            variant.amp == treatment.mixed && variant.checkpointing == treatment.recomputed
        })
    }

    /// Two steps of the training at a batch.
    fn training(&self, step: &Variant, target: &Target) -> Trace {
        self.made(step, target).trace
    }

    fn made(&self, step: &Variant, target: &Target) -> SynthesizedTrace {
        let batch = (target.batch.saturating_mul(self.said.batch) / self.counted).max(1);
        let said = &self.said;
        let weights: u64 = said.weights.iter().sum();
        let optimizer = said.optimizer.clone().unwrap_or_default();
        let rest = said.before - said.arguments - Bytes(weights);
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
        let mut trace = SynthesizedTrace::default();
        let weights = said.weights.iter().map(|size| (*size, Part::Parameters));
        for (size, of) in weights.chain([(rest.0, of_rest)]) {
            if size > 0 {
                trace.allocate(size, of);
            }
        }
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
                    trace.allocate(size, Part::Optimizer);
                }
            }
            if optimizer.foreach {
                let made: Vec<usize> = said
                    .trained
                    .iter()
                    .map(|size| trace.allocate(*size, Part::Optimizer))
                    .collect();
                made.into_iter().for_each(|number| trace.free(number));
            }
            gradients.into_iter().for_each(|number| trace.free(number));
        }
        trace
    }
}

/// Whether a trace runs where the allocator may reserve so many bytes.
fn runs_in(trace: &Trace, settings: &AllocatorSettings, bytes: u64) -> bool {
    let room = ReplayRoom {
        device: Some(bytes),
        cap: None,
    };
    replay(trace, settings, room).ran_out.is_none()
}

/// A trace while it is put together.
#[derive(Default)]
struct SynthesizedTrace {
    trace: Trace,
    /// What each allocation is of, by its number.
    kinds: Vec<Part>,
    /// What variables hold beyond the step that made it.
    held: Vec<usize>,
}

impl SynthesizedTrace {
    fn allocate(&mut self, size: u64, of: Part) -> usize {
        let block = TraceBlock { size, stream: 0 };
        self.trace.events.push(TraceEvent::Alloc(block));
        self.kinds.push(of);
        self.kinds.len() - 1
    }

    /// The variables of the step before are bound again.
    fn let_go(&mut self) {
        for allocation in std::mem::take(&mut self.held) {
            self.free(allocation);
        }
    }

    fn free(&mut self, allocation: usize) {
        self.trace.events.push(TraceEvent::Free(allocation));
    }

    /// Forward and backward: what is not freed by then are gradients, which are returned. Where
    /// gradients are there already, new ones are added to them and freed at once. What the program's variables hold at
    /// the end stays until they are bound again, after the next forward.
    fn step(&mut self, step: &Variant, batch: u64, arguments: u64, adds: bool) -> Vec<usize> {
        let (said, step) = step;
        let given = (arguments > 0).then(|| self.allocate(arguments, Part::Activations));
        let first = self.kinds.len();
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
        let is_alive = |at: &&usize| alive.get(**at).is_some_and(|alive| *alive);
        let held: Vec<usize> = said.held.iter().filter(is_alive).copied().collect();
        for at in &held {
            alive[*at] = false;
        }
        let mut pending = None;
        for (at, event) in events.into_iter().enumerate() {
            if at == said.forward {
                self.let_go();
            }
            self.trace.events.push(event);
            if let TraceEvent::Alloc(_) = event {
                let number = self.kinds.len();
                self.kinds.push(match alive[number - first] {
                    true => Part::Gradients,
                    false => Part::Activations,
                });
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
        self.let_go();
        self.held.extend(held.iter().map(|at| first + at));
        let gradients = (0..count).filter(|at| alive[*at] && !adds);
        gradients.map(|at| first + at).collect()
    }

    /// What is alive when the most is.
    fn at_its_peak(&self) -> WholeStep {
        let (mut now, mut most) = (WholeStep::default(), WholeStep::default());
        let mut sizes = Vec::with_capacity(self.kinds.len());
        for event in &self.trace.events {
            match *event {
                TraceEvent::Alloc(block) => {
                    let size = Bytes(block.size);
                    *now.part(self.kinds[sizes.len()]) += size;
                    sizes.push(size);
                    if now.total() > most.total() {
                        most = now;
                    }
                }
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
