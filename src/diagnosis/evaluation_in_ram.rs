//! An evaluation keeps its outputs in RAM: a process of the training grew fast while it evaluated, or an allocation was refused
//! there.

use super::finding::{because, with_figures};
use super::host_figures::HostFigures;
use super::oom_context::OomContext;
use super::situation::Situation;
use super::{Cause, CauseSpec, Certainty, Finding, Phrase};
use crate::event::HostActivity;
use crate::oom::OomKind;

pub(super) const CAUSE: CauseSpec = CauseSpec::new("an evaluation in RAM", examine)
    .of_host("an evaluation keeps its outputs in RAM");

fn examine(case: &OomContext) -> Option<Finding> {
    let Some(figures) = HostFigures::of(case) else {
        return by_its_traceback(case);
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

/// An error of the program's own, where nobody saw the host's memory.
fn by_its_traceback(case: &OomContext) -> Option<Finding> {
    if case.kind != OomKind::HostOom {
        return None;
    }
    let call = case.stack.doing(Situation::Gathering)?;
    let what = "RAM ran out while an evaluation put its outputs together there";
    let headline = match case.asked() {
        Some(asked) => with_figures(what, asked),
        None => Phrase::from(format!("{what}.")),
    };
    let finding = case.finding(Cause::EvaluationInRam, Certainty::Certain, headline);
    Some(
        Finding {
            // The GPU's numbers are irrelevant here.
            evidence: Vec::new(),
            ..finding
        }
        .says(format!("It is {}.", call.shown()))
        .advises(advice(
            "more RAM, or a larger limit for the job or container".into(),
        ))
        .at(case.stack.own().map(|call| call.source()).as_ref()),
    )
}
