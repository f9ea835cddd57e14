//! A process of an earlier session of this user that outlived everybody who watched it, and still
//! has the memory that is missing now. Whether a process is one is found out where processes can be
//! looked at.

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
