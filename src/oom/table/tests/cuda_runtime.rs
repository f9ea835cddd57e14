//! The CUDA and HIP runtime.

use crate::oom::fixture::{none, one, reports};
use crate::oom::{OomKind, OomReport};

#[test]
fn every_library_has_its_words() {
    let cases = [
        (
            "RuntimeError: CUDA error: out of memory",
            OomKind::CudaErrorOom,
        ),
        (
            "torch.AcceleratorError: CUDA error: out of memory\nSearch for `cudaErrorMemoryAllocation' in https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for more information.\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n",
            OomKind::CudaErrorOom,
        ),
        (
            "RuntimeError: CUDA driver error: out of memory",
            OomKind::CudaErrorOom,
        ),
        (
            "THCudaCheck FAIL file=/pytorch/torch/lib/THC/generic/THCStorage.cu line=58 error=2 : out of memory\nRuntimeError: cuda runtime error (2) : out of memory at /pytorch/torch/lib/THC/generic/THCStorage.cu:58",
            OomKind::CudaErrorOom,
        ),
        (
            "RuntimeError: cuda runtime err(2): out of memory at /x/THCStorage.cu:66",
            OomKind::CudaErrorOom,
        ),
        (
            "cuda failed with error 2 out of memory. use CUDA_LAUNCH_BLOCKING=1 to get correct traceback.",
            OomKind::CudaErrorOom,
        ),
        (
            "RuntimeError: Triton Error [CUDA]: out of memory",
            OomKind::CudaErrorOom,
        ),
        (
            "onnxruntime::CudaCall CUDA failure 2: out of memory ; GPU=0 ; hostname=n7",
            OomKind::CudaErrorOom,
        ),
        (
            "MemoryError: std::bad_alloc: out_of_memory: CUDA error at: /x/cuda_memory_resource.hpp:70: cudaErrorMemoryAllocation out of memory",
            OomKind::CudaErrorOom,
        ),
        (
            "pycuda._driver.MemoryError: cuMemAlloc failed: out of memory",
            OomKind::CudaErrorOom,
        ),
        (
            "numba.cuda.cudadrv.driver.CudaAPIError: [2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY",
            OomKind::CudaErrorOom,
        ),
        ("RuntimeError: HIP error: out of memory", OomKind::HipOom),
        (
            "ERROR 05-01 10:00:00 [core.py:9] CUDA error: out of memory",
            OomKind::CudaErrorOom,
        ),
        (
            "(RayWorker pid=71) RuntimeError: CUDA error: out of memory",
            OomKind::CudaErrorOom,
        ),
    ];
    for (text, kind) in cases {
        let expected = OomReport {
            kind,
            ..OomReport::default()
        };
        assert_eq!(one(text), expected);
    }
}

#[test]
fn other_errors_of_the_runtime_are_none() {
    for text in [
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        "RuntimeError: CUDA error: device-side assert triggered",
        "RuntimeError: CUDA error: no kernel image is available for execution on the device",
        "    raise RuntimeError(\"CUDA error: out of memory\")",
        "    if 'CUDA error: out of memory' in str(e):",
        "If you get CUDA error: out of memory, close other programs.",
        "the buffer was swapped out of memory, says cudafoo",
    ] {
        none(text);
    }
}

#[test]
fn each_rank_has_its_own() {
    let text = "[rank0]: RuntimeError: CUDA error: out of memory\n[rank1]: RuntimeError: CUDA error: out of memory\n[rank1]: RuntimeError: CUDA error: out of memory\n";
    assert_eq!(reports(text).len(), 2);
}
