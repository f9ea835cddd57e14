//! cuBLAS and cuDNN, whose handles and workspaces lie outside the caching allocator.
//!
//! `…_STATUS_NOT_INITIALIZED` and "unable to find an engine" are not read: version mismatches,
//! labels out of range and unsupported types print the same, and the text cannot tell them apart.

use super::kind::OomKind;
use super::squeezed::find;
use super::wording::{Form, Found, Text, form_at, is_prose};

/// Statuses of both libraries, squeezed.
const STATUSES: [(&str, OomKind); 3] = [
    ("CUBLAS_STATUS_ALLOC_FAILED", OomKind::Cublas),
    ("CUDNN_STATUS_ALLOC_FAILED", OomKind::Cudnn),
    // cuDNN 9 (cudnn_graph.h), whose statuses say which internal error it was.
    (
        "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
        OomKind::Cudnn,
    ),
];

/// Sentences without a status, squeezed.
const SENTENCES: [&str; 2] = [
    // torch Conv_v7.cpp, 1.0 and later: no algorithm's workspace could be allocated.
    "UnabletofindavalidcuDNNalgorithmtorunconvolution",
    // torch 2.15, where cuDNN compiles kernels at run time.
    "CUDAranoutofmemoryoutsidePyTorch'sallocator",
];

/// One of these is in every message of the family.
pub(super) fn heads() -> Vec<&'static str> {
    let mut heads = SENTENCES.to_vec();
    heads.extend(STATUSES.iter().map(|(status, _)| status));
    heads
}

/// The message in `text`.
pub(super) fn read(text: &Text) -> Option<Found> {
    status(text).or_else(|| sentence(text))
}

/// `CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling …` (torch CUDABlas.cpp / Exceptions.h, all
/// versions), `cuDNN error: CUDNN_STATUS_ALLOC_FAILED` (cudnn/Exceptions.h).
fn status(text: &Text) -> Option<Found> {
    let (at, kind) = STATUSES
        .iter()
        .find_map(|&(status, kind)| Some((find(&text.squeezed, status)?, kind)))?;
    // A table of names in somebody's source has no error in front.
    let before = text.squeezed[..at].to_ascii_lowercase();
    let reported =
        before.contains("error:") || before.contains("failed") || before.contains("handle:");
    let start = before
        .rfind("cudaerror:")
        .or(before.rfind("cudnnerror:"))
        .unwrap_or(at);
    let form = form_at(text, start)?;
    (reported && !is_prose(text, start, text.squeezed.len())).then(|| Found::whole(kind, form))
}

fn sentence(text: &Text) -> Option<Found> {
    SENTENCES.iter().find_map(|words| {
        let at = find(&text.squeezed, words)?;
        let form = form_at(text, at)?;
        let told = is_prose(text, at, at + words.len());
        (form != Form::Logged || !told).then(|| Found::whole(OomKind::Cudnn, form))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oom::OomReport;
    use crate::oom::fixture::{none, one};

    #[test]
    fn failed_allocations_of_both_libraries() {
        let cases = [
            (
                "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
                OomKind::Cublas,
            ),
            (
                "[rank0]: RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasLtMatmul( a, b )`",
                OomKind::Cublas,
            ),
            (
                "2026-01-02 10:00:00.1: E tensorflow/stream_executor/cuda/cuda_blas.cc:226] failed to create cublas handle: CUBLAS_STATUS_ALLOC_FAILED",
                OomKind::Cublas,
            ),
            (
                "RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
                OomKind::Cudnn,
            ),
            (
                "RuntimeError: Unable to find a valid cuDNN algorithm to run convolution",
                OomKind::Cudnn,
            ),
            (
                "RuntimeError: CUDA ran out of memory outside PyTorch's allocator. If this workload uses many dynamic shapes, cuDNN may need additional device memory to JIT-compile shape-specialized kernels.",
                OomKind::Cudnn,
            ),
        ];
        for (text, kind) in cases {
            let expected = OomReport {
                kind,
                rank: text.starts_with('[').then_some(crate::units::Rank(0)),
                ..OomReport::default()
            };
            assert_eq!(one(text), expected);
        }
    }

    #[test]
    fn what_the_text_cannot_tell_is_not_said() {
        for text in [
            "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
            "RuntimeError: cuDNN error: CUDNN_STATUS_NOT_INITIALIZED",
            "RuntimeError: FIND was unable to find an engine to execute this computation",
            "RuntimeError: GET was unable to find an engine to execute this computation",
            "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `x`",
            "    case CUBLAS_STATUS_ALLOC_FAILED:",
            "      return \"CUDNN_STATUS_ALLOC_FAILED\";",
        ] {
            none(text);
        }
    }
}
