//! Workers of a DataLoader that use the GPU: each has a CUDA context of its own, and a copy of what its dataset puts there
//! (`img.cuda()` in `__getitem__`, an encoder that extracts features, a default device). Known by the worker's own traceback,
//! or by which processes have memory on the GPU while another one runs out.

use super::finding::with_figures;
use super::foreign_process;
use super::oom_context::OomContext;
use super::situation::Situation;
use super::{Cause, CauseSpec, Certainty, Finding, LittleUse, Phrase};

pub(super) const CAUSE: CauseSpec = CauseSpec::new("DataLoader workers use the GPU", examine)
    .explains_capacity()
    .ineffective_against(
        LittleUse::UnlikelyToHelp,
        "each worker keeps its context and its own tensors",
    );

fn examine(case: &OomContext) -> Option<Finding> {
    in_the_worker(case).or_else(|| {
        foreign_process::named(case).filter(|finding| finding.cause == Cause::GpuInWorkers)
    })
}

/// The worker itself ran out: who else is on the GPU does not count then.
fn in_the_worker(case: &OomContext) -> Option<Finding> {
    case.stack.doing(Situation::LoaderWorker)?;
    let own = case
        .allocated
        .map(|own| format!("{own} by the one that failed"));
    let theirs = case
        .other_processes
        .map(|theirs| format!("{theirs} by other processes"));
    let figures: Vec<String> = own.into_iter().chain(theirs).collect();
    let what = "A DataLoader worker puts tensors on the GPU";
    let headline = match figures.is_empty() {
        true => Phrase::from(format!("{what}.")),
        false => with_figures(what, figures.join(", ")),
    };
    let own = case.stack.own();
    Some(
        case.finding(Cause::GpuInWorkers, Certainty::Likely, headline)
            .says(foreign_process::EACH_WORKER)
            .says_if(own.map(|call| format!("It is {}.", call.shown())))
            .advises(foreign_process::of_workers())
            .at(own.map(|call| call.source()).as_ref()),
    )
}
