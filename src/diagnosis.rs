//! State to findings: what ran out of memory and why, with the numbers it rests on.
//!
//! One cause, one file, one small rule: `examine` gets a case (an incident and the numbers around
//! it) and answers with a finding or with nothing. A rule that lacks a number says so or stays
//! silent; none guesses. Pure: the same recording gives the same findings.

mod advice;
mod capacity;
mod case;
mod climb;
mod device_fault;
mod evaluation_graph;
mod finding;
mod forecast;
mod foreign_process;
mod fragmentation;
mod host_memory;
mod leak;
mod limit;
mod non_pytorch;
mod odd_batch;
mod optimizer_state;
#[cfg(test)]
mod tests;
mod thrashing;
mod watch;

pub use climb::{Climb, climb};
pub use finding::{Cause, Certainty, Evidence, Finding};
pub use forecast::{Forecast, forecast};
pub use watch::{Watch, warnings};

use crate::oom::Kind;
use crate::state::{OomIncident, Run, State};
use case::Case;

/// The rules. Of two findings that are equally sure the earlier stands first: what somebody did
/// from outside, then the particular causes, then that it is simply too much.
const RULES: [fn(&Case) -> Option<Finding>; 11] = [
    device_fault::examine,
    limit::examine,
    foreign_process::examine,
    leak::examine,
    evaluation_graph::examine,
    optimizer_state::examine,
    odd_batch::examine,
    fragmentation::examine,
    non_pytorch::examine,
    capacity::examine,
    thrashing::examine,
];

/// What explains the current run's decisive out-of-memory, the most certain first; nothing while
/// there is none.
pub fn diagnose(state: &State) -> Vec<Finding> {
    match state.run().and_then(|run| Some((run, run.oom()?))) {
        Some((run, oom)) => diagnose_incident(state, Some(run), oom),
        None => Vec::new(),
    }
}

/// What explains one out-of-memory. A text alone does as well: an empty state and no run.
pub fn diagnose_incident(state: &State, run: Option<&Run>, oom: &OomIncident) -> Vec<Finding> {
    let case = Case::of(state, run, oom);
    if case.kind == Kind::HostOom {
        return vec![host_memory::examine(&case)];
    }
    let mut findings: Vec<Finding> = RULES.iter().filter_map(|rule| rule(&case)).collect();
    if findings.is_empty() {
        findings.push(capacity::nothing_else(&case));
    }
    let particular = findings
        .iter()
        .any(|finding| is_particular(finding.cause) && finding.certainty >= Certainty::Likely);
    if particular {
        // A leak, too, ends in a card that is full: that it is too much then follows from the
        // particular cause and does not stand before it.
        for finding in &mut findings {
            if finding.cause == Cause::Capacity {
                finding.certainty = finding.certainty.min(Certainty::Likely);
            }
        }
    }
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.certainty));
    findings
}

/// Whether a cause says why it is too much.
fn is_particular(cause: Cause) -> bool {
    match cause {
        Cause::OptimizerState
        | Cause::Leak
        | Cause::EvaluationGraph
        | Cause::OddBatch
        | Cause::NonPytorch => true,
        Cause::Capacity
        | Cause::Fragmentation
        | Cause::ForeignProcess
        | Cause::Limit
        | Cause::Thrashing
        | Cause::HostMemory
        | Cause::DeviceFault => false,
    }
}
