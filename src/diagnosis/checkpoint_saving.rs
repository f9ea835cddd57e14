//! A checkpoint that is put together on the GPU: a full state dict gathered of its shards, or a copy of the parameters.

use super::finding::{because, with_figures};
use super::oom_context::OomContext;
use super::situation::Situation;
use super::{Cause, CauseSpec, Certainty, Finding, LittleUse, Phrase};

pub(super) const CAUSE: CauseSpec = CauseSpec::new("checkpoint gathered on the GPU", examine)
    .explains_capacity()
    .ineffective_against(
        LittleUse::UnlikelyToHelp,
        "what is saved does not depend on the batch",
    );

fn examine(case: &OomContext) -> Option<Finding> {
    let saves = case.stack.doing(Situation::CheckpointSaving)?;
    let figures = match (case.allocated, case.asked()) {
        (Some(allocated), Some(asked)) => Some(format!("{asked} beside {allocated} allocated")),
        (_, asked) => asked,
    };
    let what = "Saving a checkpoint needs a copy on the GPU";
    let headline = match figures {
        Some(figures) => with_figures(what, figures),
        None => Phrase::from(format!("{what}.")),
    };
    let own = case.stack.own().unwrap_or(saves).source();
    let finding = case
        .finding(Cause::CheckpointSaving, Certainty::Likely, headline)
        .says("A full state dict is gathered, or parameters are cloned, before they are written; training itself had fit.")
        .advises([
            because("a sharded state dict", "FSDP: SHARDED_STATE_DICT; torch.distributed.checkpoint"),
            because(
                "offload while gathering",
                "StateDictOptions(full_state_dict=True, cpu_offload=True); DeepSpeed: stage3_gather_16bit_weights_on_model_save off",
            ),
            because("copy to RAM piece by piece", "{name: value.cpu() for name, value in model.state_dict().items()}"),
            because("free the last step first", "optimizer.zero_grad(set_to_none=True); torch.cuda.empty_cache()"),
        ]);
    Some(finding.at(Some(&own)))
}
