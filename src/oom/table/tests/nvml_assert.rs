//! The NVML assertion.

use crate::oom::fixture::{none, one};
use crate::oom::{OomKind, OomReport};

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
