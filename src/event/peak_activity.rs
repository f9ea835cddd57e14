//! What a process did where it had most allocated, by the names of the functions that ran: an evaluation's peak is no step's.

use super::process_host::HostActivity;
use crate::units::Pid;
use serde::{Deserialize, Serialize};

/// What the program did where most was allocated so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeakActivity {
    pub pid: Pid,
    /// CUDA's index in that process.
    pub device: u32,
    /// `None` where its functions' names say nothing, as in a step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doing: Option<HostActivity>,
}
