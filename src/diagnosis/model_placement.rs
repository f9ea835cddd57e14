//! A model whose loader planned parts of it off the GPU, where what was asked for rules that out: too little was free for all
//! of it, though nothing was allocated in vain. Accelerate plans with what each GPU has free at that moment; for quantized
//! weights transformers leaves a tenth of that out (`adjust_max_memory` of its quantizers).

use super::finding::because;
use super::foreign_process;
use super::oom_context::OomContext;
use super::{Cause, CauseSpec, Certainty, Finding};
use crate::oom::OomKind;

pub(super) const CAUSE: CauseSpec =
    CauseSpec::new("no room for all of the model", examine).explains_capacity();

fn examine(case: &OomContext) -> Option<Finding> {
    (case.kind == OomKind::Placement).then(|| {
        case.finding(
            Cause::ModelPlacement,
            Certainty::Certain,
            "The model does not fit into what is free on the GPU; parts of it were to go to the CPU or the disk.",
        )
        .says("With device_map=\"auto\" each part's place is planned by what is free when the model is loaded; the batch plays no part yet.")
        .says(foreign_process::clause_sentence(case))
        .advises([
            case.see_who_is_there(),
            because("fewer bits for each weight, or a smaller model", "load_in_4bit=True"),
            because("more GPUs", "CUDA_VISIBLE_DEVICES, max_memory"),
            because("all of it on one GPU, where it nearly fits", "device_map={\"\": 0}"),
        ])
    })
}
