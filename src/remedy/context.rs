//! What the remedies are told beside the command: the disk's, the device's and the run's knowledge.

use super::alloc_conf::Inherited;
use super::model::{MARGIN, Observation};
use crate::diagnosis::Finding;
use crate::state::{OomIncident, State};
use crate::units::Bytes;

/// Everything that a remedy may rest on. All of it may be missing.
#[derive(Debug, Clone)]
pub struct Context<'a> {
    /// torch's version in the command's interpreter, `2.11.0+cu130`.
    pub torch: Option<&'a str>,
    /// The allocator's variables as oomph inherited them.
    pub inherited: Inherited<'a>,
    /// Whether the device computes in bf16.
    pub bf16: Option<bool>,
    /// The out-of-memory that asks for a remedy.
    pub oom: Option<&'a OomIncident>,
    /// What was found about it.
    pub findings: &'a [Finding],
    /// What is known of the session.
    pub state: Option<&'a State>,
    /// What a smaller batch is of the batch that was; `None` for the largest that is predicted to
    /// fit, or a half where nothing is known.
    pub batch_scale: Option<f64>,
    /// What earlier sessions of the same program showed on this machine, the earliest first.
    pub earlier: &'a [Observation],
    /// The room on the device, where it is known better than from the out-of-memory.
    pub room: Option<Bytes>,
    /// The share of its need by which a batch is to stay below the room.
    pub margin: f64,
}

impl Default for Context<'_> {
    fn default() -> Self {
        Context {
            torch: None,
            inherited: Inherited::default(),
            bf16: None,
            oom: None,
            findings: &[],
            state: None,
            batch_scale: None,
            earlier: &[],
            room: None,
            margin: MARGIN,
        }
    }
}
