//! What one out-of-memory says in text. A figure that the text does not have is `None`.

use crate::units::{Bytes, Pid, Rank};
use serde::{Deserialize, Serialize};

/// An out-of-memory as it was read.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Report {
    /// Who ran out of memory.
    pub kind: Kind,
    /// Whether it ended the program, as far as the text shows.
    pub outcome: Outcome,
    /// The line's number in the stream, from 1.
    pub line: u64,
    /// The rank that printed it, where a prefix says one.
    pub rank: Option<Rank>,
    /// CUDA's ordinal, where the text has it.
    pub device: Option<u32>,
    /// "Tried to allocate": the segment asked of the driver, not the tensor.
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
    /// A cap set by the program ("allowed").
    pub limit: Option<Bytes>,
    /// Of the allocated, in private pools (CUDA graphs).
    pub private_pools: Option<Bytes>,
    /// Other processes on the device.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<OtherProcess>,
}

/// Another process that the text names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherProcess {
    /// Its id, as NVML told PyTorch (in a container it may be the run itself).
    pub pid: Pid,
    /// Its memory on the device.
    pub used: Option<Bytes>,
}

/// The families of out-of-memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// PyTorch's CUDA caching allocator.
    #[default]
    CudaOom,
    /// PyTorch on ROCm.
    HipOom,
    /// PyTorch on Intel GPUs.
    XpuOom,
    /// PyTorch on Apple's GPUs.
    MpsOom,
    /// `CUDA error: out of memory`, outside the caching allocator.
    CudaErrorOom,
    /// cuBLAS could not allocate.
    Cublas,
    /// cuDNN could not allocate.
    Cudnn,
    /// NCCL could not allocate.
    Nccl,
    /// An assertion about NVML that hides an OOM (torch 2.1 to 2.12).
    NvmlAssert,
    /// bitsandbytes' C code.
    Bitsandbytes,
    /// vLLM has no room for its cache.
    Vllm,
    /// CuPy's pool.
    Cupy,
    /// JAX.
    Jax,
    /// TensorFlow.
    Tf,
    /// The host's memory, not the device's.
    HostOom,
}

impl Kind {
    /// Whether `requested` is the segment that PyTorch's caching allocator takes for any small
    /// tensor (kSmallBuffer, 2 MiB, and kLargeBuffer, 20 MiB, in c10's allocator), so that its size
    /// says nothing of the tensor.
    pub fn is_small_segment(self, requested: Bytes) -> bool {
        let allocator = matches!(self, Kind::CudaOom | Kind::HipOom | Kind::XpuOom);
        allocator && (requested == Bytes::mib(2) || requested == Bytes::mib(20))
    }
}

/// Whether an out-of-memory ended the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It did.
    Fatal,
    /// The program went on.
    Caught,
    /// The text does not tell.
    #[default]
    Unknown,
}
