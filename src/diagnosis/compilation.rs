//! torch.compile: its trials of kernels while it tunes itself, and the private pools of the CUDA graphs that it or the program
//! records: by the calls that ran out, or by what PyTorch's message says of the pools.

use super::finding::{because, with_figures};
use super::oom_context::OomContext;
use super::private_pools;
use super::situation::Situation;
use super::{Cause, CauseSpec, Certainty, Finding, Phrase};

pub(super) const CAUSE: CauseSpec =
    CauseSpec::new("compiling or CUDA graphs", examine).explains_capacity();

/// The share of the GPU from which the pools of graphs count that no call was recording.
const NOTABLE_POOLS: f64 = 0.1;

/// The share from which they are the likely cause.
const LARGE_POOLS: f64 = 0.3;

fn examine(case: &OomContext) -> Option<Finding> {
    let tunes = case.stack.doing(Situation::Autotuning);
    let records = case.stack.doing(Situation::GraphCapture);
    let Some(call) = tunes.or(records) else {
        return in_pools(case);
    };
    let by_inductor = case.stack.is_through("torch/_inductor/");
    let (what, says, advice) = match tunes {
        Some(_) if !by_inductor => (
            "Triton's autotuner ran out while it tried a kernel out",
            "Each configuration runs beside the step, with a buffer that empties the GPU's cache between two runs.",
            because(
                "room for the trials",
                "a smaller batch in the first step, where the choice is kept for other batches",
            ),
        ),
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
    let pools = private_pools::sum(case);
    Some(
        case.finding(Cause::Compilation, Certainty::Likely, headline)
            .says(says)
            .says(format!("It is {}.", call.shown()))
            .says_if(private_pools::sentence(case).map(|words| format!("{words}.")))
            .shows(pools.map(|bytes| ("private pools", bytes)))
            .advises([
                advice,
                because("fewer shapes", "pad to a few lengths, or dynamic=True"),
                "a smaller batch".into(),
            ]),
    )
}

/// Graphs were recorded before, and what lies in their pools is missing now.
fn in_pools(case: &OomContext) -> Option<Finding> {
    let pools = private_pools::sum(case)?;
    let (reserved, requested) = (case.reserved?, case.requested?);
    let share = pools.fraction_of(case.capacity?)?;
    let would_do = case.free? + pools >= requested;
    if share < NOTABLE_POOLS || !would_do {
        return None;
    }
    let certainty = match share >= LARGE_POOLS {
        true => Certainty::Likely,
        false => Certainty::Possible,
    };
    let headline = with_figures(
        "CUDA graphs keep memory in pools of their own",
        format!("{pools} of the {reserved} reserved, {requested} requested"),
    );
    Some(
        case.finding(Cause::Compilation, certainty, headline)
            .says("A CUDA graph has a private pool, which nothing else can use; each shape of the input has a graph of its own.")
            .says_if(private_pools::sentence(case).map(|words| format!("{words}.")))
            .says_if(case.failed())
            .shows([("private pools", pools)])
            .advises([
                because("one pool for all graphs", "torch.cuda.graph(..., pool=torch.cuda.graph_pool_handle())"),
                because("fewer shapes", "pad to a few lengths, or dynamic=True"),
                because("no CUDA graphs", "mode=\"default\" of torch.compile, enforce_eager of vLLM"),
            ]),
    )
}
