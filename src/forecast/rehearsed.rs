//! What a training needs by a rehearsal of its step: the rehearsed allocations, the optimizer's state and
//! its temporaries put together to two steps, and played through the allocator.

mod memo;
mod training;

#[cfg(test)]
mod tests;

pub use training::WholeStep;

use super::estimate::ActivationReduction;
use super::estimate::Estimate;
use super::estimate::{Allocator, Target};
use super::replay::{AllocatorSettings, ReplayRoom, replay};
use super::trace::{Trace, TraceEvent, TraceTemplate};
use super::workspaces::Workspaces;
use crate::event::{
    HeadShape, InputSizes, RankChange, Rehearsal, RehearsedVariant, SavedInRam, StepTrace,
};
use crate::units::Bytes;
use memo::{PlayedInRoom, PlayedTraining, TrainingKey, known, note};
use std::hash::{DefaultHasher, Hash, Hasher};
use training::{ComposedTraining, Pieces, Reading};

/// What kernels take beside the workspaces of cuBLAS, which no rehearsal sees, at the most: without convolutions and with
/// them. In small trainings it is less: `LIBRARIES_SHARE`.
const LIBRARIES: (Bytes, Bytes) = (Bytes::mib(32), Bytes::mib(96));
/// The largest share of the memory that it takes. At most 23 MiB of 516 were seen, in a VGG of 130 MiB of weights.
const LIBRARIES_SHARE: f64 = 0.06;
/// How far off a rehearsed peak was at the most, as a share of it (decoders, BERT, ViT, LoRA, ResNet; fp32
/// and bf16; torch 2.11): 0.0 to 2.4 %, always below.
const SPREAD: f64 = 0.025;
/// How far off it was at the most where there are convolutions, whose workspaces are as large as their outputs: up to 28 %.
const CONVOLUTIONS: f64 = 0.30;
/// The same where cuDNN tries its algorithms first: what it takes meanwhile is no need, but it is the peak. A ResNet-50 reached
/// 1.77 times of it.
const AUTOTUNED: f64 = 1.0;
/// By how much these need more than was rehearsed where there is no more room: cuDNN then takes what
/// needs less. At the largest batch that ran under a cap (U-Nets, ResNet, RetinaNet; fp32 and bf16) it
/// was 1 % less to 4 % more.
const PRESSED_CONVOLUTIONS: f64 = 0.05;
/// What they need at the least, as a share of it: a U-Net in bf16 ran with 18 % less than was replayed.
const LEAST_CONVOLUTIONS: f64 = 0.82;
/// What a compiled step needs of what it needs as it is written, at the least and at the most: fused kernels keep less for
/// backward; what is written in several places is computed ahead, gradients are handed over all at once, and algorithms are
/// tried. A choice: too few were measured.
const COMPILED: (f64, f64) = (0.5, 1.10);
/// The same where the compiled graphs say what they allocate: for another batch they are compiled again, and may be fused in
/// another way. A choice; compared on a CPU only, where it was less than 1 %.
const GRAPHS: (f64, f64) = (0.85, 1.10);
/// What an allocated peak comes to, as a share of the memory that there is, where cuDNN tries its algorithms: each takes the
/// largest workspace that is free, half of it where that runs out, and so on (0.87 to 0.99 in ten programs)...
const AUTOTUNED_SHARE: f64 = 0.94;
/// ... but no more than so many times what is needed without.
const AUTOTUNED_TIMES: f64 = 1.8;
/// What is needed at the least, as a share of what was rehearsed, where answers about the program's data were assumed. A choice.
const ASSUMED_VALUES: f64 = 0.7;
/// How far beyond the largest inputs seen later ones are allowed for: of the range of those seen, so
/// many parts of (calls − 1), at most the whole. A choice: of evenly spread sizes the largest of `n`
/// lies one part below the end on average, and three parts at 19 times of 20.
pub(crate) const RANGES_BEYOND: f64 = 3.0;
/// How many standard deviations beyond the rehearsed batch the lengths of a later one are allowed for, in all: two are reached by
/// one batch in fifty. A choice.
const DEVIATIONS: f64 = 2.0;
/// A rehearsal that falls short by more than this is of something else than what failed.
const MOST_RAISED: f64 = 2.0;
/// The share of a need to which it is searched for, and that of what pieces of the cache may take: where most of a GPU is taken by
/// what stays, the one is more than the other.
const EXACTLY: f64 = 0.003;
const EXACTLY_OF_PIECES: f64 = 1.0 / 64.0;
/// How far what a run reserves may be from a replay that begins with its first step: what else it did before leaves its own
/// pieces (as `BELIEVED` of a traced step). It grows by as much again as in a last step that had not repeated.
const RESERVED: f64 = 0.08;

/// How many times its allocated peak a training with convolutions may reserve: 687 MiB were allocated and 1,503 reserved when a
/// small network ran out of memory in its fourth step.
const IN_PIECES: f64 = 2.5;

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
    /// A hash of it.
    said_hash: u64,
    /// The batch that the forecast counts for the rehearsal's own.
    counted: u64,
    /// How the allocator was set.
    settings: AllocatorSettings,
    /// The most that the process may reserve, where it has a limit of its own: garbage collection goes by it.
    cap: Option<Bytes>,
    variants: Vec<Variant>,
    /// What cuBLAS takes, and what it had taken before the step.
    workspaces: Workspaces,
    /// Whether the model was called before its first step (an evaluation, a check of a few batches).
    evaluated: bool,
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
        let is_known = |variant: &&RehearsedVariant| variant.change != Some(RankChange::Unknown);
        let variants = said.variants.iter().filter(is_known);
        let variants: Vec<_> = variants.filter_map(read).collect();
        (!variants.is_empty() && said.batch > 0 && counted > 0).then(|| Rehearsed {
            said: said.clone(),
            said_hash: hash_of(said),
            counted,
            settings: AllocatorSettings::default(),
            cap: None,
            variants,
            workspaces: match said.multiplies {
                Some(false) => Workspaces::NONE,
                Some(true) | None => Workspaces {
                    // A loss that was assumed may lead past what the program's own multiplies.
                    threads: match (said.multiplies_backward, said.own_loss) {
                        (Some(false), true) => 1,
                        (Some(false), false) | (Some(true) | None, _) => Workspaces::UNSEEN.threads,
                    },
                    ..Workspaces::before(may_have_evaluated(said))
                },
            },
            evaluated: may_have_evaluated(said),
            raised: 1.0,
        })
    }

    /// With the allocations of the step that failed, where they were traced.
    pub fn traced(self, step: Option<&StepTrace>) -> Rehearsed {
        let Some(workspaces) = step.and_then(|step| Workspaces::seen_in(step, self.said.before))
        else {
            return self;
        };
        Rehearsed {
            workspaces: Workspaces {
                threads: self.workspaces.threads,
                ..workspaces
            },
            evaluated: is_first(&self.said) && workspaces.before > 0,
            ..self
        }
    }

    /// The rehearsed step with other settings of the allocator (`PYTORCH_CUDA_ALLOC_CONF`).
    pub fn under(self, alloc_conf: &str) -> Rehearsed {
        let settings = AllocatorSettings::parse(alloc_conf);
        Rehearsed { settings, ..self }
    }

    /// The rehearsed step in a process that may reserve so much and no more.
    pub fn capped(self, cap: Option<Bytes>) -> Rehearsed {
        Rehearsed { cap, ..self }
    }

    pub(super) fn with_settings(self, settings: &AllocatorSettings) -> Rehearsed {
        let settings = settings.clone();
        Rehearsed { settings, ..self }
    }

    /// With what is known of targets that ran out of memory and would have needed at least so much: where that is more than
    /// by its rehearsal, everything needs more by as much. `None` where it is so much more that the rehearsal left out most of
    /// it: what hooks of the program's keep, say.
    pub fn that_failed(self, failed: impl Iterator<Item = (Target, Bytes)>) -> Option<Rehearsed> {
        let short =
            |(target, least): (Target, Bytes)| least.fraction_of(self.needs(&target)?.likely);
        let raised = failed.filter_map(short).fold(1.0, f64::max);
        (raised <= MOST_RAISED).then_some(Rehearsed { raised, ..self })
    }

    /// This step, where what was counted as `of` is really `batch`.
    pub(super) fn counted(self, batch: u64, of: u64) -> Rehearsed {
        let counted = self.counted.saturating_mul(batch) / of.max(1);
        Rehearsed {
            counted: counted.max(1),
            ..self
        }
    }

    /// Allocated when the model was called.
    pub fn before(&self) -> Bytes {
        self.said.before
    }

    /// The most that is there at once in the step as it was rehearsed, without what an optimizer adds: one pass over its events.
    pub fn at_once(&self) -> Bytes {
        let of = |(_, template): &Variant| template.events(self.said.batch, 0);
        let (mut sizes, mut now, mut most) = (Vec::new(), 0_u64, 0_u64);
        for event in self.variants.first().map(of).unwrap_or_default() {
            match event {
                TraceEvent::Alloc(block) => {
                    sizes.push(block.size);
                    now += block.size;
                    most = most.max(now);
                }
                TraceEvent::Workspace(_) => sizes.push(0),
                TraceEvent::Free(number) => {
                    now = now.saturating_sub(sizes.get(number).copied().unwrap_or(0));
                }
                TraceEvent::EmptyCache => {}
            }
        }
        self.said.before + Bytes(most)
    }

    /// Whether the model has convolutions, whose workspaces are there by a rule, and are optional.
    pub fn has_convolutions(&self) -> bool {
        self.said.convolutions
    }

    /// Whether a target's cache may come to pieces before so much is reserved: convolutions' workspaces, of another size
    /// each, are taken out of free blocks of fixed segments.
    pub fn may_come_to_pieces(&self, target: &Target, room: Bytes) -> bool {
        let peak = self.peak(target).map(|peak| peak.likely.scale(IN_PIECES));
        let takes_pieces = self.said.convolutions && target.allocator == Allocator::Fixed;
        takes_pieces && peak.is_some_and(|most| most >= room)
    }

    /// The batch of the call, if it is an evaluation's.
    pub fn samples_of_evaluation(&self) -> Option<u64> {
        self.said.evaluates.then_some(self.said.batch)
    }

    /// The head that was rehearsed as computed with its loss, some rows at a time.
    pub fn fused_head(&self) -> Option<HeadShape> {
        self.variants.iter().find_map(|(variant, _)| variant.head)
    }

    /// Whether an evaluation or sampling follows before the next step, of which nothing was seen.
    pub fn is_followed_by_more(&self) -> bool {
        self.said.evaluates_next
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
        let step = self.variant(&as_it_was)?;
        Some(self.at_its_peak(step, &as_it_was, Reading::Least))
    }

    /// The peak of a target that was not rehearsed, by the step as it was: what is done to activations leaves a share of theirs, and
    /// nothing of parameters, gradients, the optimizer's state and its step's temporaries.
    pub fn peak_by_step_as_it_was(&self, target: &Target) -> Option<Estimate> {
        if target.treatment.ranks.is_some() {
            return None;
        }
        let as_it_was = Target {
            treatment: ActivationReduction {
                one_by_one: target.treatment.one_by_one,
                ..ActivationReduction::default()
            },
            ..*target
        };
        let step = self.variant(&as_it_was)?;
        let [low, likely, high] = [Reading::Least, Reading::Likely, Reading::Most].map(|reading| {
            let whole = self.at_its_peak(step, &as_it_was, reading);
            let least = self.beside_activations(step, &as_it_was, reading);
            let beside = (whole.total() - whole.activations).0 as f64;
            let (low, likely, high) = target.treatment.passes(beside, whole.activations.0 as f64);
            [low, likely, high].map(|bytes| least.max(Bytes(bytes as u64)))
        });
        Some(Estimate::new(low[0], likely[1], high[2]))
    }

    /// The least that a step of one sample needs: as it was, with checkpointing, in bf16, both, with what it saves in RAM,
    /// or as ranks can be told to have it.
    pub fn least_step(&self) -> Option<WholeStep> {
        let of_variant = |variant: &Variant| {
            let one = Target {
                batch: 1,
                keeps_gradients: false,
                treatment: ActivationReduction {
                    mixed: variant.0.amp,
                    recomputed: variant.0.checkpointing,
                    offloaded: variant.0.offload,
                    chunked: variant.0.in_chunks(),
                    ranks: variant.0.change,
                    one_by_one: true,
                },
                allocator: Allocator::Expandable,
            };
            self.at_its_peak(variant, &one, Reading::Least)
        };
        // No key moves what lies on the GPU to RAM.
        let is_offered = |variant: &&Variant| variant.0.change != Some(RankChange::Offload);
        let all = self.variants.iter().filter(is_offered).map(of_variant);
        all.min_by_key(WholeStep::total)
    }

    /// The same training without an evaluation before its first step.
    pub fn of_steps_alone(&self) -> Rehearsed {
        Rehearsed {
            evaluated: false,
            ..self.clone()
        }
    }

    /// The allocated peak of a target.
    pub fn peak(&self, target: &Target) -> Option<Estimate> {
        self.peak_in(target, None)
    }

    /// The same where PyTorch may reserve so much.
    pub fn peak_in(&self, target: &Target, room: Option<Bytes>) -> Option<Estimate> {
        let [least, likely, most] = self.each_reading(target, Self::allocated_peak)?;
        let spread = match (self.said.convolutions, self.said.autotunes) {
            (true, true) => AUTOTUNED,
            (true, false) => CONVOLUTIONS,
            (false, _) => SPREAD,
        };
        // Workspaces are only taken where there is room for them.
        let in_room = room.filter(|_| self.said.convolutions).and_then(|room| {
            let room = room.scale(1.0 / self.raised);
            let played = self.in_room(self.variant(target)?, target, room)?;
            Some(Bytes(played.allocated_peak).scale(self.raised))
        });
        let likely = in_room.map_or(likely, |peak| likely.min(peak));
        let tried = room.filter(|_| self.said.convolutions && self.said.autotunes);
        let likely = tried.map_or(likely, |room| {
            let taken = room.scale(AUTOTUNED_SHARE);
            likely.max(taken.min(likely.scale(AUTOTUNED_TIMES)))
        });
        let seen = self.around(target, [least, likely, most], spread);
        Some(match self.with_larger_inputs(target) {
            Some(larger) => seen.up_to(self.of_these_inputs().peak_in(&larger, room)?.high),
            None => seen,
        })
    }

    /// What the allocator must be able to reserve for a target. It reserves more where there is more,
    /// and gives back what it can where there is not.
    pub fn needs(&self, target: &Target) -> Option<Estimate> {
        let [least, likely, most] = self.each_reading(target, Self::smallest_room)?;
        let spread = self.spread_at_the_limit();
        let seen = self.around(target, [least, likely, most], spread);
        let seen = match self.said.convolutions {
            true => Estimate::new(seen.low.scale(LEAST_CONVOLUTIONS), seen.likely, seen.high),
            false => seen,
        };
        // Both may come together: a step of convolutions ran out where only one of them had been counted.
        let split = self.may_be_split(target);
        let seen = match split > Bytes::ZERO {
            true => seen.up_to(most + split + self.libraries(most)),
            false => seen,
        };
        Some(match self.with_larger_inputs(target) {
            Some(larger) => seen.up_to(self.of_these_inputs().needs(&larger)?.high),
            None => seen,
        })
    }

    /// What a target does where PyTorch may reserve so much; `None` where memory runs out by its rehearsal.
    pub fn on_card(&self, target: &Target, room: Bytes) -> Option<OnCard> {
        let own_room = room.scale(1.0 / self.raised);
        let played = self.in_room(self.variant(target)?, target, own_room)?;
        let spread = RESERVED
            + if self.said.convolutions {
                CONVOLUTIONS
            } else {
                0.0
            };
        let likely = Bytes(played.reserved_peak).scale(self.raised);
        let most = Bytes(played.free_peak + played.grown).scale(self.raised * (1.0 + spread));
        // What is free is taken while algorithms are tried, and stays in the cache.
        let most = match self.said.convolutions && self.said.autotunes {
            true => room,
            false => most + self.libraries(most),
        };
        // Pieces that workspaces or an evaluation leave may serve what the replay makes a segment for: a decoder of pixels
        // reserved 2 % more than its peak where 6 to 12 had been replayed.
        let least = self.needs(target)?.low.min(self.peak(target)?.likely);
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
        let inputs = self.input_sizes();
        let beyond = inputs.map(|sizes| sizes.beyond(RANGES_BEYOND));
        let beyond = beyond.unwrap_or(0.0).max(self.longer_sequences(target));
        (inputs.is_some() || beyond > 0.0).then(|| Target {
            batch: (target.batch as f64 * (1.0 + beyond)).ceil() as u64,
            ..*target
        })
    }

    /// By what share a later batch of packed sequences may be longer in all than the rehearsed one: lengths of samples that are
    /// drawn at random differ by less, the more of them there are.
    fn longer_sequences(&self, target: &Target) -> f64 {
        let spread = self.said.lengths_spread.unwrap_or(0.0);
        DEVIATIONS * spread / (self.samples(target).max(1) as f64).sqrt()
    }

    /// The rehearsed step as if no inputs were larger.
    fn of_these_inputs(&self) -> Rehearsed {
        let mut same = self.clone();
        same.said.inputs = None;
        same.said.lengths_spread = None;
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

    /// What a target's step moves to RAM, where that was rehearsed.
    pub fn saved_in_ram(&self, target: &Target) -> Option<SavedInRam> {
        let (variant, _) = self.variant(target)?;
        let ram = variant.ram?;
        let share = self.samples(target) as f64 / self.said.batch as f64;
        Some(SavedInRam {
            takes: ram.takes.scale(share),
            out: ram.out.scale(share),
            back: ram.back.scale(share),
        })
    }

    /// Whether a target runs in so much room by its rehearsal alone.
    pub fn runs_in(&self, target: &Target, room: Bytes) -> Option<bool> {
        self.plays_in(target, Reading::Likely, room.scale(1.0 / self.raised))
    }

    /// Whether the upper end of what a target needs fits with this margin, of which the interval is a
    /// part. One replay says it.
    pub(super) fn fits(&self, target: &Target, room: Bytes, margin: f64) -> Option<bool> {
        let target = &self.with_larger_inputs(target).unwrap_or(*target);
        let share = self.of_compiled(target).1 * (1.0 + self.spread_at_the_limit().max(margin));
        let left = room - self.libraries(room);
        let whole = left.scale(1.0 / share);
        let split = self.may_be_split(target);
        let room = match split > Bytes::ZERO {
            true => whole.min(left - split),
            false => whole,
        };
        let room = room.scale(1.0 / self.raised);
        self.plays_in(target, Reading::Most, room)
    }

    fn spread_at_the_limit(&self) -> f64 {
        match self.said.convolutions {
            true => PRESSED_CONVOLUTIONS,
            false => SPREAD,
        }
    }

    /// The free block that a small tensor may have taken a piece of, so that the largest tensor of the step needs another:
    /// where something else lies in the cache than what was rehearsed: an evaluation's tensors, convolutions' workspaces, what
    /// ranks sent each other or had before they divided the parameters, packed sequences of other lengths.
    fn may_be_split(&self, target: &Target) -> Bytes {
        let others = self.evaluated
            || self.said.convolutions
            || self.said.ranks > 1
            || self.said.lengths_spread.is_some();
        let fixed = match target.allocator {
            Allocator::Fixed => others,
            Allocator::Expandable => false,
        };
        let step = self.variant(target).filter(|_| fixed);
        let events = step.map(|(_, template)| template.events(self.samples(target), 0));
        let size = |event: &TraceEvent| match event {
            TraceEvent::Alloc(block) => block.size,
            TraceEvent::Workspace(_) | TraceEvent::Free(_) | TraceEvent::EmptyCache => 0,
        };
        Bytes(events.iter().flatten().map(size).max().unwrap_or(0))
    }

    /// What kernels take at the most beside what is composed, of so much memory.
    fn libraries(&self, of: Bytes) -> Bytes {
        let most = match self.said.convolutions {
            true => LIBRARIES.1,
            false => LIBRARIES.0,
        };
        most.min(of.scale(LIBRARIES_SHARE))
    }

    fn settings(&self, target: &Target) -> AllocatorSettings {
        AllocatorSettings {
            expandable_segments: target.allocator == Allocator::Expandable,
            ..self.settings.clone()
        }
    }

    /// What is needed at the least and at the most where parts are compiled, as shares of what was rehearsed.
    fn of_compiled(&self, target: &Target) -> (f64, f64) {
        let has_graphs = self
            .variant(target)
            .is_some_and(|(variant, _)| variant.graphs);
        match (self.said.compiled, has_graphs) {
            (true, true) => GRAPHS,
            (true, false) => COMPILED,
            (false, _) => (1.0, 1.0),
        }
    }

    fn around(&self, target: &Target, readings: [Bytes; 3], spread: f64) -> Estimate {
        let [least, likely, most] = readings;
        let (at_least, at_most) = self.of_compiled(target);
        let (least, most) = (least.scale(at_least), most.scale(at_most));
        let high = most.scale(1.0 + spread) + self.libraries(most);
        // A loss that the program computes by itself is an assumption, and so is an answer about its data.
        let low = match (self.said.own_loss, self.said.assumes_values) {
            (_, true) => least.scale(ASSUMED_VALUES),
            (true, false) => least,
            (false, false) => least.scale(0.9),
        };
        Estimate::new(low, likely, high)
    }

    fn variant(&self, target: &Target) -> Option<&Variant> {
        self.entry(target.treatment)
    }

    fn entry(&self, treatment: ActivationReduction) -> Option<&Variant> {
        self.variants.iter().find(|(variant, _)| {
            variant.amp == treatment.mixed
                && variant.checkpointing == treatment.recomputed
                && variant.offload == treatment.offloaded
                && variant.in_chunks() == treatment.chunked
                && variant.change == treatment.ranks
        })
    }

    /// The training at a batch, as one reads what is not known of it.
    fn training(&self, step: &Variant, target: &Target, reading: Reading) -> ComposedTraining {
        let settings = self.settings(target);
        let kept = self.keeps_gradients(target);
        ComposedTraining::new(self.composition(step, target, reading), kept, &settings)
    }

    /// What a training at a batch is put together from.
    fn composition<'a>(
        &'a self,
        step: &'a Variant,
        target: &Target,
        reading: Reading,
    ) -> Pieces<'a> {
        Pieces {
            said: &self.said,
            step,
            batch: self.samples(target),
            workspaces: self.workspaces,
            evaluated: self.evaluated,
            one_by_one: target.treatment.one_by_one,
            reading,
        }
    }

    /// What the memory of earlier answers knows a training by.
    fn key(&self, step: &Variant, target: &Target, reading: Reading) -> TrainingKey {
        let is_it = |variant: &Variant| std::ptr::eq(variant, step);
        TrainingKey {
            said: self.said_hash,
            variant: self.variants.iter().position(is_it).unwrap_or_default(),
            batch: self.samples(target),
            workspaces: self.workspaces,
            evaluated: self.evaluated,
            reading,
            keeps_gradients: self.keeps_gradients(target),
            one_by_one: target.treatment.one_by_one,
            settings: format!("{:?} {:?}", self.settings(target), self.cap),
        }
    }

    /// What becomes of a training where there is room.
    fn played(&self, step: &Variant, target: &Target, reading: Reading) -> PlayedTraining {
        let key = self.key(step, target, reading);
        known(
            &key,
            |answers| &mut answers.played,
            || self.became_of(&self.training(step, target, reading), step),
        )
    }

    fn became_of(&self, training: &ComposedTraining, step: &Variant) -> PlayedTraining {
        PlayedTraining {
            allocated_peak: Bytes(training.free.allocated_peak),
            is_sure: training.is_sure(&self.said, &step.0),
        }
    }

    fn allocated_peak(&self, step: &Variant, target: &Target, reading: Reading) -> Bytes {
        self.played(step, target, reading).allocated_peak
    }

    /// The smallest room that a training runs in.
    fn smallest_room(&self, step: &Variant, target: &Target, reading: Reading) -> Bytes {
        let key = self.key(step, target, reading);
        known(
            &key,
            |answers| &mut answers.smallest_room,
            || {
                let training = self.training(step, target, reading);
                let played = self.became_of(&training, step);
                note(&key, |answers| &mut answers.played, played);
                smallest(&training, &self.settings(target), self.cap)
            },
        )
    }

    /// What is alive when a training has the most.
    fn at_its_peak(&self, step: &Variant, target: &Target, reading: Reading) -> WholeStep {
        known(
            &self.key(step, target, reading),
            |answers| &mut answers.at_its_peak,
            || self.training(step, target, reading).at_its_peak(),
        )
    }

    /// The most that there is in a training beside activations.
    fn beside_activations(&self, step: &Variant, target: &Target, reading: Reading) -> Bytes {
        known(
            &self.key(step, target, reading),
            |answers| &mut answers.beside_activations,
            || self.training(step, target, reading).beside_activations(),
        )
    }

    /// What a training does by its likely reading where PyTorch may reserve so much; `None` where memory runs out.
    fn in_room(&self, step: &Variant, target: &Target, room: Bytes) -> Option<PlayedInRoom> {
        let key = self.key(step, target, Reading::Likely);
        known(
            &key,
            |answers| answers.in_room.entry(room.0).or_default(),
            || {
                let training = self.training(step, target, Reading::Likely);
                let settings = self.settings(target);
                let cap = self.cap.map(|cap| cap.0);
                let within =
                    |device| replay(&training.trace, &settings, ReplayRoom { device, cap });
                let played = within(Some(room.0));
                if played.ran_out.is_some() {
                    return None;
                }
                Some(PlayedInRoom {
                    allocated_peak: played.allocated_peak,
                    retries: played.retries,
                    reserved_peak: played.reserved_peak,
                    // Where there is more room than here nothing is given back, and before the last step nothing had to be.
                    free_peak: within(None).reserved_peak,
                    grown: match played.last_raised >= training.last_step {
                        true => played.reserved_peak - played.before_that.min(played.reserved_peak),
                        false => 0,
                    },
                })
            },
        )
    }

    /// Whether the target's first steps run in so much room.
    fn plays_in(&self, target: &Target, reading: Reading, room: Bytes) -> Option<bool> {
        let step = self.variant(target)?;
        let key = self.key(step, target, reading);
        Some(known(
            &key,
            |answers| answers.runs_in.entry(room.0).or_default(),
            || {
                let kept = self.keeps_gradients(target);
                let trace = ComposedTraining::events(self.composition(step, target, reading), kept);
                runs_in(&trace, &self.settings(target), room.0, self.cap)
            },
        ))
    }

    /// Whether a part of a step finds the gradients of the one before: the command says so, or the program's own loops.
    fn keeps_gradients(&self, target: &Target) -> bool {
        target.keeps_gradients || self.said.adds_gradients
    }

    /// The target's batch as the model's calls count it.
    fn samples(&self, target: &Target) -> u64 {
        (target.batch.saturating_mul(self.said.batch) / self.counted).max(1)
    }

    /// The training by the likely reading, and where others are possible what is made of the one that needs least and of
    /// the one that needs most; more by as much as what failed shows.
    fn each_reading(
        &self,
        target: &Target,
        of: impl Fn(&Self, &Variant, &Target, Reading) -> Bytes,
    ) -> Option<[Bytes; 3]> {
        let step = self.variant(target)?;
        let usual = of(self, step, target, Reading::Likely);
        let readings = match self.played(step, target, Reading::Likely).is_sure {
            // The workspaces may be smaller, or not be needed.
            true => [
                usual - self.workspaces.to_come(self.said.evaluates),
                usual,
                usual,
            ],
            false => {
                let other = |reading| of(self, step, target, reading);
                [other(Reading::Least), usual, other(Reading::Most)]
            }
        };
        Some(readings.map(|bytes| bytes.scale(self.raised)))
    }
}

/// Of all that was said, so that no two rehearsals are taken for one.
fn hash_of(said: &Rehearsal) -> u64 {
    let mut hasher = DefaultHasher::new();
    // A recording's line: what cannot be written has not been read.
    serde_json::to_string(said)
        .unwrap_or_default()
        .hash(&mut hasher);
    hasher.finish()
}

/// Whether the step is the first of its optimizer.
fn is_first(said: &Rehearsal) -> bool {
    let optimizer = said.optimizer.as_ref();
    optimizer.is_none_or(|optimizer| !optimizer.has_state)
}

/// Whether so much beside the model was there before its first step that cuBLAS's workspace can be part of it.
fn may_have_evaluated(said: &Rehearsal) -> bool {
    let weights = Bytes(said.weights.iter().sum());
    if let Some(evaluated) = said.evaluated.filter(|_| is_first(said)) {
        return evaluated;
    }
    is_first(said) && said.before - said.arguments - weights >= Workspaces::UNSEEN.size
}

/// Whether a trace runs where the GPU has so many bytes for the process.
fn runs_in(trace: &Trace, settings: &AllocatorSettings, bytes: u64, cap: Option<Bytes>) -> bool {
    let room = ReplayRoom {
        device: Some(bytes),
        cap: cap.map(|cap| cap.0),
    };
    replay(trace, settings, room).ran_out.is_none()
}

/// The smallest room that a training runs in.
fn smallest(
    training: &ComposedTraining,
    settings: &AllocatorSettings,
    cap: Option<Bytes>,
) -> Bytes {
    let free = &training.free;
    let (mut low, mut high) = (free.allocated_peak, free.reserved_peak);
    let of_pieces = (high - low) as f64 * EXACTLY_OF_PIECES;
    while (high - low) as f64 > of_pieces.min(high as f64 * EXACTLY) {
        let middle = low + (high - low) / 2;
        match runs_in(&training.trace, settings, middle, cap) {
            true => high = middle,
            false => low = middle,
        }
    }
    Bytes(high)
}
