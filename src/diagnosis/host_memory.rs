//! The host's memory ran out, not the device's: nothing that is changed on the GPU helps.

use super::finding::with_figures;
use super::host_figures::{HostFigures, out_of_sight};
use super::oom_context::OomContext;
use super::{Cause, CauseSpec, Certainty, Finding};
use crate::oom::OomKind;

pub(super) const CAUSE: CauseSpec =
    CauseSpec::new("host memory", examine).of_host("host memory ran out, not GPU memory");

const ADVICE: [&str; 2] = [
    "fewer DataLoader workers, or a smaller prefetch_factor",
    "a larger memory limit for the job or container, or a larger /dev/shm",
];

fn examine(case: &OomContext) -> Option<Finding> {
    if case.kind != OomKind::HostOom {
        return None;
    }
    if let Some(figures) = HostFigures::of(case) {
        let what = match case.requested {
            Some(requested) => {
                format!("The host ran out of memory, not the GPU ({requested} requested)")
            }
            None => "The host ran out of memory, not the GPU".into(),
        };
        let advice = [ADVICE[0].into(), figures.more_memory()];
        return Some(
            figures
                .finding(Cause::HostMemory, Certainty::Certain, &what)
                .advises(advice),
        );
    }
    let headline = match case.requested {
        Some(requested) => with_figures(
            "The host ran out of memory, not the GPU",
            format!("{requested} requested"),
        ),
        None => "The host ran out of memory, not the GPU.".into(),
    };
    let finding = Finding {
        // The GPU's numbers are irrelevant here.
        evidence: Vec::new(),
        ..case.finding(Cause::HostMemory, Certainty::Certain, headline)
    };
    // Only an allocator that was refused says how much it wanted; what the kernel kills says nothing.
    let how = match case.requested {
        Some(_) => {
            "An allocation on the host was refused: no memory is left, or a limit (ulimit -v, the job's) was reached. Nothing was killed."
        }
        None => "The kernel's OOM killer, the job's memory limit or a full /dev/shm ended it.",
    };
    Some(
        finding
            .says(how)
            .says_if(out_of_sight(case))
            .advises(ADVICE),
    )
}
