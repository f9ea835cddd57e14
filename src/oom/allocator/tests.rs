//! The shapes of torch 1.0 to 2.15 and their anomalies, with figures of our own.

use super::*;
use crate::oom::tests::{one, reports, size};
use crate::units::Bytes;
use crate::units::Rank;

const ADVICE_OLD: &str = " If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.  See documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF";
const ADVICE_NEW: &str = " If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory Management  (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)";

/// What the shapes of 1.0 to 2.0 say in these fixtures.
fn old(reserved: &str, unallocated: Option<Bytes>) -> OomReport {
    OomReport {
        device: Some(2),
        requested: size("1.25 GiB"),
        total: size("31.50 GiB"),
        allocated: size("20.50 GiB"),
        free: size("640.00 MiB"),
        reserved: size(reserved),
        unallocated,
        before_2_1: true,
        ..OomReport::default()
    }
}

#[test]
fn the_shape_of_1_0_to_1_3_says_cached() {
    let text = "RuntimeError: CUDA out of memory. Tried to allocate 1.25 GiB (GPU 2; 31.50 GiB total capacity; 20.50 GiB already allocated; 640.00 MiB free; 512.00 MiB cached)";
    assert_eq!(one(text), old("21.00 GiB", size("512.00 MiB")));
}

#[test]
fn the_shape_of_1_4_to_2_0_says_reserved() {
    let shape = "CUDA out of memory. Tried to allocate 1.25 GiB (GPU 2; 31.50 GiB total capacity; 20.50 GiB already allocated; 640.00 MiB free; 29.25 GiB reserved in total by PyTorch)";
    let expected = old("29.25 GiB", size("8.75 GiB"));
    for text in [
        shape.to_owned(),
        format!("RuntimeError: {shape}"),
        format!("RuntimeError: {shape}{ADVICE_OLD}"),
        format!("torch.cuda.OutOfMemoryError: {shape}{ADVICE_OLD}"),
        format!("RuntimeError:{shape}"),
        format!("`RuntimeError: {shape}`"),
        format!("\" {shape}\""),
        shape.trim_end_matches(')').to_owned(),
        shape.replace(" by PyTorch)", ""),
        format!("2026-05-01 10:00:00 | WARNING | a.b | Ran out of memory with exception: {shape}"),
    ] {
        assert_eq!(one(&text), expected);
    }
}

#[test]
fn a_limit_stands_before_reserved_since_1_8() {
    let text = "RuntimeError: CUDA out of memory. Tried to allocate 1.25 GiB (GPU 2; 31.50 GiB total capacity; 20.50 GiB already allocated; 640.00 MiB free; 22.05 GiB allowed; 21.00 GiB reserved in total by PyTorch)";
    let expected = OomReport {
        limit: size("22.05 GiB"),
        ..old("21.00 GiB", size("0.50 GiB"))
    };
    assert_eq!(one(text), expected);
}

#[test]
fn less_reserved_than_allocated_makes_no_difference() {
    let text = "RuntimeError: CUDA out of memory. Tried to allocate 1.25 GiB (GPU 2; 31.50 GiB total capacity; 20.50 GiB already allocated; 640.00 MiB free; 20.25 GiB reserved in total by PyTorch)";
    assert_eq!(one(text), old("20.25 GiB", None));
}

/// What the shapes of 2.1 and later say in these fixtures.
fn new() -> OomReport {
    OomReport {
        device: Some(3),
        requested: size("768.00 MiB"),
        total: size("39.50 GiB"),
        free: size("512.25 MiB"),
        allocated: size("30.50 GiB"),
        unallocated: size("1.75 GiB"),
        reserved: size("32.25 GiB"),
        ..OomReport::default()
    }
}

/// `CUDA out of memory. …`, with what stands between the free memory and the allocated.
fn shape(between: &str) -> String {
    format!(
        "CUDA out of memory. Tried to allocate 768.00 MiB. GPU 3 has a total capacity of 39.50 GiB of which 512.25 MiB is free. {between}Of the allocated memory 30.50 GiB is allocated by PyTorch, and 1.75 GiB is reserved by PyTorch but unallocated.{ADVICE_NEW}"
    )
}

const OURS: &str = "Including non-PyTorch memory, this process has 33.00 GiB memory in use. ";

#[test]
fn the_shape_of_2_1_has_a_typo() {
    let text = format!(
        "torch.cuda.OutOfMemoryError: {}",
        shape(OURS).replace("capacity", "capacty")
    );
    let expected = OomReport {
        process_used: size("33.00 GiB"),
        ..new()
    };
    assert_eq!(one(&text), expected);
}

#[test]
fn the_advice_of_each_version_changes_nothing() {
    for advice in [
        "",
        " If reserved but unallocated memory is large try setting max_split_size_mb to avoid fragmentation.  See documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF",
        " If reserved but unallocated memory is large try setting PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory Management  (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)",
        " expandable_segments is enabled. If instead the process is running out of virtual address space (VSZ), expandable segments may be over-reserving VA (each segment reserves ~9/8 of device memory, times the number of streams); reduce it via PYTORCH_CUDA_ALLOC_CONF expandable_segments_reserve / expandable_segments_reserve_by_class.",
        " This allocation exceeds the expandable-segment reserve of 3.00 GiB for this stream, and a single allocation cannot span expandable segments. Raise PYTORCH_CUDA_ALLOC_CONF expandable_segments_reserve or expandable_segments_reserve_by_class (or unset it) so that a segment is at least 5.00 GiB",
        " The custom allocator backing this MemPool returned nullptr. Check preceding allocator warnings or logs for the underlying cause. This can indicate an allocator-specific error or memory constraint, even when device-wide free memory is available.",
    ] {
        let text = format!(
            "torch.OutOfMemoryError: {}",
            shape("").replace(ADVICE_NEW, advice)
        );
        assert_eq!(one(&text), new(), "{advice}");
    }
}

#[test]
fn processes_stand_in_any_order() {
    let other = |pid, used: &str| OtherProcess {
        pid: Pid(pid),
        used: size(used),
    };
    let cases = [
        (
            "Process 811 has 2.50 GiB memory in use. ".to_owned(),
            None,
            vec![other(811, "2.50 GiB")],
        ),
        (
            format!(
                "Process 811 has 2.50 GiB memory in use. {OURS}Process 4000123 has 0 bytes memory in use. "
            ),
            size("33.00 GiB"),
            vec![other(811, "2.50 GiB"), other(4_000_123, "0 bytes")],
        ),
        (
            format!("{OURS}Process 9 has 17179869184.00 GiB memory in use. "),
            size("33.00 GiB"),
            vec![OtherProcess {
                pid: Pid(9),
                used: None,
            }],
        ),
    ];
    for (between, process_used, others) in cases {
        let expected = OomReport {
            process_used,
            others,
            ..new()
        };
        assert_eq!(one(&shape(&between)), expected, "{between}");
    }
}

#[test]
fn what_nvml_does_not_know_is_no_figure() {
    let between = "Including non-PyTorch memory, this process has 17179869184.00 GiB memory in use. 20.01 GiB allowed; ";
    let expected = OomReport {
        limit: size("20.01 GiB"),
        ..new()
    };
    assert_eq!(one(&shape(between)), expected);
}

#[test]
fn private_pools_lie_inside_allocated() {
    let text = shape("12.50 GiB allowed; ").replace(
        "allocated by PyTorch, and",
        "allocated by PyTorch, with 96.00 MiB allocated in private pools (e.g., CUDA Graphs), and",
    );
    let expected = OomReport {
        limit: size("12.50 GiB"),
        private_pools: size("96.00 MiB"),
        ..new()
    };
    assert_eq!(one(&text), expected);
}

#[test]
fn hip_and_xpu_have_the_same_shape() {
    let hip = shape("").replace("CUDA out", "HIP out");
    assert_eq!(
        one(&hip),
        OomReport {
            kind: OomKind::HipOom,
            ..new()
        }
    );
    let xpu = shape("7.00 GiB allowed; ")
        .replace("CUDA out", "XPU out")
        .replace(
            ADVICE_NEW,
            " Please use `empty_cache` to release all unoccupied cached memory.",
        );
    let expected = OomReport {
        kind: OomKind::XpuOom,
        limit: size("7.00 GiB"),
        ..new()
    };
    assert_eq!(one(&format!("torch.OutOfMemoryError: {xpu}")), expected);
}

#[test]
fn impossible_figures_are_read_as_they_stand() {
    // Windows falls back to the host's memory: more allocated than the card has.
    let windows = shape("").replace("30.50 GiB is allocated", "61.00 GiB is allocated");
    assert_eq!(one(&windows).allocated, size("61.00 GiB"));
    // An APU: more free than total.
    let apu = shape("").replace("512.25 MiB is free", "96.00 GiB is free");
    assert_eq!(one(&apu).free, size("96.00 GiB"));
    let nothing = shape("")
        .replace("512.25 MiB", "0 bytes")
        .replace("30.50 GiB is", "0 bytes is")
        .replace("1.75 GiB is", "0 bytes is");
    let report = one(&nothing);
    assert_eq!(report.free, size("0 bytes"));
    assert_eq!(report.reserved, size("0 bytes"));
    let boundary = shape("").replace("768.00 MiB", "1024.00 KiB");
    assert_eq!(one(&boundary).requested, size("1 MiB"));
}

#[test]
fn texts_of_the_same_class_without_the_shape() {
    let rejected = "torch.OutOfMemoryError: CUDA out of memory. Allocation was preemptively rejected because it would exceed per_process_memory_fraction limit. Requested size: 3.50 GiB";
    let expected = OomReport {
        requested: size("3.50 GiB"),
        ..OomReport::default()
    };
    assert_eq!(one(rejected), expected);
    let absurd =
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate more than 1EB memory.";
    let expected = OomReport {
        sign: Some(OomSign::Overflow),
        ..OomReport::default()
    };
    assert_eq!(one(absurd), expected);
    let bare = "torch.OutOfMemoryError: CUDA out of memory.";
    assert_eq!(one(bare), OomReport::default());
    let class = "torch.OutOfMemoryError: Allocation on device 2 \n\nGot an OOM, unloading";
    let expected = OomReport {
        device: Some(2),
        ..OomReport::default()
    };
    assert_eq!(one(class), expected);
    let shortened = "RuntimeError: CUDA out of memory. Tried to allocate 96.00 MiB";
    assert_eq!(one(shortened).requested, size("96.00 MiB"));
}

#[test]
fn the_asynchronous_backend_has_lines_of_its_own() {
    let text = |limit: &str| {
        format!(
            "torch.OutOfMemoryError: Allocation on device 1 would exceed allowed memory. (out of memory)\nCurrently allocated     : 6.25 GiB\nRequested               : 1.50 GiB\nDevice limit            : 7.75 GiB\nFree (according to CUDA): 12.25 MiB\nPyTorch limit (set by user-supplied memory fraction)\n                        : {limit}\n"
        )
    };
    let expected = OomReport {
        device: Some(1),
        requested: size("1.50 GiB"),
        total: size("7.75 GiB"),
        allocated: size("6.25 GiB"),
        free: size("12.25 MiB"),
        ..OomReport::default()
    };
    assert_eq!(one(&text("17179869184.00 GiB")), expected, "no limit");
    assert_eq!(
        one(&text("17179869184.00 GiB").replace('\n', "\r\n")),
        expected
    );
    assert_eq!(
        one(&text("17179869184.00 GiB").replace('\n', "\\n")),
        expected,
        "repr"
    );
    let limited = OomReport {
        limit: size("7.00 GiB"),
        ..expected.clone()
    };
    assert_eq!(one(&text("7.00 GiB")), limited);
    let ranked = text("7.00 GiB").replace('\n', "\n[rank4]: ");
    let ranked = format!("[rank4]: {}", ranked.trim_end_matches("[rank4]: "));
    assert_eq!(
        one(&ranked),
        OomReport {
            rank: Some(Rank(4)),
            ..limited
        }
    );
    let cut = text("7.00 GiB");
    let cut = &cut[..cut.find("PyTorch limit").unwrap()];
    assert_eq!(
        one(&format!("{cut}Traceback (most recent call last):\n")),
        expected
    );
}

#[test]
fn quoted_messages_are_messages() {
    for text in [
        format!(
            "ERROR 05-01 10:00:00 engine.py:7] OutOfMemoryError('{}')",
            shape("")
        ),
        format!("raised: torch.OutOfMemoryError(\"{}\").", shape("")),
        format!("{{\"level\": \"error\", \"message\": \"{}\"}}", shape("")),
        format!("level=error err=\"{}\"", shape("")),
        format!(
            "RuntimeError(&quot;{}&quot;)",
            shape("").replace(">>", "&gt;&gt;")
        ),
        format!("('{}',)", shape("")),
        format!("##[error]torch.OutOfMemoryError: {}", shape("")),
    ] {
        assert_eq!(one(&text), new(), "{text}");
    }
}

#[test]
fn two_messages_of_one_line_are_two() {
    let one = shape("").replace(ADVICE_NEW, "");
    let glued = format!(
        "{one}torch.OutOfMemoryError: {}",
        one.replace("768.00", "770.00")
    );
    assert_eq!(reports(&glued).len(), 2);
}
