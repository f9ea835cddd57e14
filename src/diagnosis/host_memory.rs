//! The host's memory ran out, not the device's: nothing that is changed on the GPU helps.

use super::finding::with_figures;
use super::host_figures::{HostFigures, out_of_sight};
use super::oom_context::OomContext;
use super::situation::Situation;
use super::{Cause, CauseSpec, Certainty, Finding, Phrase};
use crate::oom::{OomKind, OomSign};
use crate::units::Bytes;

pub(super) const CAUSE: CauseSpec =
    CauseSpec::new("host memory", examine).of_host("host memory ran out, not GPU memory");

const ADVICE: [&str; 2] = [
    "fewer DataLoader workers, or a smaller prefetch_factor",
    "a larger memory limit for the job or container, or a larger /dev/shm",
];

/// What helps where a process could not be started.
const FORK_ADVICE: [&str; 2] = [
    "start workers before the program has grown, or with multiprocessing_context=\"forkserver\"",
    "sysctl vm.overcommit_memory=1, or swap, where the kernel counts what a fork might need",
];

/// Whether an allocation was refused: nothing was killed.
fn is_refused(case: &OomContext) -> bool {
    // Only an allocator that was refused says how much it wanted; what the kernel kills says nothing.
    case.requested.is_some() || matches!(case.host_sign(), Some(OomSign::Refused | OomSign::Fork))
}

/// What helps an allocation that one line of the program asked for.
const REFUSED_ADVICE: [&str; 3] = [
    "less at a time: read in parts or memory-mapped (np.load(..., mmap_mode=\"r\"), torch.load(..., mmap=True)), or in a smaller type",
    "more RAM or swap, or a larger limit for the job or container",
    "fewer DataLoader workers, if each of them has a copy",
];

/// What helps where the array is made, and nothing is read.
const ARRAY_ADVICE: [&str; 3] = [
    "a smaller array: what sets its shape (a replay or rollout buffer: buffer_size, n_steps, the number of environments; smaller observations)",
    "a smaller type (uint8 for images), or a file in its place (np.memmap)",
    "more RAM or swap, or a larger limit for the job or container",
];

/// What helps where Windows has no place left for what is reserved.
const PAGE_FILE_ADVICE: [&str; 2] = [
    "fewer DataLoader workers (num_workers=0 to see): each one reserves gigabytes for CUDA's libraries",
    "a larger page file: System, Advanced, Performance, Advanced, Virtual memory",
];

/// What helps where a data set is prepared by several processes.
const MAP_ADVICE: [&str; 3] = [
    "fewer processes (num_proc; Trainer programs: --preprocessing_num_workers), each has a copy of what it works on",
    "smaller pieces (batch_size=, writer_batch_size= of map; keep_in_memory=False)",
    "num_proc=1 shows an error of its own, if it was one",
];

/// What helps where Ray killed a task.
const RAY_ADVICE: [&str; 3] = [
    "fewer actors and tasks on a node at a time (a larger num_cpus=, or @ray.remote(memory=BYTES) for each)",
    "less in the node's RAM: parameters and optimizer state that were offloaded there, the object store",
    "RAY_memory_usage_threshold=0.98 lets the node fill further before Ray kills, RAY_memory_monitor_refresh_ms=0 leaves it to the kernel",
];

const DASK_ADVICE: [&str; 3] = [
    "more memory for each worker (memory_limit= of LocalCluster, --memory-limit of dask worker), or fewer workers",
    "smaller partitions or chunks (blocksize=, repartition, rechunk), fewer threads a worker",
    "distributed.worker.memory.terminate: false in Dask's configuration leaves it to the kernel",
];

const PLATFORM_ADVICE: [&str; 3] = [
    "more memory for it: requests and limits of the pod (equal, so that a busy node evicts others first), memory of the ECS task or Batch job, spark.executor.memoryOverhead",
    "fewer DataLoader workers, or a smaller prefetch_factor (each worker has a copy of the dataset's Python objects)",
    "a node with more RAM, or fewer jobs on it",
];

/// What helps where nothing tells what filled the memory.
const KILLED_ADVICE: [&str; 3] = [
    "fewer DataLoader workers, or a smaller prefetch_factor",
    "if it was loading a model: low_cpu_mem_usage=True, torch.load(..., mmap=True); each rank on the node reads a copy of its own",
    "a larger memory limit for the job or container (SLURM: --mem=, docker: --memory=, Kubernetes: resources.limits.memory)",
];

/// From here on an allocation that was refused is one that a line of the program asked for as such.
const LARGE: Bytes = Bytes::gib(1);

fn advice(case: &OomContext) -> Vec<Phrase> {
    let usual = || ADVICE.map(Phrase::from).to_vec();
    match case.host_sign() {
        Some(OomSign::Fork) => FORK_ADVICE
            .map(Phrase::from)
            .into_iter()
            .chain(usual())
            .collect(),
        Some(OomSign::RayMonitor) => RAY_ADVICE.map(Phrase::from).to_vec(),
        Some(OomSign::Dask) => DASK_ADVICE.map(Phrase::from).to_vec(),
        Some(OomSign::Platform) => PLATFORM_ADVICE.map(Phrase::from).to_vec(),
        Some(OomSign::Killed) => KILLED_ADVICE.map(Phrase::from).to_vec(),
        Some(OomSign::MapWorker) => MAP_ADVICE.map(Phrase::from).to_vec(),
        Some(OomSign::PageFile) => PAGE_FILE_ADVICE.map(Phrase::from).to_vec(),
        _ if case.requested.is_some() && case.stack.doing(Situation::ArrayMade).is_some() => {
            ARRAY_ADVICE.map(Phrase::from).to_vec()
        }
        _ if case.requested >= Some(LARGE) => REFUSED_ADVICE.map(Phrase::from).to_vec(),
        _ => usual(),
    }
}

fn fork_advice(case: &OomContext) -> Vec<Phrase> {
    match case.host_sign() {
        Some(OomSign::Fork) => FORK_ADVICE.map(Phrase::from).to_vec(),
        _ => Vec::new(),
    }
}

/// How it ended.
fn how(case: &OomContext) -> &'static str {
    match (case.host_sign(), is_refused(case)) {
        (Some(OomSign::Fork), _) => {
            "The kernel refused memory to a call, most often to start a process: a fork may come to need as much as its parent has. Nothing was killed."
        }
        (Some(OomSign::RayMonitor), _) => {
            "Ray's monitor ended it before the kernel would have: the node as a whole was nearly out of RAM."
        }
        (Some(OomSign::Dask), _) => {
            "Dask's nanny ended a worker that had nearly all of its memory_limit, and started it again."
        }
        (Some(OomSign::Platform), _) => {
            "What runs it (Kubernetes, ECS, YARN) ended it: it had more RAM than its limit, or the node was short of RAM and it had more than it asked for."
        }
        (Some(OomSign::PageFile), _) => {
            "Windows promises no memory that RAM and page file together could not hold, used or not. Nothing was killed."
        }
        (Some(OomSign::Killed), _) => {
            "The kernel's OOM killer does that, or the job's memory limit (dmesg says so); a scheduler or a person may have as well."
        }
        (Some(OomSign::MapWorker), _) => {
            "It ends without a traceback where the kernel's OOM killer took it (dmesg says so), or where C code crashed."
        }
        (Some(OomSign::Gone), _) => {
            "What else ends a worker is a crash in C code (PYTHONFAULTHANDLER=1 names its line); num_workers=0 shows an error of its own."
        }
        (_, true) => {
            "An allocation on the host was refused: no memory is left, or a limit (ulimit -v, the job's) was reached. Nothing was killed."
        }
        (_, false) => {
            "The kernel's OOM killer, the job's memory limit or a full /dev/shm ended it."
        }
    }
}

fn examine(case: &OomContext) -> Option<Finding> {
    if case.kind != OomKind::HostOom {
        return None;
    }
    if let Some(figures) = HostFigures::of(case) {
        let what = match case.requested {
            Some(requested) => {
                format!("The host ran out of memory, not the GPU ({requested} requested)")
            }
            None => "The host ran out of memory, not the GPU".into(),
        };
        let advice = [ADVICE[0].into(), figures.more_memory()];
        let is_refused = is_refused(case);
        return Some(
            figures
                .finding(Cause::HostMemory, Certainty::Certain, &what)
                .says_if(is_refused.then(|| how(case)))
                .advises(fork_advice(case).into_iter().chain(advice)),
        );
    }
    let is_gone = matches!(case.host_sign(), Some(OomSign::Gone | OomSign::MapWorker));
    // Nothing but the signal is known: the kernel sends it, and so may a scheduler or a person.
    let is_killed = case.host_sign() == Some(OomSign::Killed);
    let headline = match case.requested {
        None if case.host_sign() == Some(OomSign::PageFile) => {
            "Windows' page file is too small for what the processes reserve; it is not GPU memory."
                .into()
        }
        None if is_killed => {
            "SIGKILL ended a process: most often the host's memory ran out, not the GPU's.".into()
        }
        None if case.host_sign() == Some(OomSign::MapWorker) => {
            "A process that prepares the data set is gone, it is not said why: most often the host's memory ran out.".into()
        }
        None if is_gone => {
            "A worker is gone, it is not said why: most often the host's memory ran out.".into()
        }
        Some(requested) => with_figures(
            "The host ran out of memory, not the GPU",
            format!("{requested} requested"),
        ),
        None => "The host ran out of memory, not the GPU.".into(),
    };
    let certainty = match (is_gone, is_killed) {
        (true, _) => Certainty::Possible,
        (false, true) => Certainty::Likely,
        (false, false) => Certainty::Certain,
    };
    let finding = Finding {
        // The GPU's numbers are irrelevant here.
        evidence: Vec::new(),
        ..case.finding(Cause::HostMemory, certainty, headline)
    };
    Some(
        finding
            .says(how(case))
            .says_if(out_of_sight(case))
            .advises(advice(case)),
    )
}
