//! A checkpoint was gathered in RAM: a process of the training grew fast while it saved, or an allocation was refused there.

use super::finding::{because, with_figures};
use super::host_figures::HostFigures;
use super::oom_context::OomContext;
use super::situation::Situation;
use super::{Cause, CauseSpec, Certainty, Finding, Phrase};
use crate::event::HostActivity;
use crate::oom::OomKind;

pub(super) const CAUSE: CauseSpec =
    CauseSpec::new("a checkpoint in RAM", examine).of_host("a checkpoint is gathered in RAM");

fn examine(case: &OomContext) -> Option<Finding> {
    let Some(figures) = HostFigures::of(case) else {
        return by_its_traceback(case);
    };
    let what = "A checkpoint was gathered in RAM";
    figures
        .grown_by(HostActivity::Checkpoint, Cause::CheckpointInRam, what)
        .map(|finding| finding.advises(advice(figures.more_memory())))
}

fn advice(more_memory: Phrase) -> [Phrase; 3] {
    [
        because(
            "a sharded checkpoint: torch.distributed.checkpoint, or FSDP's SHARDED_STATE_DICT",
            "each rank writes its own part, and none has all of it in RAM",
        ),
        "not on all ranks at a time, and no copy of the state dict kept from the last one".into(),
        more_memory,
    ]
}

/// An error of the program's own, where nobody saw the host's memory.
fn by_its_traceback(case: &OomContext) -> Option<Finding> {
    if case.kind != OomKind::HostOom {
        return None;
    }
    let call = case.stack.doing(Situation::CheckpointSaving)?;
    let what = "RAM ran out while a checkpoint was put together there";
    let headline = match case.asked() {
        Some(asked) => with_figures(what, asked),
        None => Phrase::from(format!("{what}.")),
    };
    let finding = case.finding(Cause::CheckpointInRam, Certainty::Certain, headline);
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
