//! What the probe reports from inside a training process. These structs are also the wire format:
//! one JSON object per line, `{"ns": <time.monotonic_ns()>, "event": "sample", …}`.
//!
//! Figures that a version of PyTorch does not have are `None` (absent in the JSON), never zero.

use super::zero::ZeroLedger;
use crate::units::{Bytes, Pid, Rank, RunNumber, Uuid};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A process of the training that has initialised CUDA.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Hello {
    pub pid: Pid,
    /// From the environment that oomph gave the command.
    pub run: RunNumber,
    /// `RANK`, or as srun or MPI number it.
    #[serde(default)]
    pub rank: Option<Rank>,
    /// The rank's number on its node.
    #[serde(default)]
    pub local_rank: Option<Rank>,
    /// How many ranks there are, as the launcher says.
    #[serde(default)]
    pub world_size: Option<u32>,
    /// How many nodes have ranks, as the launcher says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u32>,
    /// The node that it runs on, by SLURM's name or the kernel's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The step of srun that it belongs to, `123.0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slurm_step: Option<String>,
    /// Python's version, `3.12.3`.
    pub python: String,
    /// torch's version, `2.11.0+cu130`.
    pub torch: String,
    /// The devices visible to the process, in CUDA's order.
    pub devices: Vec<ProbeDevice>,
    /// The allocator's backend: `native`, `cudaMallocAsync` or a pluggable one's name.
    #[serde(default)]
    pub backend: Option<String>,
    /// The allocator settings in force, read back from the allocator if it tells them.
    #[serde(default)]
    pub alloc_conf: Option<String>,
    /// Whether expandable segments are in force, read back from the allocator.
    #[serde(default)]
    pub expandable_segments: Option<bool>,
    /// Why the probe does not sample this process (a pluggable allocator), if so.
    #[serde(default)]
    pub resting: Option<String>,
    /// It runs in WSL2, Windows' Linux.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wsl: bool,
    /// Its torch is built for ROCm, also where its version does not say so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rocm: bool,
}

/// Where expandable segments have no effect, in words.
pub const NOT_IN_WSL: &str = "expandable segments do not work in WSL2";
pub const NOT_ON_MIG: &str = "expandable segments do not work on a MIG instance";

impl Hello {
    /// Why expandable segments do harm or nothing in this process, if so.
    pub fn no_segments(&self) -> Option<&'static str> {
        let is_instance = |device: &ProbeDevice| {
            let by_uuid = device.uuid.as_ref().is_some_and(Uuid::is_mig_instance);
            by_uuid || device.name.contains(" MIG ")
        };
        let (_, build) = self.torch.split_once('+').unwrap_or_default();
        match () {
            () if self.rocm || build.starts_with("rocm") => {
                Some("expandable segments are CUDA's, and this torch is built for ROCm")
            }
            () if self.wsl => Some(NOT_IN_WSL),
            () if self.devices.iter().any(is_instance) => Some(NOT_ON_MIG),
            () => None,
        }
    }
}

/// A device as CUDA shows it to a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeDevice {
    /// CUDA's index in that process.
    pub ordinal: u32,
    /// `None` for early versions of torch 2, which do not tell it.
    #[serde(default)]
    pub uuid: Option<Uuid>,
    pub name: String,
    /// `total_memory`: what CUDA can allocate.
    pub total: Bytes,
}

/// A reading of `torch._C._cuda_memoryStats(device)`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Sample {
    pub pid: Pid,
    /// CUDA's index in that process.
    pub device: u32,
    /// Bytes in live blocks.
    pub allocated: Bytes,
    /// Bytes in the caching allocator's segments.
    pub reserved: Bytes,
    /// Allocated, plus freed but waiting for a stream.
    #[serde(default)]
    pub active: Option<Bytes>,
    /// Free memory in partly used segments (always 0 with expandable segments).
    #[serde(default)]
    pub inactive_split: Option<Bytes>,
    /// Requested by the program, before rounding.
    #[serde(default)]
    pub requested: Option<Bytes>,
    /// The largest `allocated` so far in this process, across resets of PyTorch's own peak.
    pub allocated_peak: Bytes,
    /// The largest `reserved` so far in this process.
    pub reserved_peak: Bytes,
    /// Times that cudaMalloc failed and the allocator flushed its cache and retried.
    #[serde(default)]
    pub alloc_retries: u64,
    /// OOM errors raised, including caught ones.
    #[serde(default)]
    pub ooms: u64,
    /// The number of segments.
    #[serde(default)]
    pub segments: Option<u64>,
    /// The part of it in the pool of small blocks; the rest is in the large pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub small_pool: Option<Pool>,
    /// The cap on what the program may reserve on the device.
    #[serde(default)]
    pub limit: Option<Bytes>,
    /// What FSDP has gathered of the parameters beside this rank's shards: the most of the last seconds, at an OOM exactly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gathered: Option<Bytes>,
}

/// One of the native allocator's two pools: small blocks (up to 1 MiB, in segments of 2 MiB) and
/// large ones, which never share a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Pool {
    /// Bytes in live blocks.
    pub allocated: Bytes,
    /// Bytes in its segments.
    pub reserved: Bytes,
    /// Free memory in its partly used segments.
    pub inactive_split: Bytes,
    /// The number of its segments.
    pub segments: u64,
}

/// The allocator at the start or the end of an optimizer step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StepReading {
    /// Bytes in live blocks.
    pub allocated: Bytes,
    /// Bytes in segments.
    pub reserved: Bytes,
    /// The largest `allocated` so far (PyTorch's own peak, which the program may reset).
    pub peak: Bytes,
}

/// An optimizer step, read in the global step hooks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    pub pid: Pid,
    /// CUDA's index of the device with the optimizer's parameters.
    pub device: u32,
    /// Completed steps of this process, including this one.
    pub count: u64,
    /// The earlier step that the figures are of, where this one was not read: of steps in quick
    /// succession only some are, and the last one is still counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figures_of: Option<u64>,
    /// The duration of `step()` itself, in microseconds of host time.
    #[serde(default)]
    pub micros: u64,
    /// Before `step()`: gradients are allocated, activations freed.
    pub before: StepReading,
    pub after: StepReading,
    /// What was read in a step before, or in this one, where its backward passes began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backward: Option<BackwardReading>,
}

/// What was allocated where the backward passes of a step began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BackwardReading {
    /// Which step.
    pub step: u64,
    /// Before it.
    pub before: Bytes,
    /// Where a backward pass began; of several the most.
    pub allocated: Bytes,
}

/// What a process's memory consists of, as far as the optimizer knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Structure {
    pub pid: Pid,
    /// CUDA's index.
    pub device: u32,
    /// Bytes of the optimizers' parameters.
    pub parameters: Bytes,
    /// Bytes of their gradients at the end of a step, before they are freed.
    pub gradients: Bytes,
    /// Bytes of the optimizers' state.
    pub optimizer_state: Bytes,
    /// Bytes of the whole parameters, where this process has shards of them (FSDP).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole: Option<Bytes>,
}

impl Structure {
    pub fn total(&self) -> Bytes {
        self.parameters + self.gradients + self.optimizer_state
    }
}

/// Where in a step something happened, as far as is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Before the first optimizer step, outside of forward and backward (the model is being built).
    Load,
    /// In a forward pass with gradients.
    Forward,
    Backward,
    Optimizer,
    /// In a forward pass without gradients, or with the model in eval mode.
    Evaluation,
    #[default]
    #[serde(other)]
    Unknown,
}

/// A line of the program or of a library.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SourceLine {
    pub file: String,
    pub line: u32,
    #[serde(default)]
    pub function: String,
}

impl SourceLine {
    /// `train.py:88`: the file's name is enough to find it. A region of compiled code has no line: `compiled region of
    /// model.py:forward`.
    pub fn place(&self) -> String {
        let name = self.file.rsplit('/').next().unwrap_or_default();
        match self.line {
            0 => name.to_string(),
            line => format!("{name}:{line}"),
        }
    }

    /// Whether it is of an installed library or of torch, whose lines nobody changes.
    pub fn is_librarys(&self) -> bool {
        let parts = ["/site-packages/", "/dist-packages/", "/torch/"];
        parts.iter().any(|part| self.file.contains(part))
    }

    /// `train.py:88 forward → modeling_gpt2.py:240 mlp`: the program's line, and the library's line
    /// that allocated.
    pub fn path_to(&self, inside: Option<&SourceLine>, arrow: &str) -> String {
        let of = |line: &SourceLine| {
            let text = format!("{} {}", line.place(), line.function);
            text.trim_end().to_string()
        };
        match inside {
            Some(inside) => format!("{} {arrow} {}", of(self), of(inside)),
            None => of(self),
        }
    }
}

/// Live memory at an OOM that was allocated by one line of the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineUsage {
    /// The line in the program's own code.
    pub line: SourceLine,
    /// The innermost library line that it called, if there is one.
    #[serde(default)]
    pub inside: Option<SourceLine>,
    pub bytes: Bytes,
    /// The number of blocks.
    pub blocks: u64,
    /// What it is, if an optimizer knows; the rest is activations, buffers, batches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<MemoryKind>,
}

/// What an optimizer knows memory to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryKind {
    Parameters,
    Gradients,
    OptimizerState,
    /// Parameters of the model that are not trained.
    Frozen,
    /// A kind that this version does not know (from a later version's recording).
    #[serde(other)]
    Unknown,
}

/// A line of the program whose live memory grows from step to step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrowingLine {
    /// The line in the program's own code.
    pub line: SourceLine,
    /// The innermost library line that it called, if there is one.
    #[serde(default)]
    pub inside: Option<SourceLine>,
    /// Live bytes after the later step.
    pub bytes: Bytes,
    /// Growth per step.
    pub per_step: Bytes,
    /// The earlier step.
    pub from_step: u64,
    /// The later step.
    pub to_step: u64,
}

/// Free blocks in reserved segments, of sizes up to a power of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FreeBlocks {
    /// The upper bound of their size.
    pub up_to: Bytes,
    /// The number of blocks.
    pub count: u64,
    /// Their total size.
    pub bytes: Bytes,
}

/// A pool of the allocator's that serves no other allocations: a CUDA graph's, or one of the program's own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PrivatePool {
    /// PyTorch's id of it.
    pub pool: [u64; 2],
    pub reserved: Bytes,
    pub allocated: Bytes,
    /// The line that allocated the most of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<SourceLine>,
}

/// The size of a model's parameters on the device that ran out of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelBytes {
    pub parameters: Bytes,
    /// The bytes of the parameters with gradients.
    pub trained: Bytes,
}

/// The optimizer whose step ran out of memory, or is still to come: what decides how much it needs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OptimizerRecord {
    pub class: String,
    /// The class of torch's that it is or derives from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    pub foreach: bool,
    /// The program said nothing of it: torch chooses.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub foreach_by_default: bool,
    /// And its check allows a fused step.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub may_fuse: bool,
    pub fused: bool,
    pub amsgrad: bool,
    pub momentum: bool,
    pub centered: bool,
    pub maximize: bool,
    pub weight_decay: bool,
    /// Bytes on the device by dtype.
    pub parameters: BTreeMap<String, Bytes>,
    pub gradients: BTreeMap<String, Bytes>,
    pub states: BTreeMap<String, Bytes>,
    /// Bytes and elements of the parameters that are trained.
    pub trained: Bytes,
    pub elements: u64,
    /// The elements of small tensors and, under transformers' Trainer, of embeddings, which states of 8 bits keep in 32.
    pub small: u64,
    /// The bytes of the largest trained one.
    pub largest: Bytes,
    /// What Adafactor keeps of them.
    pub factored: Bytes,
    /// The bytes of those that have a state.
    pub stated: Bytes,
    /// Allocated when the step began, if that was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Bytes>,
    /// The most that was allocated until then since the step before: the peak of forward and backward.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_before: Option<Bytes>,
}

impl OptimizerRecord {
    pub fn parameters(&self) -> Bytes {
        self.parameters.values().copied().sum()
    }

    /// Those that are there.
    pub fn gradients(&self) -> Bytes {
        self.gradients.values().copied().sum()
    }

    /// Those that are there.
    pub fn states(&self) -> Bytes {
        self.states.values().copied().sum()
    }
}

/// How far an evaluation had come whose outputs are gathered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gathering {
    /// Batches whose outputs were gathered.
    pub done: u64,
    /// All batches of the evaluation; `None` where only the program's own code tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<u64>,
}

/// The checkpoint that `torch.load` was reading.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoadedCheckpoint {
    /// The size of its file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Bytes>,
    /// Why the call would be left alone by a patch, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left: Option<String>,
}

/// The OOM observer's record, taken on the allocating thread before the exception is raised.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OomRecord {
    pub pid: Pid,
    /// CUDA's index.
    pub device: u32,
    /// The segment that the allocator requested from the driver (rounded up from the tensor's
    /// size).
    pub requested: Bytes,
    /// The device's capacity, or the cap if one is set.
    pub total: Bytes,
    /// Free on the whole device, regardless of a cap.
    pub free: Bytes,
    /// The allocator's statistics at that moment (after it flushed its cache).
    pub sample: Sample,
    /// The cap, if the program or the environment set one.
    #[serde(default)]
    pub limit: Option<Bytes>,
    /// The program's line that sets it, if it has one such line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_line: Option<Box<SourceLine>>,
    /// The largest free block in reserved segments.
    #[serde(default)]
    pub largest_free: Option<Bytes>,
    /// Free blocks by size.
    #[serde(default)]
    pub free_blocks: Vec<FreeBlocks>,
    /// Private pools, the largest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub private_pools: Vec<PrivatePool>,
    /// The lines with the most live memory, most first.
    #[serde(default)]
    pub lines: Vec<LineUsage>,
    /// The bytes of all lines: of the rest it is not known which line allocated it. `None` from earlier
    /// probes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines_known: Option<Bytes>,
    /// How many of them are of blocks that have no stack, but the size of others that have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines_alike: Option<Bytes>,
    /// The lines whose live memory grows from step to step, from two sums taken after steps; most
    /// first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub growing: Vec<GrowingLine>,
    /// The training's Python stack, innermost first.
    #[serde(default)]
    pub stack: Vec<SourceLine>,
    #[serde(default)]
    pub phase: Phase,
    /// `torch.is_grad_enabled()` on the allocating thread: shows an evaluation that builds the
    /// graph. False in a backward pass.
    #[serde(default)]
    pub grad_enabled: Option<bool>,
    /// The largest tensor on a GPU among the variables of the innermost frame that is not torch's, its lists and tuples
    /// included. `None` from earlier probes, and in a backward pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operands: Option<Bytes>,
    /// In a forward pass: how much of it was done, as a share of what it keeps for the backward
    /// pass (including the requested allocation), by the modules on the stack. `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<f64>,
    /// In a first step: what was allocated when its first call of a model began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Bytes>,
    /// In `torch.load`: what it loads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loading: Option<Box<LoadedCheckpoint>>,
    /// In an evaluation of transformers' Trainer: how far it had come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gathering: Option<Box<Gathering>>,
    /// In a forward pass: the model that runs, if it is on the stack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Box<ModelBytes>>,
    /// Completed optimizer steps of this process.
    #[serde(default)]
    pub step: u64,
    /// What the memory consists of, if an optimizer was seen. Its gradients are those of the end of a step.
    #[serde(default)]
    pub structure: Option<Box<Structure>>,
    /// The gradients that the optimizers' parameters had at that moment; `None` from earlier probes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gradients: Option<Bytes>,
    /// The optimizer whose step ran out, or is still to come for the first time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optimizer: Option<Box<OptimizerRecord>>,
    /// What DeepSpeed's ZeRO holds, if its engine runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zero: Option<Box<ZeroLedger>>,
}

/// What a program does beside its steps, by the functions on its stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BesideSteps {
    Generation,
    CheckpointLoading,
    CheckpointSaving,
}

impl BesideSteps {
    /// Of each its functions; those in the second list only in files that read and write for torch.
    const KNOWN: [(
        BesideSteps,
        &'static [&'static str],
        &'static [&'static str],
    ); 3] = [
        (
            BesideSteps::Generation,
            &[
                "generate",
                "_generate",
                "greedy_search",
                "beam_search",
                "p_sample_loop",
                "sample_loop",
            ],
            &[],
        ),
        (
            BesideSteps::CheckpointLoading,
            &[
                "load_checkpoint",
                "load_state_dict",
                "load_state",
                "resume_from_checkpoint",
            ],
            &["load", "_load"],
        ),
        (
            BesideSteps::CheckpointSaving,
            &[
                "save_checkpoint",
                "_save_checkpoint",
                "save_state",
                "save_model",
                "save_pretrained",
            ],
            &["save", "_save"],
        ),
    ];

    /// `while a checkpoint was saved`
    pub fn words(self) -> &'static str {
        match self {
            BesideSteps::Generation => "during generation",
            BesideSteps::CheckpointLoading => "while a checkpoint was loaded",
            BesideSteps::CheckpointSaving => "while a checkpoint was saved",
        }
    }
}

impl OomRecord {
    /// The gradients at that moment, of so many at the end of a step; `traced` is what a traced step says of the phase. `None` where
    /// nobody knows: then they are in the rest of what is allocated.
    pub fn gradients_then(&self, whole: Bytes, traced: Option<Bytes>) -> Option<Bytes> {
        if let Some(known) = self.gradients.or(traced) {
            return Some(known.min(whole));
        }
        // What the lines leave. Gradients are made by the autograd engine, below no line of the program.
        let of_others = (self.lines.iter()).filter(|line| line.kind != Some(MemoryKind::Gradients));
        let left = self.sample.allocated - of_others.map(|line| line.bytes).sum();
        match self.phase {
            Phase::Optimizer => Some(whole.min(left)),
            // They are let go of all at once, and whether before the forward pass or after it is the program's choice.
            Phase::Forward | Phase::Evaluation => (left < whole).then_some(Bytes::ZERO),
            // They come one by one. Where no line says what else is there, nothing speaks against them.
            Phase::Backward | Phase::Unknown => self.lines.is_empty().then_some(whole),
            Phase::Load => None,
        }
    }

    /// Whether torch was putting a model on the device, or making one there: then no batch has any part in it.
    pub fn places_a_model(&self) -> bool {
        let is_of_model = |frame: &SourceLine| {
            let is_in = |part: &str| frame.file.contains(part);
            match frame.function.as_str() {
                "_apply" => is_in("torch/nn/modules/module.py"),
                "__init__" | "reset_parameters" => is_in("torch/nn/modules/"),
                _ => is_in("torch/nn/init.py"),
            }
        };
        self.phase == Phase::Load && self.stack.iter().any(is_of_model)
    }

    /// Whether it was something else that the program put there before its first step, such as its data: no model was moved, and
    /// no object was made.
    pub fn places_data(&self) -> bool {
        let mut frames = self.stack.iter();
        self.phase == Phase::Load
            && self.stack.len() > 1
            && self.activity().is_none()
            && !self.places_a_model()
            && !frames.any(|frame| frame.function == "__init__")
    }

    /// What the program did beside its steps, if it did.
    pub fn activity(&self) -> Option<BesideSteps> {
        let is_among = |activity: BesideSteps| match activity {
            BesideSteps::Generation => self.phase == Phase::Evaluation,
            BesideSteps::CheckpointLoading => self.phase == Phase::Load,
            BesideSteps::CheckpointSaving => self.phase == Phase::Unknown,
        };
        let torchs = |file: &str| {
            let known = [
                "torch/serialization.py",
                "torch/distributed/checkpoint/",
                "/safetensors/",
            ];
            known.iter().any(|part| file.contains(part))
        };
        let known = BesideSteps::KNOWN
            .iter()
            .filter(|(activity, ..)| is_among(*activity));
        let found = known.filter(|(_, names, short)| {
            self.stack.iter().any(|line| {
                let name = line.function.as_str();
                names.contains(&name) || short.contains(&name) && torchs(&line.file)
            })
        });
        found.map(|(activity, ..)| *activity).next()
    }
}

/// Lines as their files had them when the run was started. Read by oomph, not by the training, and
/// only of lines that are shown because they hold memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SourceText {
    /// A later run may have been started after an edit.
    pub run: RunNumber,
    pub lines: Vec<LineText>,
}

/// One line's text: without indentation, cut to a sane width, secrets masked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineText {
    pub file: String,
    pub line: u32,
    pub text: String,
}

impl LineText {
    pub fn is_of(&self, line: &SourceLine) -> bool {
        self.line == line.line && self.file == line.file
    }
}
