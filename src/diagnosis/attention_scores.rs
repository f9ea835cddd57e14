//! Attention whose scores are a matrix in memory: batch × heads × length × length, kept by every layer. A fused kernel
//! (flash, memory-efficient) never makes it; it is made where the attention is written out, where the model is told
//! `attn_implementation="eager"`, and where the inputs allow no fused kernel.

use super::finding::{because, with_figures};
use super::oom_context::OomContext;
use super::situation::Situation;
use super::{Cause, CauseSpec, Certainty, Finding};
use crate::event::Phase;

pub(super) const CAUSE: CauseSpec =
    CauseSpec::new("attention's score matrix", examine).explains_capacity();

/// The share of the GPU from which the scores of one layer are to blame.
const LARGE: f64 = 0.01;

/// The same, where torch chooses the kernel: a fused one requests far less.
const LARGE_FOR_FUSED: f64 = 0.05;

/// How many times the largest tensor that the line works on a request must be: a fused kernel asks for the size of its
/// output, which is that of the queries, and scores are so many times larger from a few hundred tokens on.
const TIMES_OPERANDS: u64 = 8;

/// The share of the GPU from which one request is told although it would have fit otherwise.
const MOST_OF_ANY: f64 = 0.1;

/// The share of allocated memory from which those of all layers are.
const MOST: f64 = 0.25;

fn asks_for_scores(case: &OomContext) -> bool {
    let operands = case.record().and_then(|record| record.operands);
    match (case.requested, operands) {
        (Some(requested), Some(operands)) => {
            requested.0 >= operands.0.saturating_mul(TIMES_OPERANDS)
        }
        _ => false,
    }
}

fn examine(case: &OomContext) -> Option<Finding> {
    match case.phase {
        Phase::Forward | Phase::Backward | Phase::Evaluation | Phase::Unknown => {}
        Phase::Load | Phase::Optimizer => return None,
    }
    let share = case.requested_share();
    // If freeing fragments or another process's memory would have been enough, those are the cause, and so large a request is
    // what they are fatal to.
    let is_full = case.is_full() != Some(false);
    if !is_full && share < Some(MOST_OF_ANY) {
        return None;
    }
    let written = case.stack.doing(Situation::AttentionScores);
    // A message without figures says no more than the line.
    let is_silent = case.requested.is_none();
    let written = written.filter(|_| is_silent || share >= Some(LARGE));
    // What torch's attention asks for beyond the size of what it is given are scores.
    let made = case.stack.doing(Situation::FusedAttention);
    let is_made = share >= Some(LARGE) && asks_for_scores(case);
    let (made, fused) = match is_made {
        true => (made, None),
        false => (None, made.filter(|_| share >= Some(LARGE_FOR_FUSED))),
    };
    let held = case.line_doing(Situation::AttentionScores, MOST);
    let (call, bytes, certainty) = match (held, written.or(made), fused) {
        (Some((call, bytes)), _, _) => (call, Some(bytes), Certainty::Likely),
        (None, Some(call), _) => (call, None, Certainty::Likely),
        // A fused kernel asks for the size of its output, which was there: what is larger than the GPU are scores.
        (None, None, Some(call)) if share > Some(1.0) => (call, None, Certainty::Likely),
        (None, None, Some(call)) => (call, None, Certainty::Possible),
        (None, None, None) => return None,
    };
    let is_torchs = held.is_none() && written.is_none();
    let certainty = match is_full && !is_silent {
        true => certainty,
        false => Certainty::Possible,
    };
    let what = "Attention keeps its scores as a matrix";
    let headline = match (bytes, case.asked()) {
        (Some(bytes), _) => with_figures(what, format!("{bytes} in all")),
        (None, Some(asked)) => with_figures(what, format!("{asked} for one")),
        (None, None) => format!("{what}.").into(),
    };
    let fell_back = is_torchs.then_some(
        "PyTorch's attention makes it if no fused kernel takes its inputs: fp32, a mask of its own, heads of an odd size.",
    );
    let kernel = (!is_torchs).then(|| {
        because(
            "a fused kernel",
            "F.scaled_dot_product_attention; attn_implementation=\"sdpa\" or \"flash_attention_2\"",
        )
    });
    Some(
        case.finding(Cause::AttentionScores, certainty, headline)
            .says("It is batch × heads × length × length, so twice the length needs four times as much; each layer keeps its own.")
            .says_if(fell_back)
            .says(format!("It is {}.", call.shown()))
            .says_if(case.failed())
            .shows(bytes.map(|bytes| ("scores", bytes)))
            .advises(kernel.into_iter().chain([
                because("what fused kernels take", "bf16 or fp16, is_causal=True instead of a mask, no attention weights asked for"),
                "shorter sequences, or a smaller batch".into(),
            ]))
            .at(case.stack.own().map(|call| call.source()).as_ref()),
    )
}
