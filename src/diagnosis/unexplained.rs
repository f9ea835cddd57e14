//! What is said if figures are missing or explain nothing: that memory ran out and which figures
//! are missing.

use super::case::OomContext;
use super::wording::{because, sentence, with_figures};
use super::{Cause, Certainty, Finding, Phrase, other_process};
use crate::oom::OomKind;
use crate::units::Bytes;

/// The share of the GPU from which PyTorch's own cache is why a library found no memory.
const NEARLY_ALL: f64 = 0.8;

const SMALLER_BATCH: &str = "a smaller batch";

fn found(case: &OomContext, certainty: Certainty, headline: impl Into<Phrase>) -> Finding {
    case.finding(Cause::Capacity, certainty, headline)
}

/// A library other than PyTorch (or PyTorch itself, if its message failed) found no memory.
pub(super) fn outside_the_allocator(case: &OomContext) -> Finding {
    if case.kind == OomKind::NvmlAssert {
        return message_lost(case);
    }
    let who = case.kind.spec().component;
    let full = case.reserved.zip(case.capacity);
    let full = full.filter(|(reserved, of)| reserved.fraction_of(*of) >= Some(NEARLY_ALL));
    let finding = match full {
        Some((reserved, capacity)) => found(
            case,
            Certainty::Likely,
            format!(
                "PyTorch had reserved {reserved} of {capacity}, which left too little for {who}."
            ),
        ),
        None => found(
            case,
            Certainty::Possible,
            format!("{who} could not allocate memory on the GPU; its message has no numbers."),
        ),
    };
    finding
        .says("The allocation that failed was outside PyTorch's allocator.")
        .says(other_process::clause_sentence(case))
        .says_if(case.caveat())
        .advises([
            SMALLER_BATCH,
            "leave memory for other libraries: torch.cuda.set_per_process_memory_fraction(0.9)",
        ])
}

/// torch 2.1 to 2.12 may fail in NVML while it writes the OOM message.
fn message_lost(case: &OomContext) -> Finding {
    let headline = match (case.allocated, case.capacity) {
        (Some(allocated), Some(capacity)) => {
            let figures = format!("{allocated} allocated, {capacity} on the GPU");
            with_figures("PyTorch ran out of memory", figures)
        }
        (_, _) => "PyTorch ran out of memory.".into(),
    };
    found(case, Certainty::Possible, headline)
        .says("It failed in an NVML call while writing the OOM message, so the message and its numbers are lost.")
        .says(other_process::clause_sentence(case))
        .says_if(case.caveat())
        .advises([SMALLER_BATCH])
}

/// vLLM checks what the weights and one profiling run leave for its KV cache.
fn no_room_for_the_cache(case: &OomContext) -> Finding {
    let headline = "vLLM found too little memory left for its KV cache.";
    found(case, Certainty::Likely, headline)
        .says("Weights, activations and KV cache share a fixed fraction of the GPU.")
        .says(other_process::clause_sentence(case))
        .advises([
            "a larger fraction of the GPU (--gpu-memory-utilization), if no one else uses it"
                .into(),
            because("shorter requests", "--max-model-len"),
            because("quantized weights, or more GPUs", "--tensor-parallel-size"),
        ])
}

pub(super) fn without_figures(case: &OomContext) -> Finding {
    if case.kind == OomKind::Vllm {
        return no_room_for_the_cache(case);
    }
    let headline = match case.asked() {
        Some(asked) => with_figures("It ran out of memory", asked),
        None => "It ran out of memory.".into(),
    };
    let missing: Vec<&str> = [
        ("the requested size", case.requested),
        ("the allocated memory", case.allocated),
        ("the GPU's capacity", case.capacity),
    ]
    .into_iter()
    .filter(|(_, bytes)| bytes.is_none())
    .map(|(what, _)| what)
    .collect();
    let are = if missing.len() > 1 { "are" } else { "is" };
    let missing = missing.join(" and ");
    found(case, Certainty::Possible, headline)
        .says(sentence(&format!(
            "{missing} {are} unknown, so the cause cannot be determined"
        )))
        .says_if(case.failed())
        .advises([SMALLER_BATCH])
}

/// The finding when no rule has one.
pub(super) fn nothing_else(case: &OomContext) -> Finding {
    match case.needed().zip(case.capacity) {
        Some((needed, capacity)) => unexplained(case, needed, capacity),
        None => without_figures(case),
    }
}

/// All figures are known, and by them it should have fit.
pub(super) fn unexplained(case: &OomContext, needed: Bytes, capacity: Bytes) -> Finding {
    let figures = format!("{needed} needed, {capacity} on the GPU");
    let headline = with_figures("The numbers do not explain it", figures);
    found(case, Certainty::Possible, headline)
        .says_if(case.free.map(|free| {
            format!("{free} was free when the message was written; another process may have used more a moment before.")
        }))
        .says(other_process::clause_sentence(case))
        .says_if(case.caveat())
        .advises([because("see who else is on the GPU", "nvidia-smi on the host")])
}
