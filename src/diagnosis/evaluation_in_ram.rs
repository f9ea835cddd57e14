//! An evaluation keeps its outputs in RAM: a process of the training grew fast while it evaluated.

use super::finding::because;
use super::host_figures::HostFigures;
use super::oom_context::OomContext;
use super::{Cause, CauseSpec, Finding};
use crate::event::HostActivity;

pub(super) const CAUSE: CauseSpec = CauseSpec::new("an evaluation in RAM", examine)
    .of_host("an evaluation keeps its outputs in RAM");

fn examine(case: &OomContext) -> Option<Finding> {
    let figures = HostFigures::of(case)?;
    let advice = [
        because(
            "metrics batch by batch, not outputs kept for all of the evaluation",
            "in transformers' Trainer: preprocess_logits_for_metrics, batch_eval_metrics",
        ),
        figures.more_memory(),
    ];
    let what = "An evaluation kept its outputs in RAM";
    figures
        .grown_by(HostActivity::Evaluation, Cause::EvaluationInRam, what)
        .map(|finding| finding.advises(advice))
}
