//! Libraries on top of CUDA that have words of their own: bitsandbytes, vLLM, CuPy.

use super::report::Kind;
use super::squeezed::{number_at_start, size_after};
use super::wording::{Found, Text, form_at};

/// The message in `text`.
pub(super) fn read(text: &Text) -> Option<Found> {
    bitsandbytes(text)
        .or_else(|| vllm(text))
        .or_else(|| cupy(text))
}

/// `Error out of memory at line 380 in file …/csrc/pythonInterface.c` (also ops.cu): bitsandbytes'
/// CUDA_CHECK_RETURN prints `Error %s at line %d in file %s` and exits with 1, no traceback.
fn bitsandbytes(text: &Text) -> Option<Found> {
    let words = "Erroroutofmemoryatline";
    let at = text.squeezed.find(words)?;
    let (_, after) = number_at_start(&text.squeezed[at + words.len()..])?;
    let form = form_at(text, at)?;
    after
        .starts_with("infile")
        .then(|| Found::whole(Kind::Bitsandbytes, form))
}

/// vLLM's check before it lays out the cache (worker.py, gpu_worker.py, kv_cache_utils.py).
fn vllm(text: &Text) -> Option<Found> {
    let at = text.squeezed.find("Noavailablememoryforthecacheblocks.")?;
    let form = form_at(text, at)?;
    Some(Found::whole(Kind::Vllm, form))
}

/// `Out of memory allocating 1,024 bytes (allocated so far: 512 bytes[, limit set to: 2,048
/// bytes]).` (cupy/cuda/memory.pyx; the commas are its).
fn cupy(text: &Text) -> Option<Found> {
    let at = text.squeezed.find("Outofmemoryallocating")?;
    let clause = &text.squeezed[at..];
    if !clause.contains("(allocatedsofar:") {
        return None;
    }
    let mut found = Found::whole(Kind::Cupy, form_at(text, at)?);
    found.report.requested = size_after(clause, "allocating");
    found.report.allocated = size_after(clause, "allocatedsofar:");
    found.report.limit = size_after(clause, "limitsetto:");
    Some(found)
}
