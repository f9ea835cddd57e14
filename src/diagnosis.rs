//! State to findings: what ran out of memory and why, with the numbers it rests on.
//!
//! One cause, one file, one small rule: `examine` gets an incident and the state around it and
//! answers with a finding or with nothing. Pure: the same recording gives the same findings.

mod finding;

pub use finding::{Cause, Certainty, Evidence, Finding};

use crate::state::State;

/// What explains the current run's out-of-memory, the most certain first.
pub fn diagnose(_state: &State) -> Vec<Finding> {
    Vec::new()
}
