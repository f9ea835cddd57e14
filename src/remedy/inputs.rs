//! What the remedies are given beside the command: its surroundings, what a forecast rests on, and
//! what was found.

use super::leftover::Leftover;
use crate::diagnosis::Finding;
use crate::forecast::ForecastInputs;
use crate::recognize::LaunchEnvironment;

/// Everything that a remedy may rest on. All of it may be missing.
#[derive(Debug, Clone)]
pub struct RemedyInputs<'a> {
    /// The surroundings of the command.
    pub launch: LaunchEnvironment<'a>,
    /// What its need is forecast from.
    pub forecast: ForecastInputs<'a>,
    /// What was found about the out-of-memory.
    pub findings: &'a [Finding],
    /// Whether the device computes in bf16.
    pub bf16: Option<bool>,
    /// Whether the batch that is offered is the largest that is predicted to fit, where that is
    /// known, instead of the share that `batch_scale` says.
    pub batch_fits: bool,
    /// What a smaller batch is of the batch that was: a half, unless said otherwise.
    pub batch_scale: f64,
    /// Processes of earlier sessions of this user that nobody watches any more.
    pub leftovers: &'a [Leftover],
}

impl Default for RemedyInputs<'_> {
    fn default() -> Self {
        RemedyInputs {
            launch: LaunchEnvironment::default(),
            forecast: ForecastInputs::default(),
            findings: &[],
            bf16: None,
            batch_fits: false,
            batch_scale: 0.5,
            leftovers: &[],
        }
    }
}
