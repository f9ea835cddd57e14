//! The CUDA and HIP runtime and driver, outside any caching allocator: contexts, pinned memory,
//! modules, other libraries. All but one of these say no figure at all.

use super::kind::OomKind;
use super::squeezed::{find, number_after, size_after};
use super::wording::{Found, Text, form_at, is_prose};

/// Wordings in lower case, squeezed, each with where it comes from.
const WORDINGS: [(&str, OomKind); 24] = [
    // torch: CUDAException.cpp (0.4.1 to 2.15), driver API (2.1 and later).
    ("cudaerror:outofmemory", OomKind::CudaErrorOom),
    ("cudadrivererror:outofmemory", OomKind::CudaErrorOom),
    // torch 0.1 to 0.4: THCGeneral.cpp, and the THCudaCheck line before it.
    ("cudaruntimeerror(2):outofmemory", OomKind::CudaErrorOom),
    ("cudaruntimeerr(2):outofmemory", OomKind::CudaErrorOom),
    ("error=2:outofmemory", OomKind::CudaErrorOom),
    // spconv and cumm: tensorview's TV_CHECK_CUDA_ERR.
    ("cudafailedwitherror2outofmemory", OomKind::CudaErrorOom),
    // Triton's launcher (CUDA_CHECK in its driver.c).
    ("tritonerror[cuda]:outofmemory", OomKind::CudaErrorOom),
    // ONNX Runtime: cuda_call.cc.
    ("cudafailure2:outofmemory", OomKind::CudaErrorOom),
    // Plain codes of extensions' own checks, and RMM's.
    ("cudaerror2:outofmemory", OomKind::CudaErrorOom),
    ("cudaerror2(outofmemory)", OomKind::CudaErrorOom),
    (
        "cudaerrormemoryallocation:outofmemory",
        OomKind::CudaErrorOom,
    ),
    (
        "cudaerrormemoryallocationoutofmemory",
        OomKind::CudaErrorOom,
    ),
    ("gpuassert:outofmemory", OomKind::CudaErrorOom),
    // llama.cpp (ggml-cuda.cu) and MXNet (pooled_storage_manager.h).
    ("cudamallocfailed:outofmemory", OomKind::CudaErrorOom),
    ("cudamallocretryfailed:outofmemory", OomKind::CudaErrorOom),
    // OpenCV: gpu_mat.cu's cudaSafeCall.
    ("gpuapicall)outofmemory", OomKind::CudaErrorOom),
    // compute-sanitizer.
    ("dueto\"outofmemory\"oncudaapicall", OomKind::CudaErrorOom),
    // PyCUDA and numba.
    ("cumemallocfailed:outofmemory", OomKind::CudaErrorOom),
    ("resultsincuda_error_out_of_memory", OomKind::CudaErrorOom),
    // TensorRT: defaultAllocator.cpp.
    ("cudaruntime(outofmemory)", OomKind::CudaErrorOom),
    // torch's XPU build on oneAPI: the adapters' codes (ur_api.h; Level Zero's plugin before them).
    ("ur_result_error_out_of_device_memory", OomKind::XpuOom),
    ("pi_error_out_of_device_memory", OomKind::XpuOom),
    // torch's HIP build, translated from CUDAException.cpp.
    ("hiperror:outofmemory", OomKind::HipOom),
    ("hiperror:hiperroroutofmemory", OomKind::HipOom),
];

/// One of these is in every message of the family.
pub(super) fn heads() -> Vec<&'static str> {
    WORDINGS.iter().map(|(words, _)| *words).collect()
}

/// The message in `text`.
pub(super) fn read(text: &Text) -> Option<Found> {
    let lower = text.squeezed.to_ascii_lowercase();
    let (at, end, kind) = WORDINGS
        .iter()
        .find_map(|&(words, kind)| find(&lower, words).map(|at| (at, at + words.len(), kind)))?;
    let form = form_at(text, at)?;
    if is_prose(text, at, end) {
        return None;
    }
    let mut found = Found::whole(kind, form);
    // `allocating 18432.00 MiB on device 0: cudaMalloc failed: out of memory`, llama.cpp.
    let before = &text.squeezed[..at];
    found.report.requested = size_after(before, "allocating");
    found.report.device = found
        .report
        .requested
        .and_then(|_| number_after(before, "ondevice"));
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oom::OomReport;
    use crate::oom::fixture::{none, one, reports};

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
}
