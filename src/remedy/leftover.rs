//! A process of an earlier session of this user that outlived everybody who watched it, and still
//! holds the memory that is missing now. It is named and stopped on a key; nobody else's is.
//!
//! Whether a process is one is found out where processes can be looked at; here it is only offered.

use crate::units::{Bytes, Pid};

/// Such a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// Its number.
    pub pid: Pid,
    /// When it was started, in the kernel's ticks since boot: with the number it is one process.
    pub started: u64,
    /// The session that it was part of.
    pub session: String,
    /// What it holds of the device.
    pub held: Option<Bytes>,
}

/// What stopping them does, for the eye.
pub(super) fn shown(leftovers: &[Leftover]) -> String {
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
