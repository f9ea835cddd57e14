//! What the probe says from inside a training process. These structs are the wire format as well:
//! one JSON object a line, `{"ns": <time.monotonic_ns()>, "event": "sample", …}`.
//!
//! Figures that a version of PyTorch does not have are `None` (absent on the wire), never zero.

use crate::units::{Bytes, Pid, Rank, RunNumber, Uuid};
use serde::{Deserialize, Serialize};

/// A process of the training that has initialised CUDA.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Hello {
    pub pid: Pid,
    /// The run that it belongs to (from the environment that oomph gave the command).
    pub run: RunNumber,
    /// `RANK`, where a launcher set it.
    #[serde(default)]
    pub rank: Option<Rank>,
    /// `LOCAL_RANK`, where a launcher set it.
    #[serde(default)]
    pub local_rank: Option<Rank>,
    /// `WORLD_SIZE`, where a launcher set it.
    #[serde(default)]
    pub world_size: Option<u32>,
    /// Python's version, `3.12.3`.
    pub python: String,
    /// torch's version, `2.11.0+cu130`.
    pub torch: String,
    /// The devices that the process sees, in the order of CUDA's ordinals.
    pub devices: Vec<ProbeDevice>,
    /// The allocator's back end, `native` or `cudaMallocAsync` or a pluggable one's name.
    #[serde(default)]
    pub backend: Option<String>,
    /// The allocator settings in force as text, read back from the allocator where it says them.
    #[serde(default)]
    pub alloc_conf: Option<String>,
    /// Whether expandable segments are in force, read back from the allocator.
    #[serde(default)]
    pub expandable_segments: Option<bool>,
    /// Why the probe does not sample this process (a pluggable allocator), where it does not.
    #[serde(default)]
    pub resting: Option<String>,
}

/// A device as CUDA shows it to a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeDevice {
    /// CUDA's ordinal in that process.
    pub ordinal: u32,
    /// The device; `None` before torch 2.x that says it.
    #[serde(default)]
    pub uuid: Option<Uuid>,
    pub name: String,
    /// `total_memory`: what CUDA can give out.
    pub total: Bytes,
}

/// One reading of `torch._C._cuda_memoryStats(device)`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Sample {
    pub pid: Pid,
    /// CUDA's ordinal in that process.
    pub device: u32,
    /// Blocks of live tensors.
    pub allocated: Bytes,
    /// Segments held by the caching allocator.
    pub reserved: Bytes,
    /// Allocated, and freed but waiting for a stream.
    #[serde(default)]
    pub active: Option<Bytes>,
    /// Free pieces of partly used segments (always 0 with expandable segments).
    #[serde(default)]
    pub inactive_split: Option<Bytes>,
    /// What was asked for, before rounding.
    #[serde(default)]
    pub requested: Option<Bytes>,
    /// The largest `allocated` so far in this process, across resets of PyTorch's own peak.
    pub allocated_peak: Bytes,
    /// The largest `reserved` so far in this process.
    pub reserved_peak: Bytes,
    /// cudaMalloc failed, the cache was given back, and it was tried again.
    #[serde(default)]
    pub alloc_retries: u64,
    /// Out-of-memory errors thrown, caught ones included.
    #[serde(default)]
    pub ooms: u64,
    /// Segments held.
    #[serde(default)]
    pub segments: Option<u64>,
    /// The part of it that the pool of small blocks holds; the rest is the large pool's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub small_pool: Option<Pool>,
    /// A cap set by the program on what it may reserve of the device.
    #[serde(default)]
    pub limit: Option<Bytes>,
}

/// One of the native allocator's two pools: small blocks (up to 1 MiB, in segments of 2 MiB) and
/// large ones, which never share a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Pool {
    /// Blocks of live tensors.
    pub allocated: Bytes,
    /// Its segments' bytes.
    pub reserved: Bytes,
    /// Free pieces of its partly used segments.
    pub inactive_split: Bytes,
    /// Its segments.
    pub segments: u64,
}

/// What the allocator showed at one edge of an optimizer step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StepReading {
    /// Blocks of live tensors.
    pub allocated: Bytes,
    /// Segments held.
    pub reserved: Bytes,
    /// The largest `allocated` so far (PyTorch's own peak, which the program may reset).
    pub peak: Bytes,
}

/// One optimizer step, read in the global step hooks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    pub pid: Pid,
    /// CUDA's ordinal of the device that holds the optimizer's parameters.
    pub device: u32,
    /// How many steps this process has ended, this one included.
    pub count: u64,
    /// How long `step()` itself took, in microseconds of the host's clock.
    #[serde(default)]
    pub micros: u64,
    /// Before `step()`: gradients are there, activations are gone.
    pub before: StepReading,
    /// After `step()`.
    pub after: StepReading,
}

/// What the memory of a process is made of, as far as the optimizer shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Structure {
    pub pid: Pid,
    /// CUDA's ordinal.
    pub device: u32,
    /// Bytes of the parameters that optimizers hold.
    pub parameters: Bytes,
    /// Bytes of their gradients at the edge of a step.
    pub gradients: Bytes,
    /// Bytes of the optimizers' state.
    pub optimizer_state: Bytes,
}

impl Structure {
    pub fn total(&self) -> Bytes {
        self.parameters + self.gradients + self.optimizer_state
    }
}

/// Where in a step something happened, as far as it can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Before the first optimizer step, outside forward and backward (the model is being built).
    Load,
    /// In a forward with gradients.
    Forward,
    /// In backward.
    Backward,
    /// In an optimizer's step.
    Optimizer,
    /// In a forward without gradients, or with the model in evaluation mode.
    Evaluation,
    /// Not known.
    #[default]
    #[serde(other)]
    Unknown,
}

/// One line of the program or of a library.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SourceLine {
    /// The file's path.
    pub file: String,
    /// The line's number.
    pub line: u32,
    /// The function.
    #[serde(default)]
    pub function: String,
}

impl SourceLine {
    /// `train.py:88`: the file's name is enough to find it by.
    pub fn place(&self) -> String {
        let name = self.file.rsplit('/').next().unwrap_or_default();
        format!("{name}:{}", self.line)
    }

    /// `train.py:88 forward → modeling_gpt2.py:240 mlp`: the program's line, and the library's in
    /// which it allocated.
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

/// Bytes held at an OOM by what one line of the program allocated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineUsage {
    /// The line of the program's own code.
    pub line: SourceLine,
    /// The innermost library line below it, where there is one.
    #[serde(default)]
    pub inside: Option<SourceLine>,
    /// Bytes held.
    pub bytes: Bytes,
    /// In how many blocks.
    pub blocks: u64,
    /// What they are, where an optimizer knows them; the rest is activations, buffers, batches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<MemoryKind>,
}

/// What an optimizer knows memory to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryKind {
    /// Parameters.
    Parameters,
    /// Their gradients.
    Gradients,
    /// The optimizer's state.
    OptimizerState,
    /// A kind that this version does not know (a recording of a later one).
    #[serde(other)]
    Unknown,
}

/// A line of the program that holds more from step to step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrowingLine {
    /// The line of the program's own code.
    pub line: SourceLine,
    /// The innermost library line below it, where there is one.
    #[serde(default)]
    pub inside: Option<SourceLine>,
    /// Bytes held after the later step.
    pub bytes: Bytes,
    /// How much more a step.
    pub per_step: Bytes,
    /// The earlier step.
    pub from_step: u64,
    /// The later step.
    pub to_step: u64,
}

/// Free blocks of one class of size (powers of two), inside reserved segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FreeBlocks {
    /// The class's upper bound.
    pub up_to: Bytes,
    /// How many there are.
    pub count: u64,
    /// Their bytes together.
    pub bytes: Bytes,
}

/// What a model's parameters take on the device that ran out of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelBytes {
    /// All of them.
    pub parameters: Bytes,
    /// Those that are trained.
    pub trained: Bytes,
}

/// The OOM observer's record, taken on the allocating thread before the exception is thrown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OomRecord {
    pub pid: Pid,
    /// CUDA's ordinal.
    pub device: u32,
    /// The segment that the allocator asked the driver for (rounded up from the tensor's size).
    pub requested: Bytes,
    /// The device's capacity, or the cap where one is set.
    pub total: Bytes,
    /// Free on the whole device, whatever the cap.
    pub free: Bytes,
    /// The allocator's statistics at that moment (after it gave its cache back).
    pub sample: Sample,
    /// The cap, where the program or the environment set one.
    #[serde(default)]
    pub limit: Option<Bytes>,
    /// The largest free block in reserved segments.
    #[serde(default)]
    pub largest_free: Option<Bytes>,
    /// Free blocks by size.
    #[serde(default)]
    pub free_blocks: Vec<FreeBlocks>,
    /// The lines that hold the most bytes, most first.
    #[serde(default)]
    pub lines: Vec<LineUsage>,
    /// The lines that hold more from step to step, by two sums taken after steps; most first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub growing: Vec<GrowingLine>,
    /// The training's Python stack, innermost first.
    #[serde(default)]
    pub stack: Vec<SourceLine>,
    /// Where in the step.
    #[serde(default)]
    pub phase: Phase,
    /// Whether gradients were recorded on the allocating thread (`torch.is_grad_enabled()`): in an
    /// evaluation it tells one that builds the graph. In backward it is false.
    #[serde(default)]
    pub grad_enabled: Option<bool>,
    /// In a forward: how far it had come, as a share of what it keeps for backward (the requested
    /// allocation included), by the modules on the stack. `None` where that cannot be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<f64>,
    /// In a forward: the model that runs, where it is on the stack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Box<ModelBytes>>,
    /// Optimizer steps that this process had ended.
    #[serde(default)]
    pub step: u64,
    /// What the memory is made of, where an optimizer was seen.
    #[serde(default)]
    pub structure: Option<Box<Structure>>,
}
