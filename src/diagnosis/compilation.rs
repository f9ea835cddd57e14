//! torch.compile: its trials of kernels while it tunes itself, and the private pools of the CUDA graphs that it records.

use super::finding::{because, with_figures};
use super::oom_context::OomContext;
use super::situation::Situation;
use super::{Cause, CauseSpec, Certainty, Finding, Phrase};

pub(super) const CAUSE: CauseSpec = CauseSpec::new("torch.compile", examine).explains_capacity();

fn examine(case: &OomContext) -> Option<Finding> {
    let tunes = case.stack.doing(Situation::Autotuning);
    let records = case.stack.doing(Situation::GraphCapture);
    let call = tunes.or(records)?;
    let (what, says, advice) = match tunes {
        Some(_) => (
            "Compiling with autotuning ran out while it tried out kernels",
            "Autotuning allocates inputs and outputs of its own for each kernel, beside the step that runs.",
            because(
                "no autotuning",
                "mode=\"default\", or TORCHINDUCTOR_MAX_AUTOTUNE=0",
            ),
        ),
        None => (
            "A CUDA graph did not fit while it was recorded",
            "A CUDA graph has a private pool, which nothing else can use; each shape of the input has a graph of its own.",
            because(
                "no CUDA graphs",
                "mode=\"default\" or \"max-autotune-no-cudagraphs\"",
            ),
        ),
    };
    let figures = match (case.asked(), case.allocated) {
        (Some(asked), Some(allocated)) => Some(format!("{asked} with {allocated} allocated")),
        (asked, _) => asked,
    };
    let headline = match figures {
        Some(figures) => with_figures(what, figures),
        None => Phrase::from(format!("{what}.")),
    };
    let pools = case
        .oom
        .report
        .as_ref()
        .and_then(|report| report.private_pools);
    Some(
        case.finding(Cause::Compilation, Certainty::Likely, headline)
            .says(says)
            .says(format!("It is {}.", call.shown()))
            .says_if(pools.map(|bytes| format!("{bytes} is in private pools.")))
            .shows(pools.map(|bytes| ("private pools", bytes)))
            .advises([
                advice,
                because("fewer shapes", "pad to a few lengths, or dynamic=True"),
                "a smaller batch".into(),
            ]),
    )
}
