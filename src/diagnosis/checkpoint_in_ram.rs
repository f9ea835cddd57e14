//! A checkpoint was gathered in RAM: a process of the training grew fast while it saved, or an allocation was refused there.

use super::finding::because;
use super::host_figures::{HostFigures, MORE_RAM, refused_while};
use super::oom_context::OomContext;
use super::situation::Situation;
use super::{Cause, CauseSpec, Finding, Phrase};
use crate::event::HostActivity;

pub(super) const CAUSE: CauseSpec =
    CauseSpec::new("a checkpoint in RAM", examine).of_host("a checkpoint is gathered in RAM");

fn examine(case: &OomContext) -> Option<Finding> {
    let Some(figures) = HostFigures::of(case) else {
        let what = "RAM ran out while a checkpoint was put together there";
        let refused = refused_while(
            case,
            Situation::CheckpointSaving,
            Cause::CheckpointInRam,
            what,
        );
        return refused.map(|finding| finding.advises(advice(MORE_RAM.into())));
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
