//! One out-of-memory through all rules: the findings, the most certain first.

use super::case::Case;
use super::{CAUSES, Cause, Certainty, Finding, host_memory, unexplained};
use crate::oom::OomKind;
use crate::state::{OomIncident, Run, State};

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
    if case.kind == OomKind::HostOom {
        return host_memory::examine(&case).into_iter().collect();
    }
    let mut findings: Vec<Finding> = CAUSES
        .iter()
        .filter_map(|spec| (spec.examine)(&case))
        .collect();
    if findings.is_empty() {
        findings.push(unexplained::nothing_else(&case));
    }
    let particular = findings.iter().any(|finding| {
        finding.cause.spec().explains_capacity && finding.certainty >= Certainty::Likely
    });
    if particular {
        // A leak, too, ends with a full GPU: that it does not fit then follows from the
        // particular cause and does not stand before it.
        for finding in &mut findings {
            if finding.cause == Cause::Capacity {
                finding.certainty = finding.certainty.min(Certainty::Likely);
            }
        }
    }
    if case.far_too_much().is_some() {
        // Whatever else took memory: without it the step would not fit either.
        for finding in &mut findings {
            if finding.cause != Cause::Capacity && finding.cause != Cause::Limit {
                finding.certainty = finding.certainty.min(Certainty::Likely);
            }
        }
    }
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.certainty));
    findings
}
