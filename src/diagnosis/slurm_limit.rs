//! SLURM's limit of the job's memory was reached, and nobody is known to have filled it.

use super::host_figures::HostFigures;
use super::oom_context::OomContext;
use super::{Cause, CauseSpec, Certainty, Finding, Phrase};
use crate::event::LimitedBy;
use crate::oom::OomSign;

pub(super) const CAUSE: CauseSpec =
    CauseSpec::new("the job's memory limit", examine).of_host("the job's memory limit was reached");

fn examine(case: &OomContext) -> Option<Finding> {
    let figures = HostFigures::of(case);
    let by_figures = figures
        .as_ref()
        .is_some_and(|figures| figures.memory.limited_by == LimitedBy::Slurm);
    if !by_figures && case.host_sign() != Some(OomSign::Slurm) {
        return None;
    }
    let more: Phrase = match &figures {
        Some(figures) if by_figures => figures.more_memory(),
        Some(_) | None => "more memory for the job: sbatch --mem=SIZE".into(),
    };
    let what = "The SLURM job reached its memory limit";
    let finding = HostFigures::of_or_text(case, Cause::SlurmLimit, Certainty::Certain, what);
    Some(finding.advises([
        more,
        "sacct -j JOB --format=JobID,State,ReqMem,MaxRSS says what was asked for and what was used"
            .into(),
        "fewer DataLoader workers, or a smaller prefetch_factor".into(),
    ]))
}
