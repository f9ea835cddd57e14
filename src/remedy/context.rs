//! What the remedies are told beside the command: the disk's, the device's and the run's knowledge.

use super::alloc_conf::Inherited;
use super::file::ConfigFile;
use super::leftover::Leftover;
use super::program::Catalogue;
use super::resume::Checkpoint;
use crate::diagnosis::Finding;
use crate::state::{OomIncident, State};
use std::path::Path;

/// Everything that a remedy may rest on. All of it may be missing.
#[derive(Debug, Clone)]
pub struct Context<'a> {
    /// torch's version in the command's interpreter, `2.11.0+cu130`.
    pub torch: Option<&'a str>,
    /// The allocator's variables as oomph inherited them.
    pub inherited: Inherited<'a>,
    /// Those of [`ENVIRONMENT`] that oomph inherited.
    pub environment: &'a [(String, String)],
    /// The user's own entries of programs, the first to be asked first.
    pub own: &'a [Catalogue],
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
    /// The config files that the command names, as they lie on the disk.
    pub files: &'a [ConfigFile],
    /// Where edited copies of them may be written, and the number of the run that they are for.
    pub copies: Option<(&'a Path, u32)>,
    /// The newest complete checkpoint of what the command trains.
    pub checkpoint: Option<&'a Checkpoint>,
    /// Processes of earlier sessions of this user that nobody watches any more.
    pub leftovers: &'a [Leftover],
}

/// Variables of the inherited environment that remedies ask for: how a job is spread over machines,
/// and which devices are seen.
pub const ENVIRONMENT: [&str; 25] = [
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "NNODES",
    "NUM_NODES",
    "PET_NNODES",
    "MLP_WORKER_NUM",
    "SLURM_STEP_ID",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_PROCID",
    "OMPI_COMM_WORLD_SIZE",
    "PMI_SIZE",
    "NODE_RANK",
    "MACHINE_RANK",
    "GROUP_RANK",
    "MLP_ROLE_INDEX",
    "PET_NODE_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "RANK",
    "LOCAL_RANK",
    "TORCHELASTIC_RUN_ID",
    "MASTER_ADDR",
    "JOB_COMPLETION_INDEX",
    "CROSS_SPECIFIC_RANK",
    "WORLD_RANK",
];

impl Context<'_> {
    /// The inherited value of one of [`ENVIRONMENT`].
    pub(super) fn inherited_value(&self, name: &str) -> Option<&str> {
        self.environment
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, value)| value.as_str())
    }
}

impl Default for Context<'_> {
    fn default() -> Self {
        Context {
            torch: None,
            inherited: Inherited::default(),
            environment: &[],
            own: &[],
            bf16: None,
            oom: None,
            findings: &[],
            state: None,
            batch_scale: 0.5,
            files: &[],
            copies: None,
            checkpoint: None,
            leftovers: &[],
        }
    }
}
