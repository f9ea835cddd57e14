//! What the remedies are told beside the command: the disk's, the device's and the run's knowledge.

use super::alloc_conf::Inherited;
use crate::diagnosis::Finding;
use crate::state::{OomIncident, State};

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
    /// What a smaller batch is of the batch that was: a half, unless said otherwise.
    pub batch_scale: f64,
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
            batch_scale: 0.5,
        }
    }
}
