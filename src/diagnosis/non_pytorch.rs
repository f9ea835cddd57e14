//! Memory of this process outside of PyTorch's allocator: NCCL's buffers, cuBLAS's and cuDNN's
//! workspaces, another library with its own allocator.

use super::finding::because;
use super::oom_context::OomContext;
use super::{Cause, CauseSpec, Certainty, Finding};
use crate::calibration::NON_TORCH_AT_MOST;
use crate::oom::OomKind;

pub(super) const CAUSE: CauseSpec =
    CauseSpec::new("non-PyTorch memory", examine).explains_capacity();

/// The share of the GPU from which it counts.
const NOTABLE: f64 = 0.1;

fn examine(case: &OomContext) -> Option<Finding> {
    cached_by_cuda(case).or_else(|| counted(case))
}

/// Only `backend:cudaMallocAsync` does not say what is reserved: the cache is CUDA's own then.
fn cached_by_cuda(case: &OomContext) -> Option<Finding> {
    let is_async = case.kind == OomKind::CudaOom && case.reserved.is_none();
    let (capacity, free) = (case.capacity?, case.free?);
    let between = capacity - (case.allocated? + free);
    let would_do = free + between >= case.requested?;
    if !is_async || between <= NON_TORCH_AT_MOST || !would_do {
        return None;
    }
    let headline = format!(
        "{between} of the GPU's {capacity} is neither allocated by PyTorch nor free: CUDA has cached it, or another process uses it."
    );
    Some(
        case.finding(Cause::NonPytorch, Certainty::Likely, headline)
            .says("The program runs with cudaMallocAsync, whose cache is CUDA's own and may be in pieces.")
            .says_if(case.failed())
            .advises([
                because(
                    "PyTorch's own allocator",
                    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True without backend:cudaMallocAsync; ComfyUI: --disable-cuda-malloc",
                ),
                case.see_who_is_there(),
                "a smaller batch".into(),
            ]),
    )
}

fn counted(case: &OomContext) -> Option<Finding> {
    let outside = case.non_pytorch?;
    let (capacity, requested) = (case.capacity?, case.requested?);
    let beyond_usual = outside - NON_TORCH_AT_MOST;
    if beyond_usual.fraction_of(capacity)? < NOTABLE {
        return None;
    }
    // Without it there would have been enough memory.
    let would_do = case.free? + beyond_usual >= requested && case.needed()? <= capacity;
    let exceeds = case
        .needed()
        .is_some_and(|needed| needed + outside > capacity);
    let sum = case.sum(Some((outside, "non-PyTorch"))).filter(|_| exceeds);
    let finding = case.finding(
        Cause::NonPytorch,
        Certainty::likely_if(would_do),
        match sum {
            Some(sum) => format!("Too much outside PyTorch's allocator: {}.", sum(capacity)),
            None => format!(
                "This process uses {outside} outside PyTorch's allocator, of {capacity} on the GPU."
            ),
        },
    );
    Some(
        finding
            .says("A CUDA context takes 300 to 600 MiB; NCCL, cuBLAS, cuDNN or another library uses the rest.")
            .says_if(case.caveat())
            .shows_first([("usual outside PyTorch", NON_TORCH_AT_MOST)])
            .advises([
                "look for libraries that allocate GPU memory themselves (CuPy, RAPIDS, TensorFlow, JAX, Triton servers) in this process",
                "JAX and TensorFlow take most of the GPU at once: XLA_PYTHON_CLIENT_PREALLOCATE=false, TF_FORCE_GPU_ALLOW_GROWTH=true",
                "fewer NCCL communicators, or smaller buffers (NCCL_BUFFSIZE)",
                "a smaller CUBLAS_WORKSPACE_CONFIG",
            ]),
    )
}
