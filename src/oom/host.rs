//! The host's memory, not the device's: allocations refused, workers and ranks killed.

use super::report::{Kind, Outcome};
use super::squeezed::{number_after, size_after};
use super::wording::{Found, Text, form_at, is_prose};

/// The message in `text`, where the text alone says that it was memory.
pub(super) fn read(text: &Text) -> Option<Found> {
    refused(text)
        .or_else(|| worker(text))
        .or_else(|| killer(text))
}

/// Allocations that the host refused.
fn refused(text: &Text) -> Option<Found> {
    /// Wordings, squeezed, and the words that a figure follows.
    const WORDINGS: [(&str, &str); 9] = [
        // c10/core/impl/alloc_cpu.cpp (CPUAllocator.cpp until 1.6); "not enough" on Windows.
        (
            "DefaultCPUAllocator:can'tallocatememory",
            "youtriedtoallocate",
        ),
        ("DefaultCPUAllocator:notenoughmemory", "youtriedtoallocate"),
        // numpy/core/_exceptions.py, `_ArrayMemoryError`.
        ("MemoryError:Unabletoallocate", "Unabletoallocate"),
        ("ArrayMemoryError:Unabletoallocate", "Unabletoallocate"),
        // glibc's words for errno 12 behind Python's OSError and torch's mmap (MapAllocator.cpp).
        ("[Errno12]Cannotallocatememory", ""),
        ("Cannotallocatememory(12)", "unabletommap"),
        // MapAllocator.cpp: /dev/shm is full.
        ("unabletowritetofile</torch_", ""),
        // libstdc++.
        ("instanceof'std::bad_alloc'", ""),
        ("MemoryError:std::bad_alloc", ""),
    ];
    if let Some((at, figure)) = WORDINGS
        .iter()
        .find_map(|&(words, figure)| Some((text.squeezed.find(words)?, figure)))
    {
        let mut found = Found::whole(Kind::HostOom, form_at(text, at)?);
        if !figure.is_empty() {
            found.report.requested = size_after(&text.squeezed, figure);
        }
        return Some(found);
    }
    // CPython's bare exception has no words at all.
    (text.plain.trim() == "MemoryError")
        .then(|| Found::whole(Kind::HostOom, super::wording::Form::Exception))
}

/// DataLoader's workers (torch/csrc/DataLoader.cpp, torch/utils/data; four texts, 1.0 to 2.15).
fn worker(text: &Text) -> Option<Found> {
    let squeezed = &text.squeezed;
    let shared_memory = squeezed.find("Unexpectedbuserrorencounteredinworker.");
    let lost = squeezed.find("DataLoaderworker(pid").filter(|&at| {
        let clause = &squeezed[at..];
        let signalled = ["killedbysignal:Killed", "killedbysignal:Buserror"]
            .iter()
            .any(|words| clause.contains(words));
        // An exit code of the worker's own is an error of its own, told elsewhere.
        signalled
            || [
                "withexitcode-9",
                "withexitcode9.",
                "withexitcode137",
                "exitedunexpectedlywithexitcode-7",
            ]
            .iter()
            .any(|words| clause.contains(words))
            || clause.contains("exitedunexpectedly") && !clause.contains("withexitcode")
    });
    let at = shared_memory.or(lost)?;
    Some(Found::whole(Kind::HostOom, form_at(text, at)?))
}

/// Those who kill for memory and say so.
fn killer(text: &Text) -> Option<Found> {
    const WORDINGS: [&str; 10] = [
        // Linux mm/oom_kill.c, and cgroups' variant of it.
        "Outofmemory:Killedprocess",
        "Outofmemory:Killprocess",
        "Memorycgroupoutofmemory:Kill",
        "oom-kill:constraint=",
        // SLURM (task/cgroup) and srun's summary of a task.
        "oom-killevent(s)in",
        "oom_killevent(s)in",
        ":OutOfMemory",
        // Ray's memory monitor: the class is named like torch's, the memory is the host's.
        "duetothenoderunninglowonmemory",
        // Kubernetes.
        "OOMKilled",
        // systemd-oomd and systemd's summary of a unit.
        "Failedwithresult'oom-kill'",
    ];
    let (at, words) = WORDINGS
        .iter()
        .find_map(|words| Some((text.squeezed.find(words)?, words)))?;
    let srun = *words != ":OutOfMemory" || text.squeezed.starts_with("srun:");
    let form = form_at(text, at)?;
    (srun && !is_prose(text, at, at + words.len())).then(|| Found::whole(Kind::HostOom, form))
}

/// A process that SIGKILL ended, where nobody says why: the kernel's OOM killer, if no message of
/// the device's explains the end.
pub(super) fn read_killed(text: &Text) -> Option<Found> {
    const WORDINGS: [&str; 11] = [
        // torch/distributed/elastic: the agent's line and its summary.
        "failed(exitcode:-9)",
        "exitcode:-9(pid:",
        "Signal9(SIGKILL)receivedbyPID",
        // DeepSpeed's launcher.
        "exitswithreturncode=-9",
        // Docker, compose, schedulers and CI: 128 + 9.
        "exitedwithcode137",
        "exitcode137",
        "exitcode:137",
        "exitstatus137",
        "exitedwithexitcode137",
        // accelerate and subprocess.
        "diedwith<Signals.SIGKILL:9>",
        "returnednon-zeroexitstatus-9",
    ];
    let at = WORDINGS
        .iter()
        .find_map(|words| text.squeezed.find(words))
        .or_else(|| shell_killed(text))?;
    if is_prose(text, at, at) {
        return None;
    }
    let mut found = Found::whole(Kind::HostOom, form_at(text, at)?);
    // The launcher's, or the shell's, own word that the process has ended.
    found.report.outcome = Outcome::Fatal;
    Some(found)
}

/// bash, of a script's command: `job.sh: line 28:  8156 Killed   python3 main.py`.
fn shell_killed(text: &Text) -> Option<usize> {
    let at = text.squeezed.find(":line")?;
    let clause = &text.squeezed[at..];
    let line = number_after(clause, ":line")?;
    let after = clause.strip_prefix(&format!(":line{line}:"))?;
    let word = after.find(|c: char| !c.is_ascii_digit())?;
    (word > 0 && after[word..].starts_with("Killed")).then_some(at)
}
