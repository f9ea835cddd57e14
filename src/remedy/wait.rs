//! Waiting, if another process is the likely cause.

use super::plan::Expectation;
use super::proposal::{Offering, Proposal};
use crate::diagnosis::{Cause, Certainty, Finding};

pub(super) fn propose(offering: &Offering<'_>) -> Option<Proposal> {
    let inputs = offering.inputs;
    let is_likely = |finding: &&Finding| {
        finding.cause == Cause::OtherProcess && finding.certainty >= Certainty::Likely
    };
    let pid = inputs.findings.iter().find(is_likely)?.other_process?;
    // Our own leftovers are stopped instead.
    if inputs.leftovers.iter().any(|leftover| leftover.pid == pid) {
        return None;
    }
    let shown = format!("restarts once process {pid} has left the GPU");
    let expectation = Expectation::unknown("it depends on how much GPU memory is free by then");
    Some(Proposal::act(shown, "the same command, later").expecting(expectation))
}
