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
    if matches!(case.kind, OomKind::Vllm | OomKind::Sglang)
        && case.sign() != Some(OomSign::EngineWakes)
    {
        return Some(no_room_for_the_cache(case));
    }
    let wakes = case.stack.doing(Situation::EngineWakes);
    if wakes.is_some() || case.sign() == Some(OomSign::EngineWakes) {
        return Some(no_room_to_wake_up(case));
    }
    let engine = case.others.iter().flatten().find(|other| other.is_engine());
    let beside = engine
        .and_then(|other| other.bytes)
        .zip(case.capacity)
        .filter(|(bytes, capacity)| bytes.fraction_of(*capacity) >= Some(NOTABLE));
    let inside = case.stack.doing(Situation::Engine);
    let records = case.stack.doing(Situation::EngineCapture).or_else(|| {
        let graph = case.stack.doing(Situation::GraphCapture);
        graph.filter(|_| inside.is_some())
    });
    if records.is_some() || case.sign() == Some(OomSign::EngineGraphs) {
        let what = "The inference engine ran out while it recorded its CUDA graphs";
        let headline = match case.asked() {
            Some(asked) => with_figures(what, asked),
            None => Phrase::from(format!("{what}.")),
        };
        return Some(
            case.finding(Cause::InferenceEngine, Certainty::Likely, headline)
            .says("It records one for each of many numbers of requests, beside its share: what is left of the GPU has to hold them.")
            .says_if(records.map(|call| format!("It is {}.", call.shown())))
            .advises([
                because("a smaller share for the engine", "vLLM: --gpu-memory-utilization; SGLang: --mem-fraction-static"),
                because("no graphs, or fewer of them", "vLLM: --enforce-eager, --max-num-seqs; SGLang: --cuda-graph-max-bs 16"),
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
        // One tensor that no GPU of this size has room for is no matter of shares.
        (None, Some(_), _) if case.requested_share() > Some(1.0) => return None,
        (None, Some(call), Some(asked)) => (
            with_figures("The inference engine in this process ran out", asked),
            format!("It is {}.", call.shown()),
        ),
        (None, Some(call), None) => (
            "The inference engine in this process ran out.".into(),
            format!("It is {}.", call.shown()),
        ),
        (None, None, _) => return None,
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

/// Between a training's steps an engine that sleeps has given its memory back. What the training has kept meanwhile is missing
/// when it wakes up.
fn no_room_to_wake_up(case: &OomContext) -> Finding {
    case.finding(
        Cause::InferenceEngine,
        Certainty::Certain,
        "The inference engine woke up from its sleep, and its memory was no longer free.",
    )
    .says("It takes the same share of the GPU again; the training beside it holds or has cached too much by then.")
    .says_if(case.stack.own().map(|call| format!("It is {}.", call.shown())))
    .advises([
        because(
            "a smaller share for the engine",
            "gpu_memory_utilization; verl: actor_rollout_ref.rollout.gpu_memory_utilization=0.4",
        ),
        "torch.cuda.empty_cache() before it wakes up".into(),
        because(
            "the training's parameters and optimizer state in RAM meanwhile",
            "verl: actor_rollout_ref.actor.fsdp_config.param_offload=True, optimizer_offload=True; OpenRLHF: --deepspeed_enable_sleep",
        ),
        because(
            "no expandable segments in this process",
            "the engine's sleep mode is incompatible with them",
        ),
    ])
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
        Some(_) | None if case.kind == OomKind::Sglang => case
            .finding(
                Cause::InferenceEngine,
                Certainty::Likely,
                "SGLang's weights left too little of its share for a KV cache.",
            )
            .says("Weights and KV cache share a fixed fraction of the GPU.")
            .advises([
                because(
                    "a larger share for them, if no one else uses the GPU",
                    "--mem-fraction-static 0.9",
                ),
                because("more GPUs", "--tp 2"),
                "quantized weights, or a smaller model".into(),
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
