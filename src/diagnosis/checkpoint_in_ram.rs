//! A checkpoint was gathered in RAM: a process of the training grew fast while it saved.

use super::finding::because;
use super::host_figures::HostFigures;
use super::oom_context::OomContext;
use super::{Cause, CauseSpec, Finding};
use crate::event::HostActivity;

pub(super) const CAUSE: CauseSpec =
    CauseSpec::new("a checkpoint in RAM", examine).of_host("a checkpoint is gathered in RAM");

fn examine(case: &OomContext) -> Option<Finding> {
    let figures = HostFigures::of(case)?;
    let advice = [
        because(
            "a sharded checkpoint: torch.distributed.checkpoint, or FSDP's SHARDED_STATE_DICT",
            "each rank writes its own part, and none has all of it in RAM",
        ),
        "not on all ranks at a time, and no copy of the state dict kept from the last one".into(),
        figures.more_memory(),
    ];
    let what = "A checkpoint was gathered in RAM";
    figures
        .grown_by(HostActivity::Checkpoint, Cause::CheckpointInRam, what)
        .map(|finding| finding.advises(advice))
}
