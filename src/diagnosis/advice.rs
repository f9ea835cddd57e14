//! What would help a training that simply needs too much, sorted by this run's numbers.
//!
//! Each suggestion is sorted by the bytes that it would save here, which are measured or computed.
//! If the parts of the memory are unknown, the order is a fixed one and no numbers are given.

use super::Phrase;
use super::case::OomContext;
use super::wording::because;
use crate::calibration::{AUTOCAST_LEAVES, CHECKPOINTING_LEAVES, EIGHT_BIT_ADAM_SAVES};
use crate::event::Phase;
use crate::units::Bytes;

/// The maximum number of suggestions.
const MOST: usize = 4;

/// Saving less than this share of what is missing isn't worth a line.
const WORTH: f64 = 0.1;

/// The share of activations left by half the batch, or of what two devices share.
const HALF: f64 = 0.5;

/// Most useful first.
pub(super) fn advice(case: &OomContext) -> Vec<Phrase> {
    match case.phase {
        Phase::Load => vec![
            because(
                "the weights in lower precision",
                "bf16; 8 or 4 bits for inference",
            ),
            because(
                "more GPUs, with the parameters sharded over them",
                "FSDP, ZeRO-3, device_map",
            ),
            because(
                "a smaller model, or parts of it in host memory",
                "CPU offload",
            ),
        ],
        Phase::Evaluation => evaluation(case),
        Phase::Forward | Phase::Backward | Phase::Optimizer | Phase::Unknown => training(case),
    }
}

fn evaluation(case: &OomContext) -> Vec<Phrase> {
    let mut advice: Vec<Phrase> = Vec::new();
    if (case.record()).is_some_and(|record| record.grad_enabled == Some(true)) {
        advice.push("torch.inference_mode() around the evaluation".into());
    }
    // Training leaves its own sizes of blocks in the cache, which an evaluation can't use.
    if let Some(cached) = case
        .cached
        .filter(|_| case.cache_is_notable() == Some(true))
    {
        let words = "torch.cuda.empty_cache() between training and evaluation";
        advice.push(format!("{words}: {cached} is cached").into());
    }
    advice.push("a smaller batch in evaluation".into());
    advice.push("moving outputs to the host as they are produced (.cpu()), not at the end".into());
    advice
}

fn training(case: &OomContext) -> Vec<Phrase> {
    let (Some(structure), Some(rest)) = (case.structure, case.unnamed()) else {
        return usual(case);
    };
    let mut suggestions = vec![
        (
            "activation checkpointing (torch.utils.checkpoint)",
            rest.scale(1.0 - CHECKPOINTING_LEAVES.1),
        ),
        (
            "half the batch size, with gradient accumulation to keep the effective batch",
            rest.scale(HALF),
        ),
        (
            "automatic mixed precision (bf16)",
            rest.scale(1.0 - AUTOCAST_LEAVES.1),
        ),
        (
            "an 8-bit optimizer",
            structure.optimizer_state.scale(EIGHT_BIT_ADAM_SAVES),
        ),
        (
            "a second GPU, with parameters, gradients and optimizer state sharded over both (FSDP, ZeRO-3)",
            structure.total().scale(HALF),
        ),
        (
            "the optimizer state in host memory (CPU offload)",
            structure.optimizer_state,
        ),
    ];
    if keeps_gradients(case) {
        suggestions.push(("optimizer.zero_grad(set_to_none=True)", structure.gradients));
    }
    let missing = match (case.needed(), case.own_room()) {
        (Some(needed), Some(room)) => needed - room,
        (_, _) => Bytes::ZERO,
    };
    let worth = missing.scale(WORTH).max(Bytes::mib(1));
    suggestions.retain(|(_, saved)| *saved >= worth);
    // Of two that save the same, one that leaves the training unchanged comes first.
    suggestions.sort_by_key(|(_, saved)| std::cmp::Reverse(*saved));
    if suggestions.is_empty() {
        return usual(case);
    }
    suggestions
        .iter()
        .take(MOST)
        .map(|(words, saved)| format!("{words}: about {saved} less").into())
        .collect()
}

/// Whether gradients are live during the forward pass: before torch 2.0 `zero_grad` filled them
/// with zeros by default.
fn keeps_gradients(case: &OomContext) -> bool {
    let version = case.rank.map(|rank| rank.hello.torch.as_str());
    case.phase == Phase::Forward && version.is_some_and(|version| version.starts_with("1."))
}

/// What helps most trainings.
fn usual(case: &OomContext) -> Vec<Phrase> {
    match case.phase {
        Phase::Optimizer => vec![
            because(
                "an optimizer with less state (8-bit, Adafactor), or its state sharded over GPUs",
                "ZeRO",
            ),
            "foreach=False in the optimizer, which needs less memory in its step".into(),
        ],
        Phase::Load | Phase::Evaluation | Phase::Forward | Phase::Backward | Phase::Unknown => {
            vec![
                "a smaller batch size, with gradient accumulation to keep the effective batch"
                    .into(),
                because("automatic mixed precision", "bf16"),
                because("activation checkpointing", "torch.utils.checkpoint"),
            ]
        }
    }
}
