//! A call to CUDA, cuBLAS, cuDNN, NCCL or another library that found no memory: their buffers are outside PyTorch's allocator,
//! and their messages have no figures. The line that shows which one it was is on the stack.

use super::finding::because;
use super::foreign_process;
use super::oom_context::OomContext;
use super::situation::Situation;
use super::{Cause, CauseSpec, Certainty, Finding, Phrase};
use crate::oom::{OomKind, OomSign, OomSource};

pub(super) const CAUSE: CauseSpec =
    CauseSpec::new("no room for a library's memory", examine).explains_capacity();

/// The share of the GPU from which PyTorch's own cache is why a library found no memory.
const NEARLY_ALL: f64 = 0.8;

fn examine(case: &OomContext) -> Option<Finding> {
    let is_librarys =
        case.kind.spec().source == OomSource::DriverCall && case.kind != OomKind::NvmlAssert;
    if !is_librarys || case.needed().is_some() && !case.by_last_sample {
        return None;
    }
    let library = library(case);
    let who = match &library {
        Some(library) => library.name,
        None => case.kind.spec().component,
    };
    let full = case.reserved.zip(case.capacity);
    let full = full.filter(|(reserved, of)| reserved.fraction_of(*of) >= Some(NEARLY_ALL));
    let (certainty, headline) = match full {
        Some((reserved, capacity)) => (
            Certainty::Likely,
            format!(
                "PyTorch had reserved {reserved} of {capacity}, which left too little for {who}."
            ),
        ),
        None => (
            Certainty::Possible,
            format!("{who} could not allocate memory on the GPU; its message has no numbers."),
        ),
    };
    let at = case
        .stack
        .doing(Situation::Communicator)
        .or_else(|| case.stack.own());
    Some(
        case.finding(Cause::LibraryMemory, certainty, headline)
            .says("The allocation that failed was outside PyTorch's allocator.")
            .says_if(
                library
                    .as_ref()
                    .map(|library| library.takes)
                    .or_else(|| takes(case.kind)),
            )
            .says_if(at.map(|call| format!("The call is at {}.", call.shown())))
            .says(foreign_process::clause_sentence(case))
            .says_if(case.caveat())
            .advises(match library {
                Some(library) => library.advice(case),
                None => advice(case),
            }),
    )
}

/// A library whose name the message has.
struct Library {
    name: &'static str,
    /// What it takes its memory for.
    takes: &'static str,
    /// What is its own to change.
    own: &'static [(&'static str, &'static str)],
    /// Whether it runs beside PyTorch, whose cache may be what left no room.
    is_beside_torch: bool,
}

const CUFFT: Library = Library {
    name: "cuFFT",
    takes: "Each shape, type and direction has a plan with a workspace of its own, and torch keeps up to 4096 of them.",
    own: &[
        (
            "fewer plans that are kept",
            "torch.backends.cuda.cufft_plan_cache.max_size = 16, or .clear()",
        ),
        (
            "sizes that are powers of 2, 3, 5 and 7",
            "others take a larger workspace",
        ),
    ],
    is_beside_torch: true,
};

const CUSOLVER: Library = Library {
    name: "cuSOLVER",
    takes: "It takes a handle at its first use, and a workspace that grows with the matrices and their number.",
    own: &[
        (
            "fewer matrices at a time",
            "a loop over pieces of the batch",
        ),
        (
            "another library",
            "torch.backends.cuda.preferred_linalg_library(\"magma\")",
        ),
        (
            "on the CPU",
            "matrix.cpu(): MAGMA's and LAPACK's workspaces lie in RAM there",
        ),
    ],
    is_beside_torch: true,
};

const CUSPARSE: Library = Library {
    name: "cuSPARSE",
    takes: "A product with a sparse matrix has a workspace that grows with its entries. INSUFFICIENT_RESOURCES may also mean sizes that it does not take.",
    own: &[
        (
            "a smaller or sampled graph at a time",
            "fewer nodes, edges or features in a batch",
        ),
        ("the matrix in rows", "one product for each piece"),
    ],
    is_beside_torch: true,
};

const RMM: Library = Library {
    name: "RMM, RAPIDS' memory manager,",
    takes: "Its exception is Python's MemoryError, though the memory is the GPU's: RAM is not short.",
    own: &[
        (
            "data that may move to RAM",
            "cudf.set_option(\"spill\", True); dask-cuda: device_memory_limit",
        ),
        (
            "memory that GPU and host share",
            "rmm.reinitialize(managed_memory=True), slower",
        ),
        (
            "pieces at a time",
            "dask_cudf, read_parquet by row groups or columns",
        ),
    ],
    is_beside_torch: false,
};

const DALI: Library = Library {
    name: "DALI",
    takes: "Its decoders and the batches that it has prepared lie beside PyTorch's cache.",
    own: &[
        (
            "fewer batches in advance",
            "prefetch_queue_depth=1, a smaller batch_size of the pipeline",
        ),
        (
            "a smaller decoder",
            "device_memory_padding and host_memory_padding of fn.decoders.image; device=\"cpu\" decodes in RAM",
        ),
    ],
    is_beside_torch: true,
};

const PHYSX: Library = Library {
    name: "PhysX",
    takes: "The simulation's buffers grow with the number of environments, and lie beside PyTorch's cache.",
    own: &[
        (
            "fewer environments",
            "num_envs: --num_envs=N, num_envs=N or task.env.numEnvs=N",
        ),
        (
            "smaller buffers of the simulation",
            "max_gpu_contact_pairs and found_lost_pairs of sim.physx; Isaac Lab: the gpu_*_capacity fields of PhysxCfg",
        ),
    ],
    is_beside_torch: false,
};

const TINY_CUDA_NN: Library = Library {
    name: "NVIDIA's tiny-cuda-nn",
    takes: "What its networks and encodings keep of a batch is its own memory, beside PyTorch's cache.",
    own: &[(
        "fewer rays or points at a time",
        "nerfstudio: --pipeline.datamanager.train-num-rays-per-batch, and eval-num-rays-per-batch",
    )],
    is_beside_torch: true,
};

fn library(case: &OomContext) -> Option<&'static Library> {
    match case.sign()? {
        OomSign::Cufft => Some(&CUFFT),
        OomSign::Cusolver => Some(&CUSOLVER),
        OomSign::Cusparse => Some(&CUSPARSE),
        OomSign::Rmm => Some(&RMM),
        OomSign::Dali => Some(&DALI),
        OomSign::Physics => Some(&PHYSX),
        OomSign::TinyCudaNn => Some(&TINY_CUDA_NN),
        _ => None,
    }
}

impl Library {
    fn advice(&self, case: &OomContext) -> Vec<Phrase> {
        let own = self.own.iter().map(|(what, how)| because(what, how));
        let room = match self.is_beside_torch {
            true => leave_room(),
            false => case.see_who_is_there(),
        };
        own.chain([room]).collect()
    }
}

fn leave_room() -> Phrase {
    because(
        "leave memory for other libraries",
        "torch.cuda.set_per_process_memory_fraction(0.9)",
    )
}

/// What a library takes its memory for.
fn takes(kind: OomKind) -> Option<&'static str> {
    match kind {
        OomKind::Cublas => Some(
            "cuBLAS takes a handle and a workspace of 8 to 32 MiB per stream at its first use. A label or index out of range can print the same: CUDA_LAUNCH_BLOCKING=1 tells.",
        ),
        OomKind::Cudnn => Some(
            "cuDNN needs a workspace for each convolution, and tries out several if cudnn.benchmark is on.",
        ),
        OomKind::Bitsandbytes => Some(
            "States of a paged optimizer are in memory that GPU and host share: there it was the host, or its limit, that had no room.",
        ),
        OomKind::Nccl => Some(
            "NCCL takes buffers for each communicator and channel at the first collective operation of a process group.",
        ),
        _ => None,
    }
}

fn advice(case: &OomContext) -> Vec<Phrase> {
    let kind = case.kind;
    let leave = leave_room();
    let first = match kind {
        OomKind::Nccl => because(
            "smaller buffers",
            "NCCL_BUFFSIZE=1048576, NCCL_MAX_NCHANNELS=4; fewer process groups",
        ),
        OomKind::Cudnn => because("no trials", "torch.backends.cudnn.benchmark = False"),
        OomKind::Cublas => because("a smaller workspace", "CUBLAS_WORKSPACE_CONFIG=:16:8"),
        _ => "a smaller batch".into(),
    };
    match kind {
        OomKind::Bitsandbytes => vec![
            first,
            because("an optimizer whose states may move to RAM", "paged_adamw_8bit"),
            because("if it is paged already", "more RAM, or a larger limit for the job or container"),
        ],
        OomKind::Nccl | OomKind::Cudnn | OomKind::Cublas => {
            vec!["a smaller batch".into(), leave, first]
        }
        // Nothing tells whose memory it was: most often it is somebody else's, which one look shows.
        _ if case.stack.doing(Situation::Communicator).is_some() => vec![
            case.see_who_is_there(),
            "give each rank its own GPU: torch.cuda.set_device(LOCAL_RANK) before the first collective call".into(),
            first,
            leave,
        ],
        _ if kind == OomKind::CudaErrorOom && !case.by_last_sample => {
            vec![case.see_who_is_there(), first, leave]
        }
        _ => vec![first, leave],
    }
}
