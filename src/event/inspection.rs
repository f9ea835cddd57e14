//! What the probe finds out about a process when memory runs out, or when it is asked to: the rehearsal of the
//! step, the trace of a step, and who keeps memory alive. These structs are also the wire format of the probe.

use super::{GrowingLine, HeadShape, MemoryKind, Phase, SourceLine};
use crate::units::{Bytes, Pid};
use serde::{Deserialize, Serialize};

/// The rehearsal of the step that ran out of memory.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rehearsal {
    pub pid: Pid,
    /// The device's index in that process.
    pub device: u32,
    /// Where memory ran out.
    pub phase: Phase,
    /// The duration of the rehearsals, in microseconds.
    pub micros: u64,
    /// Samples in the call of the model.
    pub batch: u64,
    /// Allocated when the model was called: its parameters, its arguments and everything else.
    pub before: Bytes,
    /// The part of that in the call's arguments.
    pub arguments: Bytes,
    /// The part of the rest that variables held for each sample since before the steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before_of_batch: Option<Bytes>,
    /// Sizes of the model's parameters and buffers on the device, in bytes.
    pub weights: Vec<u64>,
    /// Sizes of the trained ones.
    pub trained: Vec<u64>,
    /// How the optimizer will use memory, if one was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimizer: Option<OptimizerMemory>,
    /// How the inputs of the model's calls differed in size up to then, if they did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inputs: Option<InputSizes>,
    /// Whether the loss is the program's: by its lines after the model's call, or returned by the model. Otherwise the
    /// usual one is assumed.
    pub own_loss: bool,
    /// When the program lets go of its gradients; `None` of a probe that did not ask.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zero_grad: Option<ZeroGrad>,
    /// Whether a step has several parts with a forward and a backward each, by the loops of the program: their gradients are
    /// added up.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub adds_gradients: bool,
    /// Whether a copy of the model may be made behind the step (an average of its weights).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub copies_model: bool,
    /// Whether an evaluation or sampling follows before the next step, which nobody has seen.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub evaluates_next: bool,
    /// Whether it is a call without gradients: an evaluation, whose batch is its own.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub evaluates: bool,
    /// Whether a model had been called without gradients before; `None` of a probe that does not know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evaluated: Option<bool>,
    /// Whether the forward pass asked for values that follow from the program's data, and an answer was assumed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub assumes_values: bool,
    /// Where sequences are packed: the standard deviation of their lengths in this batch as a share of the mean, 0 where
    /// their lengths were not known. `None` where nothing is packed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lengths_spread: Option<f64>,
    /// Whether its forward pass changes something that is no part of the model (a list of losses), which a second run would
    /// change again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub changes_outside: bool,
    /// Whether the model has convolutions, whose workspaces a rehearsal has by a rule that was measured, not by asking cuDNN.
    pub convolutions: bool,
    /// Whether it multiplies matrices, for which cuBLAS takes a workspace. `None` of a probe that did not look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multiplies: Option<bool>,
    /// Whether its backward pass does, on a thread that has a workspace of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multiplies_backward: Option<bool>,
    /// Whether cuDNN tries its algorithms for them (`torch.backends.cudnn.benchmark`), each with what it wants of the memory that
    /// is free.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub autotunes: bool,
    /// Whether parts of the program are compiled (`torch.compile`): where a variant has no `graphs`, they were rehearsed as
    /// they are written, and need another amount.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub compiled: bool,
    /// How many processes train together; 0 where that was not asked, or it is one.
    #[serde(skip_serializing_if = "is_zero")]
    pub ranks: usize,
    /// Whether DistributedDataParallel makes the buckets of its gradients anew at the second step.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub rebuilds_buckets: bool,
    /// Whether the call of the model itself is compiled there, not parts of it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub compiled_whole: bool,
    /// The step as it was, and with changes.
    pub variants: Vec<RehearsedVariant>,
    /// Why there are no variants.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
}

impl Rehearsal {
    /// Why the step as it was could not be rehearsed, if so.
    pub fn why_not(&self) -> Option<&str> {
        let plain = self.variants.first();
        match plain {
            Some(plain) if plain.trace.is_some() => None,
            Some(plain) => plain.why_not.as_deref(),
            None => self.why_not.as_deref(),
        }
    }
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// When a program lets go of its gradients (`zero_grad`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ZeroGrad {
    /// Before the next forward pass.
    Forward,
    /// Between the next forward pass and its backward pass.
    Backward,
    /// Never: they are set to zero.
    Never,
    /// Its lines do not tell.
    #[default]
    #[serde(other)]
    Unknown,
}

/// The sizes of a model's inputs, in elements for each sample: texts of random lengths differ from
/// call to call, and a later one may be larger than all before it. The largest is what was rehearsed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct InputSizes {
    /// The number of calls that were seen.
    pub calls: u64,
    pub least: u64,
    pub most: u64,
    /// The most that the model takes, where texts are as long as they happen to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub possible: Option<u64>,
}

/// How an optimizer uses memory, from its class and settings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OptimizerMemory {
    pub class: String,
    /// State tensors per trained parameter, of the parameter's size; `None` for an unknown class.
    pub states: Option<u32>,
    /// Whether the state is already allocated.
    pub has_state: bool,
    /// Whether its step makes temporaries of all parameters at once (`foreach`).
    pub foreach: bool,
}

/// Another way in which ranks could divide, gather or reduce a model, by the probe's name of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RankChange {
    /// Parameters are divided again behind each layer's forward.
    Reshard,
    /// Float32 parameters are gathered, and layers computed, in bf16.
    InBf16,
    /// What is divided among the ranks lies in RAM, where the optimizer steps.
    Offload,
    /// Gradients are views of the buckets that DistributedDataParallel reduces.
    InBuckets,
    /// One of a later probe.
    #[serde(other)]
    Unknown,
}

/// One way of running the step.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RehearsedVariant {
    /// With activation checkpointing of the repeated blocks.
    pub checkpointing: bool,
    /// Under bf16 autocast.
    pub amp: bool,
    /// What the forward pass saves waits in RAM.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub offload: bool,
    /// With cross-entropy over some rows at a time.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub chunked: bool,
    /// The head of this shape is computed with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<HeadShape>,
    /// What the program has compiled allocates as its compiled graphs do, not as it is written.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub graphs: bool,
    /// What waiting in RAM takes there, at the rehearsal's batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ram: Option<SavedInRam>,
    /// As ranks would have it otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<RankChange>,
    /// The sizes of the weights and of those that are trained, where these are others than without the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weights: Option<Vec<u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trained: Option<Vec<u64>>,
    /// The trace, with sizes as functions of the batch (`forecast::trace`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// The number of its events in the forward pass.
    pub forward: usize,
    /// The number of its events before the backward pass.
    #[serde(skip_serializing_if = "is_zero")]
    pub loss: usize,
    /// The allocations that the program's variables still hold when the step has ended, by their numbers: until the next
    /// call of the model has returned, or the event of the next step that `until` has for each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<usize>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub until: Vec<usize>,
    /// The allocations that stay for good, in each step anew: what is put into a list.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub grows: Vec<usize>,
    /// The allocations that may be held like `held`: the lines that called the model do not tell.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub may_hold: Vec<usize>,
    /// Floating-point operations of forward and backward at the batch that failed; 0 where they were not counted.
    pub flops: u64,
    /// Why it could not be rehearsed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
}

/// What of a step is computed over some rows of large logits at a time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum InChunks {
    #[default]
    Nothing,
    Loss,
    LossAndHead,
}

impl RehearsedVariant {
    pub fn in_chunks(&self) -> InChunks {
        match (self.chunked, self.head) {
            (false, _) => InChunks::Nothing,
            (true, None) => InChunks::Loss,
            (true, Some(_)) => InChunks::LossAndHead,
        }
    }
}

/// What a step does in RAM that moves there what its forward pass saves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SavedInRam {
    /// What RAM has to hold at the most. Pinned memory is given in powers of two.
    pub takes: Bytes,
    /// What is copied to it in a step, and back.
    pub out: Bytes,
    pub back: Bytes,
}

impl InputSizes {
    /// Whether calls differed.
    pub fn differ(&self) -> bool {
        self.calls > 1 && self.least < self.most
    }

    /// By what share a later one may be larger than the largest seen; zero where none is to be expected.
    /// Of the range of those seen `ranges` parts of (calls − 1) are allowed for, at most the whole, and no
    /// more than the model takes.
    pub fn beyond(&self, ranges: f64) -> f64 {
        let most = self.most.max(1) as f64;
        let possible = self
            .possible
            .map(|size| (size as f64 / most - 1.0).max(0.0));
        if !self.differ() {
            return possible.unwrap_or(0.0);
        }
        let range = (self.most - self.least) as f64 / most;
        let likely = range * (ranges / (self.calls - 1) as f64).min(1.0);
        possible.map_or(likely, |possible| likely.min(possible))
    }
}

/// A traced step. The probe sends the third step, occasional later ones, and the one that ran out
/// of memory if it was traced.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StepTrace {
    pub pid: Pid,
    /// The device's index in that process.
    pub device: u32,
    /// Counted from 1.
    pub step: u64,
    /// Whether it ran out of memory, and ends there.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
    /// The sizes of the largest tensor that its first module was given; empty where that was not seen.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<u64>,
    /// The blocks alive at its start, and its events (`forecast::trace`).
    pub trace: String,
    /// Where those blocks lay in the allocator's segments (`forecast::trace`); empty where that is not known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub layout: String,
    /// Where each phase begins, by the number of its first event.
    pub phases: Vec<PhaseStart>,
    pub origins: Vec<BlockOrigin>,
    /// The origin of each block, first those alive at the start: `2*40 0 1` means forty of the
    /// second origin, one of unknown origin and one of the first.
    pub blocks: String,
    /// The names of modules: `transformer.h.3.mlp`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub modules: Vec<String>,
    /// The module of each block, written like `blocks`; empty if no module is known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub block_modules: String,
}

/// How far a traced step went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StepLevels {
    /// What was allocated before it.
    pub before: Bytes,
    /// Where a backward pass began, of several the most; `None` where none was seen.
    pub at_backward: Option<Bytes>,
    /// The most at any time.
    pub peak: Bytes,
}

impl StepTrace {
    /// The most that was allocated at any time; zero where the trace cannot be read.
    pub fn peak(&self) -> Bytes {
        self.levels().peak
    }

    /// What was allocated at the moments that count; zero where the trace cannot be read.
    pub fn levels(&self) -> StepLevels {
        let starts = self.phases.iter();
        let mut backwards = starts
            .filter(|start| start.phase == Phase::Backward)
            .peekable();
        let (mut sizes, mut now) = (Vec::new(), 0_u64);
        // The number of the next event; none before the step has begun.
        let mut event: Option<usize> = None;
        let mut levels = StepLevels::default();
        for word in self.trace.split_ascii_whitespace() {
            if word == "|" {
                if event.is_some() {
                    // Only where segments lay follows.
                    break;
                }
                levels.before = Bytes(now);
                event = Some(0);
                continue;
            }
            if let Some(number) = &mut event {
                if backwards.next_if(|start| start.from == *number).is_some() {
                    levels.at_backward = levels.at_backward.max(Some(Bytes(now)));
                }
                *number += 1;
            }
            if let Some(back) = word.strip_prefix('-') {
                let place = back.parse().ok();
                let place = place.and_then(|back: usize| sizes.len().checked_sub(back));
                let freed = place.and_then(|place| sizes.get(place));
                now = now.saturating_sub(freed.copied().unwrap_or(0));
            } else if let Ok(size) = word.split('@').next().unwrap_or_default().parse() {
                sizes.push(size);
                now = now.saturating_add(size);
            }
            levels.peak = levels.peak.max(Bytes(now));
        }
        levels
    }
}

/// Where a phase begins in a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PhaseStart {
    pub phase: Phase,
    /// The number of its first event, from 0.
    pub from: usize,
}

/// What allocated a block, and what it contains, as far as is known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct BlockOrigin {
    /// The program's own line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<SourceLine>,
    /// The library's line that it called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inside: Option<SourceLine>,
    /// What an optimizer knows it to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<MemoryKind>,
}

/// The smallest share of what was looked for that makes a container the one to name.
const NOTABLE: f64 = 0.1;

/// What a search found. The probe searches when memory runs out, and when it is asked to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Retainers {
    pub pid: Pid,
    /// The device's index in that process.
    pub device: u32,
    /// Completed optimizer steps of the process at that time.
    pub step: u64,
    /// The names found, the one that keeps the most first.
    pub retainers: Vec<Retainer>,
    /// Live memory that is no parameter, gradient or optimizer state.
    pub looked_for: Bytes,
    /// The part of it that none of these names keeps: autograd's own, libraries', or not searched.
    pub unexplained: Bytes,
    /// The lines whose live memory grew since it was first summed, where somebody asked for this search;
    /// an OOM's record has them itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub growing: Vec<GrowingLine>,
    /// How long it took, and the training waited.
    pub micros: u64,
    /// Why not everything was searched, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left: Option<String>,
}

/// Something in the program with a name that keeps memory alive. What two of them keep is counted for
/// the larger.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Retainer {
    /// `losses`, `state["losses"]`; empty if nothing in the program names it.
    pub name: String,
    pub kind: RetainerKind,
    /// The function, the module or the class that it belongs to.
    pub of: String,
    /// Its Python type: `list`.
    #[serde(rename = "type")]
    pub class: String,
    /// How many things are in it, if it is a container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length: Option<u64>,
    /// The line at which it grows, or else where it is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<SourceLine>,
    pub bytes: Bytes,
    /// The part of it that only autograd graphs keep: what was saved for a backward pass.
    pub graph: Bytes,
    /// Whether the search ended before it had seen all that this keeps: both figures are lower bounds then. The probe says it of the
    /// search as a whole, `left`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
    /// What refers to it, from the nearest on: `Leak object`, `scenario in train.py:88 train`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub above: Vec<String>,
    /// What lies in it, down to a tensor: `list of 12`, `Tensor object`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub below: Vec<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetainerKind {
    /// A variable of a function that runs, of a generator, or of a closure.
    Local,
    /// A variable of a module.
    Global,
    /// An attribute of an object or a class.
    Attribute,
    /// Without a name.
    #[default]
    #[serde(other)]
    Other,
}

impl Retainers {
    /// The same, where what each name keeps is told to be a lower bound if the search was cut short.
    pub fn bounded(mut self) -> Retainers {
        let is_cut_short = self.left.is_some();
        for found in &mut self.retainers {
            found.at_least |= is_cut_short;
        }
        self
    }

    /// Whether what it names first has a name in the program.
    pub fn has_name(&self) -> bool {
        self.main()
            .is_some_and(|found| found.kind != RetainerKind::Other)
    }

    /// The one to name where memory grows: the largest container, or else whatever keeps the most.
    pub fn main(&self) -> Option<&Retainer> {
        let is_notable = |found: &&Retainer| {
            let share = found.bytes.fraction_of(self.looked_for);
            found.length.is_some_and(|length| length > 1)
                && share.is_some_and(|share| share >= NOTABLE)
        };
        let containers = self.retainers.iter().filter(is_notable);
        let largest = |found: &&Retainer| found.bytes;
        containers
            .max_by_key(largest)
            .or_else(|| self.retainers.iter().max_by_key(largest))
    }
}

impl Retainer {
    /// `losses`, `Leak.history`.
    pub fn full_name(&self) -> String {
        match self.kind {
            RetainerKind::Attribute => format!("{}.{}", self.of, self.name),
            RetainerKind::Local | RetainerKind::Global => self.name.clone(),
            RetainerKind::Other => String::from("no name"),
        }
    }

    /// `list of 18`, `Tensor`.
    pub fn what(&self) -> String {
        match self.length {
            Some(length) => format!("{} of {length}", self.class),
            None => self.class.clone(),
        }
    }

    /// `scenarios.py:41 losses: list of 18`.
    pub fn words(&self) -> String {
        let place = self.line.as_ref().map(|line| line.place() + " ");
        let place = place.unwrap_or_default();
        format!("{place}{}: {}", self.full_name(), self.what())
    }

    /// How much it keeps: `21.3 GiB`, `≥ 1.25 GiB`.
    pub fn amount(&self) -> String {
        match self.at_least {
            true => format!("≥ {}", self.bytes),
            false => self.bytes.to_string(),
        }
    }

    /// `21.3 GiB (21.2 GiB of it in autograd graphs)`.
    pub fn kept(&self) -> String {
        let (bytes, graph) = (self.amount(), self.graph.to_string());
        match self.graph {
            Bytes::ZERO => bytes,
            _ if graph == self.bytes.to_string() => format!("{bytes} in autograd graphs"),
            _ => format!("{bytes} ({graph} of it in autograd graphs)"),
        }
    }

    /// From it up to what the program began with: `Leak object ← scenario in train.py:88 train`.
    pub fn levels(&self, arrow: &str) -> String {
        self.above.join(&format!(" {arrow} "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_that_of_all_blocks_alive_at_once() {
        let peak = |trace: &str| {
            let step = StepTrace {
                trace: trace.into(),
                ..StepTrace::default()
            };
            step.peak()
        };
        // 12 alive at first, 112 with the next, 102 without the first, 202.
        assert_eq!(peak("10 2 | 100 -3 100@1 -1 empty"), Bytes(202));
        assert_eq!(peak("10 | -1"), Bytes(10));
        assert_eq!(peak("no such -9 -x | thing"), Bytes::ZERO);
    }

    fn retainer(name: &str, length: Option<u64>, mib: u64) -> Retainer {
        Retainer {
            name: name.into(),
            kind: RetainerKind::Local,
            class: String::from(length.map_or("Tensor", |_| "list")),
            length,
            bytes: Bytes::mib(mib),
            ..Retainer::default()
        }
    }

    fn main_of(retainers: Vec<Retainer>) -> Option<String> {
        let found = Retainers {
            retainers,
            looked_for: Bytes::mib(1000),
            ..Retainers::default()
        };
        found.main().map(Retainer::words)
    }

    #[test]
    fn a_container_is_named_before_a_larger_tensor() {
        let tensor = || retainer("x", None, 600);
        assert_eq!(
            main_of(vec![tensor(), retainer("losses", Some(18), 300)]).as_deref(),
            Some("losses: list of 18")
        );
        assert_eq!(
            main_of(vec![tensor(), retainer("pair", Some(1), 300)]).as_deref(),
            Some("x: Tensor")
        );
        assert_eq!(
            main_of(vec![tensor(), retainer("masks", Some(12), 20)]).as_deref(),
            Some("x: Tensor")
        );
        assert_eq!(main_of(Vec::new()), None);
    }

    #[test]
    fn an_attribute_is_named_with_its_class() {
        let history = Retainer {
            kind: RetainerKind::Attribute,
            of: "Leak".into(),
            line: Some(SourceLine {
                file: "/home/ada/scenarios.py".into(),
                line: 66,
                function: "after_backward".into(),
            }),
            above: vec!["Leak object".into(), "scenario in train.py:88 train".into()],
            ..retainer("history", Some(18), 1)
        };
        assert_eq!(history.words(), "scenarios.py:66 Leak.history: list of 18");
        assert_eq!(
            history.levels("←"),
            "Leak object ← scenario in train.py:88 train"
        );
    }

    #[test]
    fn what_a_search_that_was_cut_short_has_summed_is_a_lower_bound() {
        let kept = |left: Option<&str>, graph| {
            let found = Retainers {
                retainers: vec![Retainer {
                    graph,
                    ..retainer("losses", Some(18), 300)
                }],
                left: left.map(String::from),
                ..Retainers::default()
            };
            found.bounded().retainers.remove(0).kept()
        };
        assert_eq!(kept(None, Bytes::ZERO), "300 MiB");
        let cut = Some("the search ran out of time after 9 objects");
        assert_eq!(kept(cut, Bytes::ZERO), "≥ 300 MiB");
        assert_eq!(kept(cut, Bytes::mib(300)), "≥ 300 MiB in autograd graphs");
    }
}
