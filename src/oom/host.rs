//! The host's memory, not the device's: allocations refused, workers and ranks killed.

use super::kind::OomKind;
use super::report::OomOutcome;
use super::squeezed::{find, size_after};
use super::wording::{Found, Text, form_at, is_prose};
use regex::Regex;
use std::sync::LazyLock;

/// What a shell says of a command of a script, and of its own; an expression.
pub(super) const SHELL_KILLED: &str = r"^Killed(:9)?$|:line[0-9]+:[0-9]+Killed|^make:[ -~]*\]Killed$|^zsh:killed|^\[[0-9]+\][+-]?[0-9]+killed";

/// One of these, or [`SHELL_KILLED`], is in every message of the family.
pub(super) fn heads() -> Vec<&'static str> {
    let mut heads = vec!["DataLoaderworker(pid", "Unexpectedbuserror", "MemoryError"];
    heads.extend(REFUSED.iter().map(|(words, _)| words));
    heads.extend(KILLERS.iter().chain(&KILLED));
    heads
}

/// The message in `text`, where the text alone says that it was memory.
pub(super) fn read(text: &Text) -> Option<Found> {
    refused(text)
        .or_else(|| worker(text))
        .or_else(|| killer(text))
}

/// Wordings of allocations that the host refused, squeezed, and the words that a figure follows.
const REFUSED: [(&str, &str); 9] = [
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

/// Allocations that the host refused.
fn refused(text: &Text) -> Option<Found> {
    if let Some((at, figure)) = REFUSED
        .iter()
        .find_map(|&(words, figure)| Some((find(&text.squeezed, words)?, figure)))
    {
        let mut found = Found::whole(OomKind::HostOom, form_at(text, at)?);
        if !figure.is_empty() {
            // Without its figure it is somebody's list of messages.
            found.report.requested = Some(size_after(&text.squeezed, figure)?);
        }
        return Some(found);
    }
    // CPython's bare exception has no words at all.
    (text.plain.trim() == "MemoryError")
        .then(|| Found::whole(OomKind::HostOom, super::wording::Form::Exception))
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
    Some(Found::whole(OomKind::HostOom, form_at(text, at)?))
}

/// Wordings of those who kill for memory.
const KILLERS: [&str; 18] = [
    // Linux mm/oom_kill.c, and cgroups' variant of it.
    "Outofmemory:Killedprocess",
    "Outofmemory:Killprocess",
    "Memorycgroupoutofmemory:Kill",
    "oom-kill:constraint=",
    "invokedoom-killer:",
    // LSF's and PBS's summaries.
    "TERM_MEMLIMIT:",
    "PBS:jobkilled:mem",
    // SLURM (task/cgroup) and srun's summary of a task.
    "oom-killevent(s)in",
    "oom_killevent(s)in",
    ":OutOfMemory",
    // SLURM before cgroups did it (jobacct_gather).
    "Exceededjobmemorylimit",
    "Exceededstepmemorylimit",
    "exceededmemorylimit",
    // Ray's memory monitor: the class is named like torch's, the memory is the host's.
    "duetothenoderunninglowonmemory",
    "killedduetomemorypressure(OOM)",
    // Kubernetes.
    "OOMKilled",
    // systemd-oomd's own line, and systemd's summary of a unit.
    "duetomemorypressurefor/",
    "Failedwithresult'oom-kill'",
];

/// Those who kill for memory and say so.
fn killer(text: &Text) -> Option<Found> {
    let (at, words) = KILLERS
        .iter()
        .find_map(|words| Some((find(&text.squeezed, words)?, words)))?;
    let srun = *words != ":OutOfMemory" || text.squeezed.starts_with("srun:");
    let form = form_at(text, at)?;
    (srun && !is_prose(text, at, at + words.len())).then(|| Found::whole(OomKind::HostOom, form))
}

/// Wordings of those who only see that SIGKILL ended a process.
const KILLED: [&str; 13] = [
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
    // time(1).
    "Commandterminatedbysignal9",
    // torch.multiprocessing.spawn.
    "terminatedwithsignalSIGKILL",
];

/// A process that SIGKILL ended, where nobody says why: the kernel's OOM killer, if no message of
/// the device's explains the end.
pub(super) fn read_killed(text: &Text) -> Option<Found> {
    let at = KILLED
        .iter()
        .find_map(|words| find(&text.squeezed, words))
        .or_else(|| shell_killed(text))?;
    if is_prose(text, at, at) {
        return None;
    }
    let mut found = Found::whole(OomKind::HostOom, form_at(text, at)?);
    // The launcher's, or the shell's, own word that the process has ended.
    found.report.outcome = OomOutcome::Fatal;
    Some(found)
}

/// bash, of a script's command: `job.sh: line 28:  8156 Killed   python3 main.py`; of its own, the
/// one word (`Killed: 9` on macOS); zsh, of its own and of a job: `zsh: killed  python3 main.py`;
/// make: `make: *** [train] Killed`.
fn shell_killed(text: &Text) -> Option<usize> {
    static WORDS: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(SHELL_KILLED).expect("a valid expression"));
    WORDS.find(&text.squeezed).map(|found| found.start())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oom::OomReport;
    use crate::oom::fixture::{none, one, reports, size};

    fn host() -> OomReport {
        OomReport {
            kind: OomKind::HostOom,
            ..OomReport::default()
        }
    }

    #[test]
    fn refused_allocations_have_a_figure() {
        for (text, figure) in [
            (
                "RuntimeError: [enforce fail at alloc_cpu.cpp:75] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 1073741824 bytes. Error code 12 (Cannot allocate memory)",
                "1 GiB",
            ),
            (
                "RuntimeError: [enforce fail at ..\\c10\\core\\impl\\alloc_cpu.cpp:81] data. DefaultCPUAllocator: not enough memory: you tried to allocate 2048 bytes.",
                "2 KiB",
            ),
            (
                "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 12.5 GiB for an array with shape (5, 5) and data type float64",
                "12.5 GiB",
            ),
            (
                "MemoryError: Unable to allocate 96. MiB for an array with shape (5, 5) and data type float32",
                "96 MiB",
            ),
            (
                "RuntimeError: unable to mmap 4096 bytes from file </torch_811_902_0>: Cannot allocate memory (12)",
                "4 KiB",
            ),
        ] {
            let expected = OomReport {
                requested: size(figure),
                ..host()
            };
            assert_eq!(one(text), expected, "{text}");
        }
    }

    #[test]
    fn workers_and_killers_have_none() {
        for text in [
            "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).",
            "RuntimeError: DataLoader worker (pid 811) is killed by signal: Killed. ",
            "RuntimeError: DataLoader worker (pid 811) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory. Please try to raise your shared memory limit.",
            "RuntimeError: DataLoader worker (pid(s) 811, 902) exited unexpectedly",
            "RuntimeError: DataLoader worker (pid 811) exited unexpectedly with exit code -9. Details are lost due to multiprocessing. Rerunning with num_workers=0 may give better error trace.",
            "slurmstepd-n7: error: Detected 2 oom-kill event(s) in StepId=17.0. Some of your processes may have been killed by the cgroup out-of-memory handler.",
            "slurmstepd: error: Detected 1 oom_kill event in StepId=17.batch. Some of the step tasks have been OOM Killed.",
            "srun: error: n7: task 0: Out Of Memory",
            "slurmstepd: error: Exceeded job memory limit at some point.",
            "slurmstepd: error: Step 17.0 exceeded memory limit (9 > 8), being killed",
            "(raylet) 1 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed due to other reasons",
            "[99.5] Out of memory: Killed process 811 (python3) total-vm:9kB, anon-rss:8kB, file-rss:7kB",
            "[99.5] Memory cgroup out of memory: Killed process 811 (python3) total-vm:9kB",
            "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.",
            "    reason: OOMKilled",
            "OSError: [Errno 12] Cannot allocate memory",
            "terminate called after throwing an instance of 'std::bad_alloc'",
            "RuntimeError: unable to write to file </torch_811_902_0>: No space left on device (28)",
            "MemoryError",
        ] {
            assert_eq!(one(text), host(), "{text}");
        }
    }

    #[test]
    fn a_killed_process_is_suspected_where_no_device_ran_out() {
        for text in [
            "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -9) local_rank: 0 (pid: 811) of binary: /usr/bin/python",
            "  exitcode  : -9 (pid: 811)",
            "  traceback : Signal 9 (SIGKILL) received by PID 811",
            "/var/spool/job17/slurm_script: line 12:   811 Killed                  python3 train.py",
            "[launch.py:3:sigkill_handler] ['python', 'x.py'] exits with return code = -9",
            "trainer-1 exited with code 137",
            "torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal SIGKILL",
        ] {
            let expected = OomReport {
                outcome: OomOutcome::Fatal,
                ..host()
            };
            assert_eq!(one(text), expected, "{text}");
            let after = format!("RuntimeError: CUDA error: out of memory\n{text}");
            assert_eq!(reports(&after).len(), 1, "{text}");
        }
    }

    #[test]
    fn other_ends_and_others_memory_are_none() {
        for text in [
            "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 0 (pid: 811) of binary: /usr/bin/python",
            "  exitcode  : -15 (pid: 812)",
            "RuntimeError: DataLoader worker (pid 811) exited unexpectedly with exit code 1. Details are lost due to multiprocessing.",
            "RuntimeError: DataLoader worker (pid 811) is killed by signal: Segmentation fault. ",
            "OpenJDK 64-Bit Server VM warning: INFO: os::commit_memory(0x0, 4096, 0) failed; error='Cannot allocate memory' (errno=12)",
            "java.lang.OutOfMemoryError: Java heap space",
            "OSError: [Errno 122] Disk quota exceeded",
            "    \"DefaultCPUAllocator: can't allocate memory\",",
            "OSError: [Errno 28] No space left on device",
            "    except MemoryError:",
            "[launch.py:3:sigkill_handler] Killing subprocess 811",
            "    raise RuntimeError('DataLoader worker (pid {}) exited unexpectedly')",
        ] {
            none(text);
        }
    }
}
