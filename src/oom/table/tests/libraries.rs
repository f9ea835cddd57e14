//! bitsandbytes, vLLM, CuPy.

use crate::oom::fixture::{none, one, size};
use crate::oom::{OomKind, OomReport};

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
