//! Memory of this process outside PyTorch's allocator: NCCL's buffers, cuBLAS's and cuDNN's
//! workspaces, another library with an allocator of its own.

use super::case::{Case, number, text};
use super::{Cause, Certainty, Finding};
use crate::measured::NON_TORCH_AT_MOST;

/// The share of the GPU from which it is much.
const NOTABLE: f64 = 0.1;

pub(super) fn examine(case: &Case) -> Option<Finding> {
    let outside = case.non_pytorch?;
    let (capacity, requested) = (case.capacity?, case.requested?);
    let beyond_usual = outside - NON_TORCH_AT_MOST;
    if beyond_usual.fraction_of(capacity)? < NOTABLE {
        return None;
    }
    // Without it the GPU would have had room.
    let would_do = case.free? + beyond_usual >= requested && case.needed()? <= capacity;
    let certainty = if would_do {
        Certainty::Likely
    } else {
        Certainty::Possible
    };
    let mut finding = case.finding(
        Cause::NonPytorch,
        certainty,
        format!(
            "This process uses {outside} outside PyTorch's allocator, of {capacity} on the GPU."
        ),
    );
    finding.explanation = text([
        Some("A context takes 300 to 600 MiB; the rest is NCCL's, cuBLAS's, cuDNN's or another library's.".into()),
        case.caveat(),
    ]);
    finding.evidence = vec![number("usual outside PyTorch", NON_TORCH_AT_MOST)];
    finding.evidence.extend(case.evidence());
    finding.advice = vec![
        "look for libraries with device memory of their own (CuPy, RAPIDS, TensorFlow, JAX, Triton servers) in this process".into(),
        "fewer NCCL communicators, or smaller buffers (NCCL_BUFFSIZE)".into(),
        "a smaller CUBLAS_WORKSPACE_CONFIG".into(),
    ];
    Some(finding)
}
