//! The assertion that hides an OOM: building its message asked NVML about processes, and that
//! failed (MIG, containers, Jetson, a driver that does not match). Its figures are lost.

use super::kind::OomKind;
use super::squeezed::find;
use super::wording::{Found, Text, form_at};

/// The beginning of the assertion's condition, squeezed.
pub(super) const HEAD: &str = "NVML_SUCCESS==";

/// The message in `text`.
///
/// CUDACachingAllocator.cpp, torch 2.1 to 2.12 (gone in 2.15): `NVML_SUCCESS == r INTERNAL ASSERT
/// FAILED at "…/c10/cuda/CUDACachingAllocator.cpp":830`, and the same with the driver's calls.
pub(super) fn read(text: &Text) -> Option<Found> {
    let at = find(&text.squeezed, HEAD)?;
    let clause = &text.squeezed[at..];
    let asserted =
        clause.contains("INTERNALASSERTFAILED") && clause.contains("CUDACachingAllocator");
    let form = form_at(text, at)?;
    asserted.then(|| Found::whole(OomKind::NvmlAssert, form))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oom::OomReport;
    use crate::oom::fixture::{none, one};

    #[test]
    fn each_of_the_assertions_hides_an_oom() {
        let expected = OomReport {
            kind: OomKind::NvmlAssert,
            ..OomReport::default()
        };
        for text in [
            "RuntimeError: NVML_SUCCESS == r INTERNAL ASSERT FAILED at \"../c10/cuda/CUDACachingAllocator.cpp\":1090, please report a bug to PyTorch. ",
            "RuntimeError: NVML_SUCCESS == DriverAPI::get()->nvmlInit_v2_() INTERNAL ASSERT FAILED at \"/pytorch/c10/cuda/CUDACachingAllocator.cpp\":963, please report a bug to PyTorch. ",
            "RuntimeError: NVML_SUCCESS == DriverAPI::get()->nvmlDeviceGetHandleByPciBusId_v2_( pci_id, &nvml_device) INTERNAL ASSERT FAILED at \"../c10/cuda/CUDACachingAllocator.cpp\":1319, please report a bug to PyTorch. ",
            "Request failed: NVML_SUCCESS == r INTERNAL ASSERT FAILED at \"../c10/cuda/CUDACachingAllocator.cpp\":1090, please report a bug to PyTorch.",
        ] {
            assert_eq!(one(text), expected);
        }
    }

    #[test]
    fn other_assertions_are_none() {
        none(
            "RuntimeError: !block->allocated INTERNAL ASSERT FAILED at \"../c10/cuda/CUDACachingAllocator.cpp\":1090, please report a bug to PyTorch.",
        );
        none("    assert NVML_SUCCESS == result");
    }
}
