//! Libraries on top of CUDA that have words of their own: bitsandbytes, vLLM, CuPy.

use super::kind::OomKind;
use super::squeezed::{find, number_at_start, size_after};
use super::wording::{Found, Text, form_at};

const BITSANDBYTES: &str = "Erroroutofmemoryatline";
/// vLLM's checks before it lays out the cache (worker.py, gpu_worker.py, kv_cache_utils.py): no room
/// for any block; none for one request of the longest length; less free than it was told to use.
const VLLM: [&str; 3] = [
    "Noavailablememoryforthecacheblocks.",
    "KVcacheisneeded,whichislargerthantheavailableKVcachememory",
    "onstartupislessthandesiredGPUmemoryutilization",
];
/// The words before CuPy's figure, and those after it; CuPy 5 and older have `out of memory to
/// allocate 1024 bytes (total 2048 bytes)`.
const CUPY: [(&str, &str); 2] = [
    ("Outofmemoryallocating", "(allocatedsofar:"),
    ("outofmemorytoallocate", "(total"),
];

/// One of these is in every message of the family.
pub(super) fn heads() -> Vec<&'static str> {
    vec![
        BITSANDBYTES,
        VLLM[0],
        VLLM[1],
        VLLM[2],
        CUPY[0].0,
        CUPY[1].0,
    ]
}

/// The message in `text`.
pub(super) fn read(text: &Text) -> Option<Found> {
    bitsandbytes(text)
        .or_else(|| vllm(text))
        .or_else(|| cupy(text))
}

/// `Error out of memory at line 380 in file …/csrc/pythonInterface.c` (also ops.cu): bitsandbytes'
/// CUDA_CHECK_RETURN prints `Error %s at line %d in file %s` and exits with 1, no traceback.
fn bitsandbytes(text: &Text) -> Option<Found> {
    let at = find(&text.squeezed, BITSANDBYTES)?;
    let (_, after) = number_at_start(&text.squeezed[at + BITSANDBYTES.len()..])?;
    let form = form_at(text, at)?;
    after
        .starts_with("infile")
        .then(|| Found::whole(OomKind::Bitsandbytes, form))
}

/// One of vLLM's checks; the sentence begins before the words.
fn vllm(text: &Text) -> Option<Found> {
    let at = VLLM
        .iter()
        .find_map(|words| find(&text.squeezed, words))
        .map(|at| {
            let sentence = ["Toserveatleastonerequest", "Freememoryondevice"];
            let begin = sentence
                .iter()
                .find_map(|words| text.squeezed[..at].rfind(words));
            begin.unwrap_or(at)
        })?;
    let form = form_at(text, at)?;
    Some(Found::whole(OomKind::Vllm, form))
}

/// `Out of memory allocating 1,024 bytes (allocated so far: 512 bytes[, limit set to: 2,048
/// bytes]).` (cupy/cuda/memory.pyx; the commas are its).
fn cupy(text: &Text) -> Option<Found> {
    let (at, words) = CUPY.iter().find_map(|&(words, after)| {
        let at = find(&text.squeezed, words)?;
        text.squeezed[at..].contains(after).then_some((at, words))
    })?;
    let clause = &text.squeezed[at..];
    let mut found = Found::whole(OomKind::Cupy, form_at(text, at)?);
    found.report.requested = size_after(clause, words);
    found.report.allocated = size_after(clause, "allocatedsofar:");
    found.report.limit = size_after(clause, "limitsetto:");
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oom::OomReport;
    use crate::oom::fixture::{none, one, size};

    #[test]
    fn each_library_has_its_words() {
        let cases = [
            (
                "Error out of memory at line 90 in file /src/csrc/ops.cu",
                OomKind::Bitsandbytes,
            ),
            (
                "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.",
                OomKind::Vllm,
            ),
            (
                "api-1  | ERROR 05-01 10:00:00 engine.py:7]     raise ValueError(\"No available memory for the cache blocks. \"\napi-1  | ERROR 05-01 10:00:00 engine.py:7] ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.",
                OomKind::Vllm,
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
    fn cupy_has_figures_with_commas() {
        let text = "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 3,221,225,472 bytes (allocated so far: 1,024 bytes, limit set to: 2,147,483,648 bytes).";
        let expected = OomReport {
            kind: OomKind::Cupy,
            requested: size("3 GiB"),
            allocated: size("1 KiB"),
            limit: size("2 GiB"),
            ..OomReport::default()
        };
        assert_eq!(one(text), expected);
        let older = "cupy.cuda.memory.OutOfMemoryError: out of memory to allocate 1024 bytes (total 2048 bytes)";
        let requested = OomReport {
            kind: OomKind::Cupy,
            requested: size("1 KiB"),
            ..OomReport::default()
        };
        assert_eq!(one(older), requested);
        let unlimited = text.replace(", limit set to: 2,147,483,648 bytes", "");
        assert_eq!(
            one(&unlimited),
            OomReport {
                limit: None,
                ..expected
            }
        );
    }

    #[test]
    fn echoes_are_none() {
        none("    raise ValueError(\"No available memory for the cache blocks. \"");
        none("Error out of memory at line of your choice");
    }
}
