//! The host's memory ran out, not the device's: nothing that is changed on the GPU helps.

use super::finding::with_figures;
use super::host_figures::{HostFigures, out_of_sight};
use super::oom_context::OomContext;
use super::{Cause, CauseSpec, Certainty, Finding, Phrase};
use crate::oom::{OomKind, OomSign};

pub(super) const CAUSE: CauseSpec =
    CauseSpec::new("host memory", examine).of_host("host memory ran out, not GPU memory");

const ADVICE: [&str; 2] = [
    "fewer DataLoader workers, or a smaller prefetch_factor",
    "a larger memory limit for the job or container, or a larger /dev/shm",
];

/// What helps where a process could not be started.
const FORK_ADVICE: [&str; 2] = [
    "start workers before the program has grown, or with multiprocessing_context=\"forkserver\"",
    "sysctl vm.overcommit_memory=1, or swap, where the kernel counts what a fork might need",
];

/// Whether an allocation was refused: nothing was killed.
fn is_refused(case: &OomContext) -> bool {
    // Only an allocator that was refused says how much it wanted; what the kernel kills says nothing.
    case.requested.is_some() || matches!(case.host_sign(), Some(OomSign::Refused | OomSign::Fork))
}

fn fork_advice(case: &OomContext) -> Vec<Phrase> {
    match case.host_sign() {
        Some(OomSign::Fork) => FORK_ADVICE.map(Phrase::from).to_vec(),
        _ => Vec::new(),
    }
}

/// How it ended.
fn how(case: &OomContext) -> &'static str {
    match (case.host_sign(), is_refused(case)) {
        (Some(OomSign::Fork), _) => {
            "The kernel refused memory to a call, most often to start a process: a fork may come to need as much as its parent has. Nothing was killed."
        }
        (Some(OomSign::Killed), _) => {
            "The kernel's OOM killer does that, or the job's memory limit (dmesg says so); a scheduler or a person may have as well."
        }
        (Some(OomSign::Gone), _) => {
            "What else ends a worker is a crash in C code (PYTHONFAULTHANDLER=1 names its line); num_workers=0 shows an error of its own."
        }
        (_, true) => {
            "An allocation on the host was refused: no memory is left, or a limit (ulimit -v, the job's) was reached. Nothing was killed."
        }
        (_, false) => {
            "The kernel's OOM killer, the job's memory limit or a full /dev/shm ended it."
        }
    }
}

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
        let is_refused = is_refused(case);
        return Some(
            figures
                .finding(Cause::HostMemory, Certainty::Certain, &what)
                .says_if(is_refused.then(|| how(case)))
                .advises(fork_advice(case).into_iter().chain(advice)),
        );
    }
    let is_gone = case.host_sign() == Some(OomSign::Gone);
    // Nothing but the signal is known: the kernel sends it, and so may a scheduler or a person.
    let is_killed = case.host_sign() == Some(OomSign::Killed);
    let headline = match case.requested {
        None if is_killed => {
            "SIGKILL ended a process: most often the host's memory ran out, not the GPU's.".into()
        }
        None if is_gone => {
            "A worker is gone, it is not said why: most often the host's memory ran out.".into()
        }
        Some(requested) => with_figures(
            "The host ran out of memory, not the GPU",
            format!("{requested} requested"),
        ),
        None => "The host ran out of memory, not the GPU.".into(),
    };
    let certainty = match (is_gone, is_killed) {
        (true, _) => Certainty::Possible,
        (false, true) => Certainty::Likely,
        (false, false) => Certainty::Certain,
    };
    let finding = Finding {
        // The GPU's numbers are irrelevant here.
        evidence: Vec::new(),
        ..case.finding(Cause::HostMemory, certainty, headline)
    };
    Some(
        finding.says(how(case)).says_if(out_of_sight(case)).advises(
            fork_advice(case)
                .into_iter()
                .chain(ADVICE.map(Phrase::from)),
        ),
    )
}
