//! An evaluation that keeps its outputs on the GPU: Trainer's own gathering, torchmetrics' states, a program's own lists. What
//! is kept grows with each batch of the evaluation. It is told apart from an evaluation that builds graphs, whose outputs keep
//! their activations too.

use super::finding::with_figures;
use super::oom_context::OomContext;
use super::situation::{Situation, StackCall};
use super::{Cause, CauseSpec, Certainty, Finding, LittleUse, Phrase};
use crate::event::{Phase, Retainer, RetainerKind};
use crate::units::Bytes;

pub(super) const CAUSE: CauseSpec = CauseSpec::new("evaluation keeps its outputs", examine)
    .explains_capacity()
    .ineffective_against(
        LittleUse::UnlikelyToHelp,
        "what an evaluation keeps of each batch adds up",
    );

/// The share of allocated memory from which what a container keeps is to blame.
const NOTABLE: f64 = 0.2;

/// A container with fewer things in it keeps no evaluation's outputs.
const FEWEST: u64 = 3;

/// Who puts the outputs together.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gatherer {
    Trainer,
    Accelerate,
    Torchmetrics,
    Program,
}

fn examine(case: &OomContext) -> Option<Finding> {
    let gathers = case.stack.doing(Situation::Gathering);
    let kept = case.retainer().filter(|kept| is_a_collection(case, kept));
    let is_evaluation = match case.record() {
        Some(record) => {
            let without_graphs = record.grad_enabled != Some(true) || gathers_without_graphs(case);
            record.phase == Phase::Evaluation && without_graphs
        }
        None => gathers.is_some(),
    };
    if !is_evaluation || (gathers.is_none() && kept.is_none()) {
        return None;
    }
    let by = gathers.map_or(Gatherer::Program, |call| gatherer(&call));
    let by = match by {
        // Trainer has the outputs gathered by it.
        Gatherer::Accelerate if case.stack.is_through("transformers/trainer") => Gatherer::Trainer,
        by => by,
    };
    let certainty = match (case.record(), gathers) {
        (Some(_), Some(_)) if by != Gatherer::Program => Certainty::Certain,
        (_, _) => Certainty::Likely,
    };
    let finding = case
        .finding(Cause::EvaluationOutputs, certainty, headline(case))
        .says(match by {
            Gatherer::Trainer => "Trainer puts the outputs of all batches together on the GPU, until the evaluation ends.",
            Gatherer::Accelerate => "The outputs of all ranks and batches are gathered on each GPU.",
            Gatherer::Torchmetrics => "The metric keeps all predictions and targets on the GPU until it is computed.",
            Gatherer::Program => "Outputs of earlier batches are still on the GPU, and each batch adds its own.",
        })
        .says_if(case.failed())
        .kept_by(kept)
        .advises(advice(by));
    let own = case.stack.own().map(|call| call.source());
    Some(match by {
        Gatherer::Program => finding.at(kept.and_then(|kept| kept.line.as_ref()).or(own.as_ref())),
        Gatherer::Trainer | Gatherer::Accelerate | Gatherer::Torchmetrics => finding,
    })
}

/// Whether a library puts outputs together that keep no graphs. Then it does not count that gradients are enabled:
/// transformers (5.x) calls the model without them, and puts the outputs together outside of that.
pub(super) fn gathers_without_graphs(case: &OomContext) -> bool {
    let gathers = case.stack.doing(Situation::Gathering);
    let by_library = gathers.is_some_and(|call| gatherer(&call) != Gatherer::Program);
    by_library
        && case
            .retainer()
            .is_some_and(|kept| kept.graph == Bytes::ZERO)
}

/// Whether an evaluation has kept more than lies in the cache: what is cached in pieces then is the rest that it left, and another
/// allocator would only delay the end.
pub(super) fn outweighs_the_cache(case: &OomContext) -> bool {
    let Some(record) = case.record().filter(|it| it.phase == Phase::Evaluation) else {
        return false;
    };
    let since_the_step = || {
        let (_, baseline) = case.rank?.steps.baselines.last()?;
        (record.grad_enabled == Some(true)).then_some(case.allocated? - *baseline)
    };
    let kept = match case.retainer() {
        Some(retainer) => Some(retainer.bytes),
        None => since_the_step(),
    };
    kept.zip(case.cached)
        .is_some_and(|(kept, cached)| kept > cached)
}

/// Whether something with a name keeps several outputs of an evaluation.
fn is_a_collection(case: &OomContext, kept: &Retainer) -> bool {
    let much = case
        .allocated
        .and_then(|allocated| kept.bytes.fraction_of(allocated));
    // What belongs to a call of the model that still runs is of this batch alone: the hidden states of its layers, say.
    let is_of_this_call = kept.kind == RetainerKind::Local && case.stack.is_in_a_module(&kept.of);
    !is_of_this_call
        && kept.length >= Some(FEWEST)
        && kept.graph == Bytes::ZERO
        && much >= Some(NOTABLE)
}

fn gatherer(call: &StackCall<'_>) -> Gatherer {
    let is_in = |part: &str| call.file.contains(part);
    match () {
        () if is_in("transformers") => Gatherer::Trainer,
        () if is_in("accelerate") => Gatherer::Accelerate,
        () if is_in("torchmetrics") => Gatherer::Torchmetrics,
        () => Gatherer::Program,
    }
}

fn headline(case: &OomContext) -> Phrase {
    let baseline = case.rank.and_then(|rank| rank.steps.baselines.last());
    let figures = match (baseline, case.allocated) {
        (Some((_, baseline)), Some(allocated)) if *baseline < allocated => Some(format!(
            "{} on top of the {baseline} allocated after a training step",
            allocated - *baseline
        )),
        (_, Some(allocated)) => Some(format!("{allocated} allocated")),
        (_, None) => case.asked(),
    };
    match figures {
        Some(figures) => with_figures("Evaluation keeps its outputs on the GPU", figures),
        None => "Evaluation keeps its outputs on the GPU.".into(),
    }
}

fn advice(by: Gatherer) -> Vec<Phrase> {
    let said: &[&str] = match by {
        Gatherer::Trainer => &[
            "--eval_accumulation_steps 1: outputs go to RAM after each batch, which must hold them all",
            "preprocess_logits_for_metrics that keeps only the argmax: outputs are as small as the labels",
            "--prediction_loss_only, if no metric needs the outputs",
            "a smaller --per_device_eval_batch_size",
        ],
        Gatherer::Accelerate => &[
            "gather what the metric needs (the argmax), not the logits, and .cpu() it after each batch",
            "a smaller batch for the evaluation",
        ],
        Gatherer::Torchmetrics => &[
            "a metric that keeps sums: thresholds=200 for curves, AUROC and average precision",
            "compute_on_cpu=True in the metric",
        ],
        Gatherer::Program => &[
            ".cpu() on what is kept of each batch, or only the argmax or the metric's sums",
            "a smaller batch for the evaluation delays it",
        ],
    };
    said.iter().map(|said| Phrase::from(*said)).collect()
}
