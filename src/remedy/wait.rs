//! Waiting, if another process is the likely cause.

use super::plan::Expectation;
use super::proposal::{Offering, Proposal};
use super::{NeedFrom, RemedyAction, RemedyEffect, RemedySpec};
use crate::diagnosis::{Cause, Certainty, Finding};

pub(super) const REMEDY: RemedySpec = RemedySpec {
    action: RemedyAction::Act,
    ..RemedySpec::new(
        'W',
        "wait",
        RemedyEffect::MoreFree,
        NeedFrom::Itself,
        propose,
    )
};

fn propose(offering: &Offering<'_>) -> Option<Proposal> {
    let inputs = offering.inputs;
    let is_likely = |finding: &&Finding| {
        let goes_away = matches!(
            finding.cause,
            Cause::ForeignProcess | Cause::LeftoverProcess
        );
        goes_away && finding.certainty >= Certainty::Likely
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
