//! An inference engine that shares the GPU with the training, as in reinforcement learning: vLLM and its like take a fixed
//! share of the whole GPU for weights and KV cache, whatever is left.

use super::finding::{because, with_figures};
use super::foreign_process;
use super::oom_context::OomContext;
use super::situation::Situation;
use super::{Cause, CauseSpec, Certainty, Finding, Phrase};
use crate::oom::{OomKind, OomSign};

pub(super) const CAUSE: CauseSpec =
    CauseSpec::new("an inference engine's share", examine).explains_capacity();

/// The share of the GPU from which an engine's process counts.
const NOTABLE: f64 = 0.05;

fn examine(case: &OomContext) -> Option<Finding> {
    if case.kind == OomKind::Vllm {
        return Some(no_room_for_the_cache(case));
    }
    let engine = case.others.iter().flatten().find(|other| other.is_engine());
    let beside = engine
        .and_then(|other| other.bytes)
        .zip(case.capacity)
        .filter(|(bytes, capacity)| bytes.fraction_of(*capacity) >= Some(NOTABLE));
    let inside = case.stack.doing(Situation::Engine);
    if let (Some(call), Some(asked)) = (case.stack.doing(Situation::EngineCapture), case.asked()) {
        return Some(
            case.finding(
                Cause::InferenceEngine,
                Certainty::Likely,
                with_figures("The inference engine ran out while it recorded its CUDA graphs", asked),
            )
            .says("It records one for each of many numbers of requests, beside its share: what is left of the GPU has to hold them.")
            .says(format!("It is {}.", call.shown()))
            .advises([
                because("a smaller share for the engine", "--gpu-memory-utilization"),
                because("no graphs, or fewer of them", "--enforce-eager; vLLM: cudagraph_capture_sizes, --max-num-seqs"),
                case.another_gpu(),
            ]),
        );
    }
    let (headline, says): (Phrase, String) = match (beside, inside, case.asked()) {
        (Some((bytes, capacity)), _, _) => (
            with_figures(
                "An inference engine shares the GPU",
                format!("{bytes} of {capacity}"),
            ),
            "It keeps its share for weights and KV cache also while the training runs.".into(),
        ),
        (None, Some(call), Some(asked)) => (
            with_figures("The inference engine in this process ran out", asked),
            format!("It is {}.", call.shown()),
        ),
        (None, _, _) => return None,
    };
    // As sure as it would be of any other process.
    let by_sum = beside.and_then(|_| foreign_process::named(case));
    let certainty = by_sum.map_or(Certainty::Likely, |named| named.certainty);
    let finding = case
        .finding(Cause::InferenceEngine, certainty, headline)
        .says(says)
        .says_if(case.failed())
        .advises([
            because(
                "a smaller share for the engine",
                "gpu_memory_utilization; TRL: --vllm_gpu_memory_utilization 0.2",
            ),
            because(
                "let it sleep while the training runs",
                "enable_sleep_mode=True; TRL: --vllm_enable_sleep_mode",
            ),
            because("the engine on a GPU of its own", "TRL: --vllm_mode server"),
        ]);
    Some(Finding {
        other_process: engine.map(|other| other.pid),
        ..finding
    })
}

/// vLLM takes its share of the GPU at the start, and checks what the weights and one profiling run leave of it for its KV cache.
fn no_room_for_the_cache(case: &OomContext) -> Finding {
    match case.sign() {
        Some(OomSign::EngineShare) => case
            .finding(
                Cause::InferenceEngine,
                Certainty::Certain,
                "Less of the GPU is free than vLLM was told to take.",
            )
            .says("It takes its share of the whole GPU, whatever is left; something else is on the GPU already.")
            .says(foreign_process::clause_sentence(case))
            .advises([
                because("a smaller share for the engine", "--gpu-memory-utilization"),
                case.see_who_is_there(),
                case.another_gpu(),
            ]),
        Some(OomSign::EngineWarmUp) => case
            .finding(
                Cause::InferenceEngine,
                Certainty::Certain,
                "vLLM ran out while it warmed its sampler up, behind its KV cache.",
            )
            .says("The cache takes all of its share; what it runs beside that has only what is left of the GPU.")
            .says(foreign_process::clause_sentence(case))
            .advises([
                because("a smaller share for the engine", "--gpu-memory-utilization"),
                because("fewer requests at a time", "--max-num-seqs"),
                case.another_gpu(),
            ]),
        Some(_) | None => case
            .finding(
                Cause::InferenceEngine,
                Certainty::Likely,
                "vLLM found too little memory left for its KV cache.",
            )
            .says("Weights, activations and KV cache share a fixed fraction of the GPU.")
            .says(foreign_process::clause_sentence(case))
            .advises([
                "a larger fraction of the GPU (--gpu-memory-utilization), if no one else uses it"
                    .into(),
                because("shorter requests", "--max-model-len"),
                because("quantized weights, or more GPUs", "--tensor-parallel-size"),
            ]),
    }
}
