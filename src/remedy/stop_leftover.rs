//! Stopping what is left of an earlier session of this user, by name and on a key; nobody else's
//! process is ever offered.

use super::leftover::Leftover;
use super::proposal::{Offering, Proposal, unknown};

/// What stopping them does, for the eye.
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

pub(super) fn propose(offering: &Offering<'_>) -> Option<Proposal> {
    let leftovers = offering.inputs.leftovers;
    if leftovers.is_empty() {
        return None;
    }
    let cost = "same command; the stopped processes are lost";
    Some(Proposal::act(shown(leftovers), cost).expecting(unknown("it frees the memory they use")))
}
