//! What helps where another framework than PyTorch, or a device without figures of its own, has run out: its messages have little
//! more than what was requested, so that nothing is summed.

use super::Phrase;
use super::finding::because;
use super::oom_context::OomContext;
use crate::oom::{OomKind, OomSign};

const SMALLER_BATCH: &str = "a smaller batch";

/// A piece of advice, and how it is done; empty where the advice says it.
type Advice = &'static [(&'static str, &'static str)];

const OF_JAX: Advice = &[
    (SMALLER_BATCH, ""),
    ("recompute activations", "jax.checkpoint"),
    (
        "beside another process, or PyTorch in this one",
        "XLA_PYTHON_CLIENT_PREALLOCATE=false, or a smaller XLA_PYTHON_CLIENT_MEM_FRACTION",
    ),
];

const OF_TENSORFLOW: Advice = &[
    (SMALLER_BATCH, ""),
    (
        "mixed precision",
        "tf.keras.mixed_precision.set_global_policy(\"mixed_bfloat16\")",
    ),
    (
        "beside another process, or PyTorch in this one",
        "TF_FORCE_GPU_ALLOW_GROWTH=true",
    ),
    (
        "fewer pieces, if much is free by its log",
        "TF_GPU_ALLOCATOR=cuda_malloc_async",
    ),
];

const OF_PADDLE: Advice = &[
    (SMALLER_BATCH, ""),
    (
        "mixed precision",
        "paddle.amp.auto_cast; PaddleX and PaddleDetection: --amp",
    ),
    (
        "recompute activations",
        "paddle.distributed.fleet.utils.recompute",
    ),
    (
        "no more than it needs, beside other processes",
        "FLAGS_allocator_strategy=auto_growth, a smaller FLAGS_fraction_of_gpu_memory_to_use",
    ),
];

const OF_CUPY: Advice = &[
    (
        "pieces of the array at a time, or a smaller type",
        "float32 in place of float64",
    ),
    (
        "give the pool's memory back",
        "cupy.get_default_memory_pool().free_all_blocks(); beside PyTorch torch.cuda.empty_cache()",
    ),
    (
        "memory that may lie in RAM",
        "cupy.cuda.set_allocator(cupy.cuda.malloc_managed), slower",
    ),
];

const OF_ONNX_RUNTIME: Advice = &[
    ("a smaller batch, or shorter inputs", ""),
    (
        "an arena that grows by what is asked for",
        "arena_extend_strategy: kSameAsRequested, and a gpu_mem_limit, in the options of the CUDA provider",
    ),
    (
        "smaller workspaces of convolutions",
        "cudnn_conv_algo_search: HEURISTIC, cudnn_conv_use_max_workspace: 0",
    ),
];

/// Apple's GPUs: one tensor is larger than Metal lets a buffer be.
const OF_ONE_BUFFER: Advice = &[
    (
        "no single tensor that large: a smaller batch, image or sequence, attention that is sliced or fused",
        "",
    ),
    (
        "the limit is Metal's for one buffer, however much is free: the watermark's ratio changes nothing",
        "",
    ),
];

const OF_MLX: Advice = &[
    (SMALLER_BATCH, ""),
    (
        "a limit of MLX's own cache: mx.set_cache_limit(BYTES), mx.clear_cache() between steps",
        "",
    ),
    ("close other programs: the GPU's memory is the RAM", ""),
];

const OF_ANOTHER_DEVICE: Advice = &[
    (SMALLER_BATCH, ""),
    ("a smaller model, or its parts on several devices", ""),
    ("end other programs that use the device", ""),
];

/// Where the words may be of something else than memory.
const OF_RESOURCES: Advice = &[
    (SMALLER_BATCH, ""),
    (
        "if a smaller batch fails as well: a kernel that needs more than the device has (registers, work-group size), or a device that was lost (the driver's log says so)",
        "",
    ),
];

/// `None` for PyTorch's own and for what is told otherwise.
pub(super) fn advice(case: &OomContext) -> Option<Vec<Phrase>> {
    let advice = match (case.kind, case.sign()) {
        (_, Some(OomSign::OneBuffer)) => OF_ONE_BUFFER,
        (_, Some(OomSign::Resources)) => OF_RESOURCES,
        (OomKind::MlxOom, _) => OF_MLX,
        (OomKind::DeviceOom, _) => OF_ANOTHER_DEVICE,
        (OomKind::Jax, _) => OF_JAX,
        (OomKind::Tf, _) => OF_TENSORFLOW,
        (OomKind::Paddle, _) => OF_PADDLE,
        (OomKind::Cupy, _) => OF_CUPY,
        (OomKind::OnnxRuntime, _) => OF_ONNX_RUNTIME,
        _ => return None,
    };
    let said = advice.iter().map(|(what, how)| match how.is_empty() {
        true => Phrase::from(*what),
        false => because(what, how),
    });
    Some(said.collect())
}
