//! Memory that the program has locked in RAM held most of it: pinned, so that the GPU can copy from it.

use super::host_figures::{Holder, HostFigures};
use super::oom_context::OomContext;
use super::{Cause, CauseSpec, Finding, Help};

pub(super) const CAUSE: CauseSpec = CauseSpec::new("pinned memory", examine)
    .recurs("pinned memory fills the RAM")
    .prefers(Help::LessHostMemory)
    .of_host();

fn examine(case: &OomContext) -> Option<Finding> {
    let figures = HostFigures::of(case)?;
    let Some(Holder::Pinned(locked)) = figures.holder() else {
        return None;
    };
    let what = format!("Pinned memory filled the RAM with {locked}");
    let finding = figures.finding(Cause::PinnedMemory, &what);
    let advice = [
        "pin_memory=False, or a smaller prefetch_factor".into(),
        figures.more_memory(),
    ];
    Some(finding.shows_first([("pinned", locked)]).advises(advice))
}
