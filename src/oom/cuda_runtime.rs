//! The CUDA and HIP runtime and driver, outside any caching allocator: contexts, pinned memory,
//! modules, other libraries. All but one of these say no figure at all.

use super::report::Kind;
use super::squeezed::{find, number_after, size_after};
use super::wording::{Found, Text, form_at, is_prose};

/// Wordings in lower case, squeezed, each with where it comes from.
const WORDINGS: [(&str, Kind); 24] = [
    // torch: CUDAException.cpp (0.4.1 to 2.15), driver API (2.1 and later).
    ("cudaerror:outofmemory", Kind::CudaErrorOom),
    ("cudadrivererror:outofmemory", Kind::CudaErrorOom),
    // torch 0.1 to 0.4: THCGeneral.cpp, and the THCudaCheck line before it.
    ("cudaruntimeerror(2):outofmemory", Kind::CudaErrorOom),
    ("cudaruntimeerr(2):outofmemory", Kind::CudaErrorOom),
    ("error=2:outofmemory", Kind::CudaErrorOom),
    // spconv and cumm: tensorview's TV_CHECK_CUDA_ERR.
    ("cudafailedwitherror2outofmemory", Kind::CudaErrorOom),
    // Triton's launcher (CUDA_CHECK in its driver.c).
    ("tritonerror[cuda]:outofmemory", Kind::CudaErrorOom),
    // ONNX Runtime: cuda_call.cc.
    ("cudafailure2:outofmemory", Kind::CudaErrorOom),
    // Plain codes of extensions' own checks, and RMM's.
    ("cudaerror2:outofmemory", Kind::CudaErrorOom),
    ("cudaerror2(outofmemory)", Kind::CudaErrorOom),
    ("cudaerrormemoryallocation:outofmemory", Kind::CudaErrorOom),
    ("cudaerrormemoryallocationoutofmemory", Kind::CudaErrorOom),
    ("gpuassert:outofmemory", Kind::CudaErrorOom),
    // llama.cpp (ggml-cuda.cu) and MXNet (pooled_storage_manager.h).
    ("cudamallocfailed:outofmemory", Kind::CudaErrorOom),
    ("cudamallocretryfailed:outofmemory", Kind::CudaErrorOom),
    // OpenCV: gpu_mat.cu's cudaSafeCall.
    ("gpuapicall)outofmemory", Kind::CudaErrorOom),
    // compute-sanitizer.
    ("dueto\"outofmemory\"oncudaapicall", Kind::CudaErrorOom),
    // PyCUDA and numba.
    ("cumemallocfailed:outofmemory", Kind::CudaErrorOom),
    ("resultsincuda_error_out_of_memory", Kind::CudaErrorOom),
    // TensorRT: defaultAllocator.cpp.
    ("cudaruntime(outofmemory)", Kind::CudaErrorOom),
    // torch's XPU build on oneAPI: the adapters' codes (ur_api.h; Level Zero's plugin before them).
    ("ur_result_error_out_of_device_memory", Kind::XpuOom),
    ("pi_error_out_of_device_memory", Kind::XpuOom),
    // torch's HIP build, translated from CUDAException.cpp.
    ("hiperror:outofmemory", Kind::HipOom),
    ("hiperror:hiperroroutofmemory", Kind::HipOom),
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
    use crate::oom::Report;
    use crate::oom::fixture::{none, one, reports};

    #[test]
    fn every_library_has_its_words() {
        let cases = [
            (
                "RuntimeError: CUDA error: out of memory",
                Kind::CudaErrorOom,
            ),
            (
                "torch.AcceleratorError: CUDA error: out of memory\nSearch for `cudaErrorMemoryAllocation' in https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for more information.\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n",
                Kind::CudaErrorOom,
            ),
            (
                "RuntimeError: CUDA driver error: out of memory",
                Kind::CudaErrorOom,
            ),
            (
                "THCudaCheck FAIL file=/pytorch/torch/lib/THC/generic/THCStorage.cu line=58 error=2 : out of memory\nRuntimeError: cuda runtime error (2) : out of memory at /pytorch/torch/lib/THC/generic/THCStorage.cu:58",
                Kind::CudaErrorOom,
            ),
            (
                "RuntimeError: cuda runtime err(2): out of memory at /x/THCStorage.cu:66",
                Kind::CudaErrorOom,
            ),
            (
                "cuda failed with error 2 out of memory. use CUDA_LAUNCH_BLOCKING=1 to get correct traceback.",
                Kind::CudaErrorOom,
            ),
            (
                "RuntimeError: Triton Error [CUDA]: out of memory",
                Kind::CudaErrorOom,
            ),
            (
                "onnxruntime::CudaCall CUDA failure 2: out of memory ; GPU=0 ; hostname=n7",
                Kind::CudaErrorOom,
            ),
            (
                "MemoryError: std::bad_alloc: out_of_memory: CUDA error at: /x/cuda_memory_resource.hpp:70: cudaErrorMemoryAllocation out of memory",
                Kind::CudaErrorOom,
            ),
            (
                "pycuda._driver.MemoryError: cuMemAlloc failed: out of memory",
                Kind::CudaErrorOom,
            ),
            (
                "numba.cuda.cudadrv.driver.CudaAPIError: [2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY",
                Kind::CudaErrorOom,
            ),
            ("RuntimeError: HIP error: out of memory", Kind::HipOom),
            (
                "ERROR 05-01 10:00:00 [core.py:9] CUDA error: out of memory",
                Kind::CudaErrorOom,
            ),
            (
                "(RayWorker pid=71) RuntimeError: CUDA error: out of memory",
                Kind::CudaErrorOom,
            ),
        ];
        for (text, kind) in cases {
            let expected = Report {
                kind,
                ..Report::default()
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
