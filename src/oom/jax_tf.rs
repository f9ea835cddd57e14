//! JAX (XLA) and TensorFlow.
//!
//! Both log a lot while they back off and try again: `failed to alloc N bytes unified memory`,
//! `failed to allocate 1.2G … CUDA_ERROR_OUT_OF_MEMORY`, `Allocator (GPU_0_bfc) ran out of memory
//! trying to allocate` (cuda_driver.cc, bfc_allocator.cc). None of those is an OOM of its own.

use super::kind::OomKind;
use super::squeezed::{find, number_after, size_after};
use super::wording::{Found, More, Text, form_at};
use crate::units::Bytes;

/// XLA's words before the figure, squeezed.
const JAX: [&str; 3] = [
    "Outofmemorywhiletryingtoallocate",
    "Outofmemoryallocating",
    "Failedtoallocaterequestfor",
];

/// JAX on a card that has no room for a context (stream_executor's cuda_context.cc).
const JAX_CONTEXT: &str = "cuDevicePrimaryCtxRetain:CUDA_ERROR_OUT_OF_MEMORY";

/// TensorFlow's other words, without figures: a copy to a full device (common_runtime/copy_tensor.cc)
/// and an eager operation (framework/op_kernel.cc, with the class in front).
const TENSORFLOW_BARE: [&str; 2] = ["Dsttensorisnotinitialized", "failedtoallocatememory[Op:"];

const TENSORFLOW: &str = "OOMwhenallocatingtensorwithshape[";

/// One of these is in every message of the family.
pub(super) fn heads() -> Vec<&'static str> {
    let mut heads = JAX.to_vec();
    heads.push(TENSORFLOW);
    heads.push(JAX_CONTEXT);
    heads.extend(TENSORFLOW_BARE);
    heads
}

/// The message in `text`.
pub(super) fn read(text: &Text) -> Option<Found> {
    tensorflow(text)
        .or_else(|| jax(text))
        .or_else(|| jax_context(text))
        .or_else(|| tensorflow_bare(text))
}

/// `INTERNAL: failed initializing StreamExecutor for CUDA device ordinal 0: INTERNAL: failed call to
/// cuDevicePrimaryCtxRetain: CUDA_ERROR_OUT_OF_MEMORY: out of memory`.
fn jax_context(text: &Text) -> Option<Found> {
    let at = find(&text.squeezed, JAX_CONTEXT)?;
    let mut found = Found::whole(OomKind::Jax, form_at(text, at)?);
    found.report.device = number_after(&text.squeezed[..at], "deviceordinal");
    Some(found)
}

fn tensorflow_bare(text: &Text) -> Option<Found> {
    let at = TENSORFLOW_BARE
        .iter()
        .find_map(|words| find(&text.squeezed, words))?;
    Some(Found::whole(OomKind::Tf, form_at(text, at)?))
}

/// `RESOURCE_EXHAUSTED: Out of memory while trying to allocate 512 bytes.`, `… Out of memory
/// allocating 512 bytes.`; `Resource exhausted: …` in older jaxlib; with `… with allocator
/// GPU_0_bfc on device 0.` in newer ones, the unit glued to the figure (seen on a GPU);
/// `Failed to allocate request for 2.0GiB (2147483648B) on device ordinal 0` (PjRt).
fn jax(text: &Text) -> Option<Found> {
    let code = ["RESOURCE_EXHAUSTED:", "Resourceexhausted:"]
        .iter()
        .find_map(|code| find(&text.squeezed, code))?;
    let clause = &text.squeezed[code..];
    let requested = JAX.iter().find_map(|words| size_after(clause, words))?;
    let mut found = Found::whole(OomKind::Jax, form_at(text, code)?);
    found.report.requested = Some(requested);
    found.report.device =
        number_after(clause, "ondeviceordinal").or_else(|| number_after(clause, "ondevice"));
    Some(found)
}

/// `OOM when allocating tensor with shape[8,16] and type float on
/// /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc` (TensorFlow's
/// op_kernel.cc). `device:CPU:0 by allocator cpu` is the host's memory.
fn tensorflow(text: &Text) -> Option<Found> {
    let at = find(&text.squeezed, TENSORFLOW)?;
    let clause = &text.squeezed[at..];
    let on_host = clause.contains("device:CPU:") || clause.contains("byallocatorcpu");
    let kind = if on_host {
        OomKind::HostOom
    } else {
        OomKind::Tf
    };
    let mut found = Found::whole(kind, form_at(text, at)?);
    found.report.requested = tensor_bytes(clause);
    found.report.device = number_after(clause, "device:GPU:");
    found.more = (!clause.contains("byallocator")).then_some(More::Tensor);
    Some(found)
}

/// The tensor's size: its shape times its type's.
fn tensor_bytes(clause: &str) -> Option<Bytes> {
    let (_, shape) = clause.split_once("shape[")?;
    let (shape, after) = shape.split_once(']')?;
    let (_, kind) = after.split_once("andtype")?;
    let (kind, _) = kind.split_once("on/")?;
    // TensorFlow's DataTypeString (types.cc).
    let width: u64 = match kind {
        "bool" | "int8" | "uint8" | "qint8" | "quint8" => 1,
        "half" | "bfloat16" | "int16" | "uint16" => 2,
        "float" | "int32" | "uint32" => 4,
        "double" | "int64" | "uint64" | "complex64" => 8,
        "complex128" => 16,
        _ => return None,
    };
    shape
        .split(',')
        .filter(|side| !side.is_empty())
        .try_fold(width, |bytes, side| bytes.checked_mul(side.parse().ok()?))
        .map(Bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oom::OomReport;
    use crate::oom::fixture::{none, one, size};

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
            "2026-01-02 10:00:00.1: W external/xla/xla/tsl/framework/bfc_allocator.cc:501] Allocator (GPU_0_bfc) ran out of memory trying to allocate 300.00GiB (rounded to 322122547200)requested by op",
            "W bfc_allocator.cc:234] Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.25GiB. The caller indicates that this is not a failure, but may mean that there could be performance gains if more memory were available.",
            "RuntimeError: Bad StatusOr access: RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space vmem.",
            "grpc: RESOURCE_EXHAUSTED: quota exceeded",
        ] {
            none(text);
        }
    }

    #[test]
    fn an_absurd_shape_has_no_size() {
        let text = "OOM when allocating tensor with shape[9999999999,9999999999] and type float on /device:GPU:0";
        assert_eq!(one(text).requested, None);
    }
}
