//! Logits of a large vocabulary: batch × length × vocabulary, several times over (the head's output, its copy in fp32, the
//! log-softmax, and the gradients of each), which may be more than all layers together keep.

use super::finding::{because, with_figures};
use super::oom_context::OomContext;
use super::situation::{CallStack, Situation, StackCall};
use super::{Cause, CauseSpec, Certainty, Finding};
use crate::event::Phase;
use crate::units::Bytes;

pub(super) const CAUSE: CauseSpec = CauseSpec::new("large logits", examine).explains_capacity();

/// The share of the GPU from which one tensor of logits is to blame.
const LARGE: f64 = 0.04;

/// The share of the GPU from which one request is told although it would have fit otherwise.
const MOST_OF_ANY: f64 = 0.1;

/// The share of allocated memory from which those of a line are.
const MOST: f64 = 0.3;

fn examine(case: &OomContext) -> Option<Finding> {
    match case.phase {
        Phase::Forward | Phase::Backward | Phase::Unknown => {}
        Phase::Load | Phase::Optimizer | Phase::Evaluation => return None,
    }
    // If freeing fragments or another process's memory would have been enough, those are the cause, and so large a request is
    // what they are fatal to.
    let is_full = case.is_full() != Some(false);
    if !is_full && case.requested_share() < Some(MOST_OF_ANY) {
        return None;
    }
    let fails = case.stack.doing(Situation::Logits);
    let failing = fails.filter(|_| case.requested_share() >= Some(LARGE));
    let held = case.line_doing(Situation::Logits, MOST);
    let (call, bytes) = match (failing, held) {
        (_, Some((call, bytes))) => (call, Some(bytes)),
        (Some(call), None) => (call, None),
        (None, None) => return None,
    };
    let what = "The logits and their loss do not fit";
    let headline = match (bytes, case.asked(), case.allocated) {
        (Some(bytes), _, Some(allocated)) => {
            with_figures(what, format!("{bytes} of the {allocated} allocated"))
        }
        (_, Some(asked), Some(allocated)) => {
            with_figures(what, format!("{asked} with {allocated} allocated"))
        }
        (_, Some(asked), None) => with_figures(what, asked),
        (_, None, _) => format!("{what}.").into(),
    };
    Some(
        case.finding(Cause::LargeLogits, Certainty::likely_if(is_full), headline)
            .says("Logits are batch × length × vocabulary: with the copy in fp32, the log-softmax and their gradients they exist up to four times.")
            .says(format!("It is {}.", call.shown()))
            .says_if(case.failed())
            .shows(bytes.map(|bytes| ("logits and loss", bytes)))
            .advises([
                because("a loss that never makes all logits", own_switch(case)),
                "a smaller batch or shorter sequences: logits shrink in proportion".into(),
                because("no copy in fp32", "drop .float() on logits; cross_entropy sums in fp32 itself"),
            ])
            .at(case.stack.own().map(|call| call.source()).as_ref()),
    )
}

/// How the program that is on the stack is told to fuse the loss with the head; one that is built upon others comes first.
const SWITCHES: [(&[&str], &str); 8] = [
    (
        &["/axolotl/"],
        "in the YAML plugins: [axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin] and cut_cross_entropy: true, or LigerPlugin with liger_fused_linear_cross_entropy: true",
    ),
    (
        &["/llamafactory/", "/llmtuner/"],
        "enable_liger_kernel: true in the YAML",
    ),
    (
        &["/verl/"],
        "actor_rollout_ref.model.use_fused_kernels=True",
    ),
    (&["/openrlhf/"], "--use_liger_kernel"),
    (
        &["/torchtune/"],
        "LinearCrossEntropyLoss: loss=torchtune.modules.loss.LinearCrossEntropyLoss",
    ),
    (
        &["/megatron/", "/Megatron-LM/"],
        "--cross-entropy-loss-fusion, and more --tensor-model-parallel-size",
    ),
    (
        &["/trl/trainer/"],
        "--use_liger_kernel; TRL's SFT also --loss_type chunked_nll",
    ),
    (&["/transformers/trainer"], "--use_liger_kernel"),
];

const OF_ANY: &str = "liger_kernel's or cut_cross_entropy's; torch 2.13 and later: torch.nn.functional.linear_cross_entropy with options";

fn own_switch(case: &OomContext) -> &'static str {
    let is_there = |files: &[&str]| files.iter().any(|part| case.stack.is_through(part));
    let of_program = SWITCHES.iter().find(|(files, _)| is_there(files));
    of_program.map_or(OF_ANY, |(_, switch)| switch)
}

impl<'a> OomContext<'a> {
    /// What was requested, as a share of the GPU.
    pub(super) fn requested_share(&self) -> Option<f64> {
        self.requested?.fraction_of(self.capacity?)
    }

    /// The program's line with the most live memory, if it does this and has at least a share of what is allocated.
    pub(super) fn line_doing(
        &self,
        situation: Situation,
        least: f64,
    ) -> Option<(StackCall<'a>, Bytes)> {
        let usage = self.record()?.lines.first()?;
        let much = usage.bytes.fraction_of(self.allocated?)? >= least;
        let calls = CallStack::of_lines(usage.inside.iter().chain([&usage.line]));
        Some((calls.doing(situation).filter(|_| much)?, usage.bytes))
    }
}
