//! A process of an earlier session of this user that oomph no longer supervises and that still uses
//! the device's memory. Such processes are detected elsewhere, where processes can be inspected.

use crate::units::{Bytes, Pid};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    pub pid: Pid,
    /// Start time in kernel ticks since boot: it identifies the process even if the PID is reused.
    pub started: u64,
    /// The session that it was part of.
    pub session: String,
    /// Its device memory.
    pub held: Option<Bytes>,
}
