//! JAX (XLA) and TensorFlow.
//!
//! Both log a lot while they back off and try again: `failed to alloc N bytes unified memory`,
//! `failed to allocate 1.2G … CUDA_ERROR_OUT_OF_MEMORY`, `Allocator (GPU_0_bfc) ran out of memory
//! trying to allocate` (cuda_driver.cc, bfc_allocator.cc). None of those is an OOM of its own.

use super::report::Kind;
use super::squeezed::{number_after, size_after};
use super::wording::{Found, Text, form_at};
use crate::units::Bytes;

/// The message in `text`.
pub(super) fn read(text: &Text) -> Option<Found> {
    tensorflow(text).or_else(|| jax(text))
}

/// `RESOURCE_EXHAUSTED: Out of memory while trying to allocate 512 bytes.`, `… Out of memory
/// allocating 512 bytes.`; `Resource exhausted: …` in older jaxlib; with `… with allocator
/// GPU_0_bfc on device 0.` in newer ones, the unit glued to the figure (seen on a GPU);
/// `Failed to allocate request for 2.0GiB (2147483648B) on device ordinal 0` (PjRt).
fn jax(text: &Text) -> Option<Found> {
    let code = ["RESOURCE_EXHAUSTED:", "Resourceexhausted:"]
        .iter()
        .find_map(|code| text.squeezed.find(code))?;
    let clause = &text.squeezed[code..];
    let requested = [
        "Outofmemorywhiletryingtoallocate",
        "Outofmemoryallocating",
        "Failedtoallocaterequestfor",
    ]
    .iter()
    .find_map(|words| size_after(clause, words))?;
    let mut found = Found::whole(Kind::Jax, form_at(text, code)?);
    found.report.requested = Some(requested);
    found.report.device =
        number_after(clause, "ondeviceordinal").or_else(|| number_after(clause, "ondevice"));
    Some(found)
}

/// `OOM when allocating tensor with shape[8,16] and type float on
/// /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc` (TensorFlow's
/// op_kernel.cc). `device:CPU:0 by allocator cpu` is the host's memory.
fn tensorflow(text: &Text) -> Option<Found> {
    let at = text.squeezed.find("OOMwhenallocatingtensorwithshape[")?;
    let clause = &text.squeezed[at..];
    let on_host = clause.contains("device:CPU:") || clause.contains("byallocatorcpu");
    let kind = if on_host { Kind::HostOom } else { Kind::Tf };
    let mut found = Found::whole(kind, form_at(text, at)?);
    found.report.requested = tensor_bytes(clause);
    found.report.device = number_after(clause, "device:GPU:");
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
