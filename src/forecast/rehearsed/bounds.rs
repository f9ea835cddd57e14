//! How far a run may be from what its rehearsal says: what kernels take that no rehearsal sees, what other inputs and other
//! batches bring, and what stays in the allocator's cache. Each bound has what was measured beside it.

use super::super::estimate::{Allocator, Estimate, Target};
use super::super::trace::TraceEvent;
use super::training::Reading;
use super::{OnCard, Rehearsed};
use crate::event::InputSizes;
use crate::units::Bytes;

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
pub(super) const AUTOTUNED_SHARE: f64 = 0.94;
/// ... but no more than so many times what is needed without.
pub(super) const AUTOTUNED_TIMES: f64 = 1.8;
/// What is needed at the least, as a share of what was rehearsed, where answers about the program's data were assumed. A choice.
const ASSUMED_VALUES: f64 = 0.7;
/// How far beyond the largest inputs seen later ones are allowed for: of the range of those seen, so
/// many parts of (calls − 1), at most the whole. A choice: of evenly spread sizes the largest of `n`
/// lies one part below the end on average, and three parts at 19 times of 20.
pub(crate) const RANGES_BEYOND: f64 = 3.0;
/// How many standard deviations beyond the rehearsed batch the lengths of a later one are allowed for, in all: two are reached by
/// one batch in fifty. A choice.
const DEVIATIONS: f64 = 2.0;
/// How far what a run reserves may be from a replay that begins with its first step: what else it did before leaves its own
/// pieces (as `BELIEVED` of a traced step). It grows by as much again as in a last step that had not repeated.
const RESERVED: f64 = 0.08;

/// How many times its allocated peak a training with convolutions may reserve: 687 MiB were allocated and 1,503 reserved when a
/// small network ran out of memory in its fourth step.
const IN_PIECES: f64 = 2.5;

impl Rehearsed {
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

    /// Whether the upper end of what a target needs fits with this margin, of which the interval is a
    /// part. One replay says it.
    pub(in super::super) fn fits(&self, target: &Target, room: Bytes, margin: f64) -> Option<bool> {
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

    /// Whether a target's cache may come to pieces before so much is reserved: convolutions' workspaces, of another size
    /// each, are taken out of free blocks of fixed segments.
    pub fn may_come_to_pieces(&self, target: &Target, room: Bytes) -> bool {
        let peak = self.peak(target).map(|peak| peak.likely.scale(IN_PIECES));
        let takes_pieces = self.said.convolutions && target.allocator == Allocator::Fixed;
        takes_pieces && peak.is_some_and(|most| most >= room)
    }
}
