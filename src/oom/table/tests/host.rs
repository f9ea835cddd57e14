//! The host's memory.

use crate::oom::fixture::{none, one, reports, size};
use crate::oom::{OomKind, OomOutcome, OomReport};

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
