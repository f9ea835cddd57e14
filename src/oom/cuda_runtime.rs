//! The CUDA and HIP runtime and driver, outside any caching allocator: contexts, pinned memory,
//! modules, other libraries. These say no figure at all.

use super::report::Kind;
use super::wording::{Found, Text, form_at, is_prose};

/// Wordings in lower case, squeezed, each with where it comes from.
const WORDINGS: [(&str, Kind); 17] = [
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
    // PyCUDA and numba.
    ("cumemallocfailed:outofmemory", Kind::CudaErrorOom),
    ("resultsincuda_error_out_of_memory", Kind::CudaErrorOom),
    // torch's HIP build, translated from CUDAException.cpp.
    ("hiperror:outofmemory", Kind::HipOom),
    ("hiperror:hiperroroutofmemory", Kind::HipOom),
];

/// The message in `text`.
pub(super) fn read(text: &Text) -> Option<Found> {
    let lower = text.squeezed.to_ascii_lowercase();
    let (at, end, kind) = WORDINGS
        .iter()
        .find_map(|&(words, kind)| lower.find(words).map(|at| (at, at + words.len(), kind)))?;
    let form = form_at(text, at)?;
    (!is_prose(text, at, end)).then(|| Found::whole(kind, form))
}
