//! An evaluation keeps its outputs in RAM: a process of the training grew fast while it evaluated, or an allocation was refused
//! there.

use super::finding::because;
use super::host_figures::{HostFigures, MORE_RAM, refused_while};
use super::oom_context::OomContext;
use super::situation::Situation;
use super::{Cause, CauseSpec, Finding, Phrase};
use crate::event::HostActivity;

pub(super) const CAUSE: CauseSpec = CauseSpec::new("an evaluation in RAM", examine)
    .of_host("an evaluation keeps its outputs in RAM");

fn examine(case: &OomContext) -> Option<Finding> {
    let Some(figures) = HostFigures::of(case) else {
        let what = "RAM ran out while an evaluation put its outputs together there";
        let refused = refused_while(case, Situation::Gathering, Cause::EvaluationInRam, what);
        return refused.map(|finding| finding.advises(advice(MORE_RAM.into())));
    };
    let what = "An evaluation kept its outputs in RAM";
    figures
        .grown_by(HostActivity::Evaluation, Cause::EvaluationInRam, what)
        .map(|finding| finding.advises(advice(figures.more_memory())))
}

fn advice(more_memory: Phrase) -> [Phrase; 2] {
    [
        because(
            "metrics batch by batch, not outputs kept for all of the evaluation",
            "in transformers' Trainer: preprocess_logits_for_metrics, batch_eval_metrics",
        ),
        more_memory,
    ]
}
