//! What only looks like a message, and what a program says that it has handled.

use crate::oom::OomOutcome;
use crate::oom::fixture::{none, one};

#[test]
fn what_looks_like_one_is_none() {
    for text in [
        "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 9000, Hardware limit: 8000. Reducing block sizes or `num_stages` may help.",
        "ERROR:x:Exception No valid triton configs. OutOfMemoryError: out of resource: triton_mm Required: 9000 Hardware limit:8000 Reducing block sizes or `num_stages` may help.",
        "[W501 10:00:00.1 CUDACachingAllocator.cpp:637] Warning: expandable_segments: memory mapping failed with OOM on device 2 while trying to map 2097152 bytes (free: 1024, total: 4096)",
        "[W501 10:00:00.1 CUDACachingAllocator.cpp:640] Warning: memory allocation failed with OOM on device 2",
        "[ExpandableSegmentVA] Failed to reserve 4096 bytes of virtual address space. This is virtual-address-space (VSZ) exhaustion from expandable segments, not physical GPU OOM.",
        "Preemptively rejecting allocation: requested 4096 bytes (limit 2048). Set throw_on_cudamalloc_oom:false to disable.",
        "nvmlInit_v2 failed; omitting per-process memory info from CUDA out-of-memory messages.",
        "nvmlDeviceGetComputeRunningProcesses failed; omitting per-process memory info from CUDA out-of-memory messages. This is expected on platforms with partial NVML support such as Tegra/Jetson.",
        "RuntimeError: No executable batch size found, reached zero.",
        "tensorflow.python.framework.errors_impl.ResourceExhaustedError: disk quota exceeded [Op:SaveV2]",
        "| WARNING: ran out of memory, retrying batch",
        "06/15 - mmengine - WARNING - Attempting to copy inputs of <function f at 0x7> to CPU due to CUDA OOM",
        "Warning: Ran out of memory when regular VAE decoding, retrying with tiled VAE decoding.",
        "|           CUDA OOMs: 2            |        cudaMalloc retries: 3         |",
        "UserWarning: expandable_segments not supported on this platform (Triggered internally at ../c10/cuda/CUDAAllocatorConfig.h:28.)",
        "Warning: PYTORCH_CUDA_ALLOC_CONF is deprecated, use PYTORCH_ALLOC_CONF instead (function operator())",
        "The model fits; memory is out of proportion",
    ] {
        none(text);
    }
}

#[test]
fn what_the_line_says_is_handled_is_caught() {
    let message = "CUDA out of memory. Tried to allocate 1.25 GiB (GPU 2; 31.50 GiB total capacity; 20.50 GiB already allocated; 640.00 MiB free; 29.25 GiB reserved in total by PyTorch)";
    for text in [
        format!("Runtime error during autotuning: \n{message}. \nIgnoring this choice."),
        format!("WARNING: {message}; skipping batch"),
        format!("attempting to recover from OOM: {message}"),
    ] {
        assert_eq!(one(&text).outcome, OomOutcome::Caught, "{text}");
    }
    assert_eq!(one(message).outcome, OomOutcome::Unknown);
}
