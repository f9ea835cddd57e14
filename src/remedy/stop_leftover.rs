//! Stops what is left of this user's earlier sessions, after a key press; other users' processes
//! are never offered.

use super::inputs::Leftover;
use super::plan::Expectation;
use super::proposal::{Offering, Proposal};
use super::{NeedFrom, RemedyAction, RemedyEffect, RemedySpec};

pub(super) const REMEDY: RemedySpec = RemedySpec {
    action: RemedyAction::Act,
    ..RemedySpec::new(
        's',
        "stop leftover processes",
        RemedyEffect::MoreFree,
        NeedFrom::Itself,
        propose,
    )
};

/// What it stops, for display.
fn shown(leftovers: &[Leftover]) -> String {
    let each: Vec<String> = leftovers
        .iter()
        .map(|leftover| {
            let held = leftover
                .held
                .map_or_else(String::new, |held| format!(", {held}"));
            format!("process {} of {}{held}", leftover.pid, leftover.session)
        })
        .collect();
    format!("stops {}", each.join("; "))
}

fn propose(offering: &Offering<'_>) -> Option<Proposal> {
    let leftovers = offering.inputs.leftovers;
    if leftovers.is_empty() {
        return None;
    }
    let cost = ["same command", "the stopped processes are lost"];
    Some(
        Proposal::act(shown(leftovers), cost)
            .expecting(Expectation::unknown("it frees the memory they use")),
    )
}
