//! What looks like an out-of-memory of the device and is none.

use super::wording::Text;

/// Wordings, squeezed, whose lines are never an OOM, whatever else they say.
const WORDINGS: [&str; 20] = [
    // Triton and inductor: a kernel's on-chip shared memory. Inductor's class is named
    // OutOfMemoryError.
    "outofresource:",
    "Novalidtritonconfigs",
    // torch 2.15: logged before the cache is given back and the allocation tried again.
    "expandable_segments:memorymappingfailedwithOOM",
    "memoryallocationfailedwithOOMondevice",
    "[ExpandableSegmentVA]",
    // torch 2.12 and later: a notice before the exception that says it in full.
    "Preemptivelyrejectingallocation:",
    // torch 2.1 and later, where NVML is missing.
    "CUDAout-of-memorymessages",
    // accelerate, after it caught every OOM there was.
    "Noexecutablebatchsizefound",
    // TensorFlow and others: a disk.
    "diskquotaexceeded",
    "Diskquotaexceeded",
    // torch-xla: a TPU's memories.
    "Ranoutofmemoryinmemoryspace",
    "XLA:TPU",
    // mmdetection and ComfyUI: handled.
    "toCPUduetoCUDAOOM",
    "ranoutofmemory,retrying",
    "retryingwithtiledVAE",
    // The JVM's own memory.
    "os::commit_memory",
    "OpenJDK",
    "java.lang.OutOfMemoryError",
    // The table of torch.cuda.memory_summary().
    "CUDAOOMs:",
    // XLA's and TensorFlow's allocators while they back off.
    "ranoutofmemorytryingtoallocate",
];

/// Whether the line is one of those.
pub(super) fn is_none(text: &Text) -> bool {
    WORDINGS.iter().any(|words| text.squeezed.contains(words))
}

/// Whether the line says that the program takes an OOM in its stride: it skips, retries, falls
/// back.
pub(super) fn is_handled(squeezed: &str) -> bool {
    const WORDS: [&str; 17] = [
        "Skippingbatch",
        "skippingbatch",
        "skippingthisbatch",
        "Skippingthisbatch",
        "retrying",
        "Retrying",
        "recoverfromOOM",
        "recoveringfromOOM",
        "duringautotuning",
        "Ignoringthischoice",
        "GotanOOM,unloading",
        "Decreasingbatchsize",
        "educingbatchsize",
        "educethebatchsizeto",
        "Tryingbatchsize",
        "Tryingtodecrease",
        "fallingback",
    ];
    WORDS.iter().any(|words| squeezed.contains(words))
}

/// Whether the line before announces a trial that may fail: inductor's autotuning logs `Runtime
/// error during autotuning:`, the error on the next line, and goes on with another choice.
pub(super) fn is_trial(previous: &str) -> bool {
    previous.ends_with("duringautotuning:")
}
