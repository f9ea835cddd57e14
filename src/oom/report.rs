//! What an OOM message says, `None` for what it does not say; the kinds of OOM, and a table of what is known of each.

use super::tracebacks::TracedCall;
use crate::calibration::{LARGE_SEGMENT, SMALL_SEGMENT};
use crate::units::{Bytes, Pid, Rank};
use serde::{Deserialize, Serialize};

/// An OOM read from text.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OomReport {
    pub kind: OomKind,
    /// Whether it ended the program, as far as the text tells.
    pub outcome: OomOutcome,
    /// The line's number, from 1.
    pub line: u64,
    /// The rank, if a prefix has it.
    pub rank: Option<Rank>,
    /// CUDA's ordinal.
    pub device: Option<u32>,
    /// "Tried to allocate": the segment requested from the driver, not the tensor.
    pub requested: Option<Bytes>,
    /// The device's capacity.
    pub total: Option<Bytes>,
    /// Free on the device.
    pub free: Option<Bytes>,
    /// Allocated by PyTorch.
    pub allocated: Option<Bytes>,
    /// Reserved by PyTorch, allocated included.
    pub reserved: Option<Bytes>,
    /// Reserved but unallocated.
    pub unallocated: Option<Bytes>,
    /// This process's memory, non-PyTorch included.
    pub process_used: Option<Bytes>,
    /// A limit set by the program ("allowed").
    pub limit: Option<Bytes>,
    /// The part of allocated that is in private pools (CUDA graphs).
    pub private_pools: Option<Bytes>,
    /// Other processes on the device.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<OtherProcess>,
    /// A shell says "Killed", and nothing more: not why, and not whether anybody minds.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hearsay: bool,
    /// In the words of a torch before 2.1, which has no expandable segments.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub before_2_1: bool,
    /// What its words are about, if they tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sign: Option<OomSign>,
    /// The stack that was printed above it, innermost first; empty if none was.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stack: Vec<TracedCall>,
    /// Allocated on the device outside PyTorch's allocator, where the text says it by itself (MPS's "other allocations").
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outside: Option<Bytes>,
    /// The line above its traceback is the bar of an evaluation that has not come to its end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub evaluates: bool,
    /// What was allocated at an earlier OOM, while whose handling this one came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub while_handling: Option<Bytes>,
    /// The class of another error, with which the text ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub later_error: Option<String>,
}

/// What the words of a message are about, beyond whose memory ran out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OomSign {
    /// /dev/shm.
    SharedMemory,
    /// File descriptors, of which shared tensors take one each.
    Descriptors,
    /// Memory that was to be pinned.
    Pinned,
    /// SLURM says that it is the job's limit.
    Slurm,
    /// An allocation that was refused.
    Refused,
    /// A process that could not be started.
    Fork,
    /// A mapping of shared memory that was refused.
    Mappings,
    /// A process that is gone, it is not said why.
    Gone,
    /// A process that SIGKILL ended, it is not said whose.
    Killed,
    /// An inference engine's share of the GPU, of which less is free.
    EngineShare,
    /// What an inference engine runs behind its KV cache before it serves anybody.
    EngineWarmUp,
    /// The GPU's memory that an inference engine had given back while it slept, and takes again.
    EngineWakes,
    /// An inference engine that records its CUDA graphs.
    EngineGraphs,
    /// What a framework takes of the GPU at its start, before it runs anything.
    Preallocation,
    /// A size that no memory has: a number that overflowed.
    Overflow,
    /// Windows' page file, which bounds what all programs together may reserve.
    PageFile,
    /// Ray's monitor of a node's memory.
    RayMonitor,
    /// Dask's nanny, which watches what each worker has.
    Dask,
    /// A single buffer that is larger than the device lets one be.
    OneBuffer,
    /// Resources of a device, which need not be its memory.
    Resources,
    /// What runs containers and workers (Kubernetes, ECS, YARN) has ended one for the memory that it had.
    Platform,
    /// A process that prepares a data set (Hugging Face's `map` with num_proc) and is gone, it is not said why.
    MapWorker,
    /// Pages of RAM that were to be locked for a network card.
    LockedPages,
    /// cuFFT's plans and their workspaces.
    Cufft,
    /// cuSOLVER's handle and workspaces.
    Cusolver,
    /// cuSPARSE's handle and workspaces.
    Cusparse,
    /// RMM's pool, below cuDF and other parts of RAPIDS.
    Rmm,
    /// DALI's buffers and decoders.
    Dali,
    /// The buffers of a simulated physics (PhysX).
    Physics,
    /// tiny-cuda-nn's memory for what it keeps of a batch.
    TinyCudaNn,
    #[serde(other)]
    Other,
}

impl OomReport {
    /// Whether its words say that a process is gone, and not why.
    pub(super) fn is_guess(&self) -> bool {
        self.kind == OomKind::HostOom
            && (self.hearsay
                || matches!(
                    self.sign,
                    Some(OomSign::Killed | OomSign::Gone | OomSign::MapWorker)
                ))
    }

    /// All its figures.
    pub(super) fn sizes(&self) -> [Option<Bytes>; 10] {
        [
            self.requested,
            self.total,
            self.free,
            self.allocated,
            self.reserved,
            self.unallocated,
            self.process_used,
            self.limit,
            self.private_pools,
            self.outside,
        ]
    }
}

/// Another process on the device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherProcess {
    /// As NVML told PyTorch; in a container it may be the training itself.
    pub pid: Pid,
    /// Its memory on the device.
    pub used: Option<Bytes>,
}

/// Whether an OOM ended the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OomOutcome {
    Fatal,
    /// The program continued.
    Caught,
    /// The text does not tell.
    #[default]
    Unknown,
}

/// Whose memory ran out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OomKind {
    /// PyTorch's CUDA caching allocator.
    #[default]
    CudaOom,
    HipOom,
    XpuOom,
    MpsOom,
    /// PyTorch's allocator for Huawei's Ascend (torch_npu).
    NpuOom,
    /// PyTorch's allocator for Intel's Gaudi.
    HpuOom,
    /// PyTorch's builds for further accelerators, which have its allocator's text under their own name.
    OtherAcceleratorOom,
    /// XLA on a TPU: the memory of its chips (HBM).
    TpuOom,
    /// MLX on an Apple GPU: Metal's memory, without PyTorch.
    MlxOom,
    /// A device that is used through another interface than CUDA's, HIP's or Metal's: DirectML, OpenCL, Vulkan, AWS Neuron,
    /// Graphcore's IPU.
    DeviceOom,
    /// `CUDA error: out of memory`, outside the caching allocator.
    CudaErrorOom,
    Cublas,
    Cudnn,
    Nccl,
    /// An assertion about NVML that hides an OOM (torch 2.1 to 2.12).
    NvmlAssert,
    Bitsandbytes,
    Vllm,
    Sglang,
    /// Accelerate's placement of a model (`device_map="auto"`), which left parts of it off the GPU.
    Placement,
    Cupy,
    Jax,
    Tf,
    Paddle,
    OnnxRuntime,
    /// The host's memory, not the device's.
    HostOom,
}

#[derive(Debug)]
pub struct OomKindSpec {
    /// "CUDA out of memory".
    pub title: &'static str,
    /// "PyTorch's CUDA allocator".
    pub allocator: &'static str,
    /// "cuBLAS".
    pub component: &'static str,
    pub source: OomSource,
    /// Whether the probe may have recorded the same OOM: it observes PyTorch's own allocators.
    pub probed: bool,
    /// Whether expandable segments could have helped.
    pub has_segments: bool,
}

/// What kind of code reports the OOM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OomSource {
    /// One of PyTorch's allocators, with figures.
    PytorchAllocator,
    /// A driver call failed, which may also mean that the device is broken.
    DriverCall,
    /// A framework with an allocator of its own.
    Framework,
    Host,
}

impl OomKind {
    #[rustfmt::skip]
    pub fn spec(self) -> &'static OomKindSpec {
        use OomSource::{DriverCall, Framework, Host, PytorchAllocator};
        const fn spec(title: &'static str, allocator: &'static str, component: &'static str, source: OomSource, probed: bool, has_segments: bool) -> OomKindSpec {
            OomKindSpec { title, allocator, component, source, probed, has_segments }
        }
        match self {
            //                                        title                                   allocator                                     component             source            probed segments
            OomKind::CudaOom      => const { &spec("CUDA out of memory",                   "PyTorch's CUDA allocator",                   "CUDA",               PytorchAllocator, true,  true) },
            OomKind::HipOom       => const { &spec("HIP out of memory",                    "PyTorch's HIP allocator (ROCm)",             "HIP",                PytorchAllocator, true,  false) },
            OomKind::XpuOom       => const { &spec("XPU out of memory",                    "PyTorch's XPU allocator",                    "an Intel GPU",       PytorchAllocator, true,  false) },
            OomKind::MpsOom       => const { &spec("MPS out of memory",                    "PyTorch's MPS allocator",                    "an Apple GPU",       PytorchAllocator, false, false) },
            OomKind::NpuOom       => const { &spec("NPU out of memory",                    "PyTorch's allocator for Ascend NPUs",        "an Ascend NPU",      PytorchAllocator, false, false) },
            OomKind::HpuOom       => const { &spec("HPU out of memory",                    "PyTorch's allocator for Gaudi",              "a Gaudi HPU",        PytorchAllocator, false, false) },
            OomKind::OtherAcceleratorOom => const { &spec("accelerator out of memory",     "PyTorch's allocator for another accelerator", "the accelerator",   PytorchAllocator, false, false) },
            OomKind::TpuOom       => const { &spec("TPU out of memory",                    "XLA, in a TPU's memory (HBM)",               "a TPU",              Framework,        false, false) },
            OomKind::MlxOom       => const { &spec("Metal out of memory",                  "MLX, in the memory that Metal gives it",     "an Apple GPU",       Framework,        false, false) },
            OomKind::DeviceOom    => const { &spec("device out of memory",                 "the device's runtime, not PyTorch's CUDA allocator", "the device", Framework,        false, false) },
            OomKind::CudaErrorOom => const { &spec("CUDA out of memory",                   "CUDA itself, outside PyTorch's allocator",   "CUDA",               DriverCall,       false, false) },
            OomKind::Cublas       => const { &spec("cuBLAS out of memory",                 "cuBLAS",                                     "cuBLAS",             DriverCall,       false, false) },
            OomKind::Cudnn        => const { &spec("cuDNN out of memory",                  "cuDNN",                                      "cuDNN",              DriverCall,       false, false) },
            OomKind::Nccl         => const { &spec("NCCL out of memory",                   "NCCL",                                       "NCCL",               DriverCall,       false, false) },
            OomKind::NvmlAssert   => const { &spec("out of memory, hidden by an NVML assertion", "PyTorch's CUDA allocator (an NVML assertion hides its message)", "CUDA", DriverCall, true, true) },
            OomKind::Bitsandbytes => const { &spec("bitsandbytes out of memory",           "bitsandbytes",                               "bitsandbytes",       DriverCall,       false, false) },
            OomKind::Vllm         => const { &spec("vLLM: not enough memory for its KV cache", "vLLM",                                   "vLLM's KV cache",    Framework,        false, false) },
            OomKind::Sglang       => const { &spec("SGLang: not enough memory for its KV cache", "SGLang",                               "SGLang's KV cache",  Framework,        false, false) },
            OomKind::Placement    => const { &spec("the model does not fit on the GPU",     "Accelerate, which plans where the parts of a model go", "Accelerate", Framework,     false, false) },
            OomKind::Cupy         => const { &spec("CuPy out of memory",                   "CuPy",                                       "CuPy",               Framework,        false, false) },
            OomKind::Jax          => const { &spec("JAX out of memory",                    "JAX",                                        "JAX",                Framework,        false, false) },
            OomKind::Tf           => const { &spec("TensorFlow out of memory",             "TensorFlow",                                 "TensorFlow",         Framework,        false, false) },
            OomKind::Paddle       => const { &spec("Paddle out of memory",                 "Paddle",                                     "Paddle",             Framework,        false, false) },
            OomKind::OnnxRuntime  => const { &spec("ONNX Runtime out of memory",           "ONNX Runtime",                               "ONNX Runtime",       Framework,        false, false) },
            OomKind::HostOom      => const { &spec("host out of memory",                   "the host's memory, not the GPU's",           "the host",           Host,             false, false) },
        }
    }

    /// Whether `requested` is a segment that PyTorch's caching allocator requests for any small
    /// tensor (kSmallBuffer, 2 MiB, and kLargeBuffer, 20 MiB), so that it says nothing about the
    /// tensor's size.
    pub fn is_small_segment(self, requested: Bytes) -> bool {
        let spec = self.spec();
        let caching = spec.source == OomSource::PytorchAllocator && spec.probed;
        caching && (requested == SMALL_SEGMENT || requested == LARGE_SEGMENT)
    }
}
