//! TensorFlow's message, which has a shape and a type instead of a size.

use super::compact::{find, number_after};
use super::kind::OomKind;
use super::wording::{CompactLine, Continuation, OomReading, form_at};
use crate::units::Bytes;

const TENSORFLOW: &str = "OOMwhenallocatingtensorwithshape[";

/// `OOM when allocating tensor with shape[8,16] and type float on
/// /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc` (TensorFlow's
/// op_kernel.cc). `device:CPU:0 by allocator cpu` is the host's memory.
pub(super) fn read(text: &CompactLine) -> Option<OomReading> {
    let at = find(&text.compact, TENSORFLOW)?;
    let clause = &text.compact[at..];
    let on_host = clause.contains("device:CPU:") || clause.contains("byallocatorcpu");
    let kind = if on_host {
        OomKind::HostOom
    } else {
        OomKind::Tf
    };
    let mut found = OomReading::whole(kind, form_at(text, at)?);
    found.report.requested = tensor_bytes(clause);
    found.report.device = number_after(clause, "device:GPU:");
    found.more = (!clause.contains("byallocator")).then_some(Continuation::Tensor);
    Some(found)
}

/// The shape times the size of the type.
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
