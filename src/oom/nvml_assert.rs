//! The assertion that hides an OOM: building its message asked NVML about processes, and that
//! failed (MIG, containers, Jetson, a driver that does not match). Its figures are lost.

use super::report::Kind;
use super::wording::{Found, Text, form_at};

/// The message in `text`.
///
/// CUDACachingAllocator.cpp, torch 2.1 to 2.12 (gone in 2.15): `NVML_SUCCESS == r INTERNAL ASSERT
/// FAILED at "…/c10/cuda/CUDACachingAllocator.cpp":830`, and the same with the driver's calls.
pub(super) fn read(text: &Text) -> Option<Found> {
    let at = text.squeezed.find("NVML_SUCCESS==")?;
    let clause = &text.squeezed[at..];
    let asserted =
        clause.contains("INTERNALASSERTFAILED") && clause.contains("CUDACachingAllocator");
    let form = form_at(text, at)?;
    asserted.then(|| Found::whole(Kind::NvmlAssert, form))
}
