//! JAX and TensorFlow.

use crate::oom::fixture::{none, one, reports, size};
use crate::oom::{OomKind, OomOutcome, OomReport};

fn jax(figure: &str, device: Option<u32>) -> OomReport {
    OomReport {
        kind: OomKind::Jax,
        requested: size(figure),
        device,
        ..OomReport::default()
    }
}

#[test]
fn jax_in_all_its_ages() {
    let cases = [
        (
            "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 6442450944 bytes.",
            jax("6 GiB", None),
        ),
        (
            "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 6442450944 bytes.",
            jax("6 GiB", None),
        ),
        (
            "RuntimeError: Resource exhausted: Out of memory while trying to allocate 4096 bytes.",
            jax("4 KiB", None),
        ),
        (
            "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 300.00GiB with allocator GPU_2_bfc on device 2.",
            jax("300 GiB", Some(2)),
        ),
        (
            "XlaRuntimeError: RESOURCE_EXHAUSTED: Failed to allocate request for 2.00GiB (2147483648B) on device ordinal 1",
            jax("2 GiB", Some(1)),
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(one(text), expected, "{text}");
    }
}

#[test]
fn tensorflow_says_the_shape() {
    let text = |kind: &str, device: &str| {
        format!(
            "ResourceExhaustedError: OOM when allocating tensor with shape[32,3,1024,1024] and type {kind} on /job:localhost/replica:0/task:0/device:{device}"
        )
    };
    let expected = OomReport {
        kind: OomKind::Tf,
        requested: size("384 MiB"),
        device: Some(2),
        ..OomReport::default()
    };
    assert_eq!(
        one(&text("float", "GPU:2 by allocator GPU_2_bfc [Op:Conv2D]")),
        expected
    );
    let half = OomReport {
        requested: size("192 MiB"),
        ..expected.clone()
    };
    assert_eq!(one(&text("half", "GPU:2 by allocator GPU_2_bfc")), half);
    let unknown = OomReport {
        requested: None,
        ..expected.clone()
    };
    assert_eq!(
        one(&text("variant", "GPU:2 by allocator GPU_2_bfc")),
        unknown
    );
    let host = OomReport {
        kind: OomKind::HostOom,
        device: None,
        ..expected
    };
    assert_eq!(one(&text("float", "CPU:0 by allocator cpu")), host);
}

#[test]
fn backing_off_is_no_message() {
    for text in [
        "2026-01-02 10:00:00.1: E external/xla/stream_executor/cuda/cuda_driver.cc:764] failed to alloc 5368709120 bytes unified memory; result: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
        "2026-01-02 10:00:00.1: I tensorflow/stream_executor/cuda/cuda_driver.cc:733] failed to allocate 512.50M (537395200 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
        "W bfc_allocator.cc:234] Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.25GiB. The caller indicates that this is not a failure, but may mean that there could be performance gains if more memory were available.",
        "RuntimeError: Bad StatusOr access: RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space vmem.",
        "grpc: RESOURCE_EXHAUSTED: quota exceeded",
    ] {
        none(text);
    }
}

/// The allocator waits and tries again: the program may go on, or the exception follows.
#[test]
fn a_wait_of_the_allocator_is_survivable_and_hides_no_exception() {
    let notice = "2026-01-02 10:00:00.1: W external/xla/xla/tsl/framework/bfc_allocator.cc:501] Allocator (GPU_0_bfc) ran out of memory trying to allocate 300.00GiB (rounded to 322122547200)requested by op";
    let caught = OomReport {
        outcome: OomOutcome::Caught,
        ..jax("300 GiB", Some(0))
    };
    assert_eq!(one(notice), caught);
    let exception = "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 300.00GiB with allocator GPU_0_bfc on device 0.";
    let both = format!("{notice}\n{notice}\n{exception}\n{exception}\n");
    let outcomes: Vec<OomOutcome> = reports(&both).iter().map(|report| report.outcome).collect();
    assert_eq!(outcomes, [OomOutcome::Caught, OomOutcome::Unknown]);
    let killed = format!("{notice}\ntrainer-1 exited with code 137\n");
    assert_eq!(
        reports(&killed).len(),
        2,
        "the host's memory is still suspected"
    );
}

#[test]
fn an_absurd_shape_has_no_size() {
    let text = "OOM when allocating tensor with shape[9999999999,9999999999] and type float on /device:GPU:0";
    assert_eq!(one(text).requested, None);
}
