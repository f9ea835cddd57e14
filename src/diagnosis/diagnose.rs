//! Runs one OOM through all rules: the findings, most certain first.

use super::case::OomContext;
use super::{AmongRanks, CAUSES, Cause, Certainty, Finding, host_memory, unexplained};
use crate::oom::OomKind;
use crate::state::{OomIncident, Run, State};

/// What explains the current run's decisive OOM, most certain first; empty without an OOM.
pub fn diagnose(state: &State) -> Vec<Finding> {
    match state.run().and_then(|run| Some((run, run.oom()?))) {
        Some((run, oom)) => diagnose_incident(state, Some(run), oom),
        None => Vec::new(),
    }
}

/// What explains one OOM. A message alone is enough: with an empty state and no run.
pub fn diagnose_incident(state: &State, run: Option<&Run>, oom: &OomIncident) -> Vec<Finding> {
    let mut findings = causes(&OomContext::new(state, run, oom));
    if let Some(first) = findings.first_mut()
        && let Some(ranks) = run.and_then(|run| AmongRanks::of(run, oom))
    {
        first.advice.extend(ranks.advice(first.cause));
        first.ranks = Some(ranks);
    }
    findings
}

fn causes(case: &OomContext) -> Vec<Finding> {
    if case.kind == OomKind::HostOom {
        return host_memory::examine(case).into_iter().collect();
    }
    let mut findings: Vec<Finding> = CAUSES
        .iter()
        .filter_map(|spec| (spec.examine)(case))
        .collect();
    if findings.is_empty() {
        findings.push(unexplained::nothing_else(case));
    }
    let particular = findings.iter().any(|finding| {
        finding.cause.spec().explains_capacity && finding.certainty >= Certainty::Likely
    });
    if particular {
        // A leak also ends with a full GPU: capacity then only follows from the particular cause
        // and must not come first.
        for finding in &mut findings {
            if finding.cause == Cause::Capacity {
                finding.certainty = finding.certainty.min(Certainty::Likely);
            }
        }
    }
    if case.far_too_much().is_some() {
        // The step would not fit even without the memory that something else takes.
        for finding in &mut findings {
            if finding.cause != Cause::Capacity && finding.cause != Cause::Limit {
                finding.certainty = finding.certainty.min(Certainty::Likely);
            }
        }
    }
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.certainty));
    findings
}
