//! A checkpoint that is read onto the GPU: `torch.load` puts its tensors back where they were saved, beside the model and the
//! optimizer that they are copied into.

use super::finding::{because, with_figures};
use super::oom_context::OomContext;
use super::situation::Situation;
use super::{Cause, CauseSpec, Certainty, Finding, LittleUse, Phrase};

pub(super) const CAUSE: CauseSpec = CauseSpec::new("checkpoint loaded onto the GPU", examine)
    .explains_capacity()
    .ineffective_against(
        LittleUse::UnlikelyToHelp,
        "the checkpoint is loaded before the first batch",
    );

fn examine(case: &OomContext) -> Option<Finding> {
    let optimizers = case.stack.doing(Situation::OptimizerLoading);
    let loads = optimizers.or_else(|| case.stack.doing(Situation::CheckpointLoading))?;
    let figures = match (case.allocated, case.asked()) {
        (Some(allocated), Some(asked)) => Some(format!("{asked} beside {allocated} allocated")),
        (_, asked) => asked,
    };
    let what = match optimizers {
        Some(_) => "The optimizer's state of a checkpoint does not fit beside what is on the GPU",
        None => "A checkpoint is loaded onto the GPU beside what is there",
    };
    let headline = match figures {
        Some(figures) => with_figures(what, figures),
        None => Phrase::from(format!("{what}.")),
    };
    let says = match optimizers {
        Some(_) => {
            "Loading copies the state to the parameters' device while the checkpoint's own copy is still there."
        }
        None => "By default torch.load puts each tensor on the GPU from which it was saved.",
    };
    let several = case.oom.rank.is_some().then_some(
        "Every rank does so: a checkpoint saved on GPU 0 is loaded onto GPU 0 by all of them.",
    );
    let finding = case
        .finding(Cause::CheckpointLoading, Certainty::Likely, headline)
        .says(says)
        .says_if(several)
        .advises([
            because(
                "torch.load with map_location=\"cpu\"",
                "load_state_dict copies to the GPU",
            ),
            because(
                "mmap=True as well",
                "a large file isn't read into RAM first",
            ),
            "del the checkpoint when it has been copied, before the first step".into(),
        ]);
    let own = case.stack.own().unwrap_or(loads).source();
    Some(finding.at(Some(&own)))
}
