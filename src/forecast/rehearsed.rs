//! What a training needs by a rehearsal of its step: the rehearsed allocations, the optimizer's state and
//! its temporaries put together to two steps, and played through the allocator.

mod bounds;
mod memo;
mod training;

#[cfg(test)]
mod tests;

pub(crate) use bounds::RANGES_BEYOND;
pub use training::WholeStep;

use super::estimate::ActivationReduction;
use super::estimate::Estimate;
use super::estimate::{Allocator, Target};
use super::replay::{AllocatorSettings, ReplayRoom, replay};
use super::trace::{Trace, TraceEvent, TraceTemplate};
use super::workspaces::Workspaces;
use crate::event::{HeadShape, RankChange, Rehearsal, RehearsedVariant, SavedInRam, StepTrace};
use crate::units::Bytes;
use memo::{PlayedInRoom, PlayedTraining, TrainingKey, known, note};
use std::hash::{DefaultHasher, Hash, Hasher};
use training::{ComposedTraining, Pieces, Reading};

/// A rehearsal that falls short by more than this is of something else than what failed.
const MOST_RAISED: f64 = 2.0;
/// The share of a need to which it is searched for, and that of what pieces of the cache may take: where most of a GPU is taken by
/// what stays, the one is more than the other.
const EXACTLY: f64 = 0.003;
const EXACTLY_OF_PIECES: f64 = 1.0 / 64.0;

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

    fn settings(&self, target: &Target) -> AllocatorSettings {
        AllocatorSettings {
            expandable_segments: target.allocator == Allocator::Expandable,
            ..self.settings.clone()
        }
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
