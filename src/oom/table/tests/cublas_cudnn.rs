//! cuBLAS and cuDNN.

use crate::oom::fixture::{none, one};
use crate::oom::{OomKind, OomReport};

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
