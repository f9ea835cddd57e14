//! What remedies are based on beside the command: its surroundings, the inputs of the forecast, and
//! the findings.

use super::leftover::Leftover;
use crate::command::CommandLine;
use crate::diagnosis::Finding;
use crate::forecast::ForecastInputs;
use crate::recognize::{LaunchEnvironment, Recognized};

/// Any of it may be missing.
#[derive(Debug, Clone)]
pub struct RemedyInputs<'a> {
    /// The surroundings of the command.
    pub launch: LaunchEnvironment<'a>,
    /// What its need is predicted from.
    pub forecast: ForecastInputs<'a>,
    /// What was found about the OOM.
    pub findings: &'a [Finding],
    /// Whether the device supports bf16.
    pub bf16: Option<bool>,
    /// Whether to offer the largest batch predicted to fit, if that is known, instead of scaling by
    /// `batch_scale`.
    pub batch_fits: bool,
    /// What the batch is multiplied by; 0.5 by default.
    pub batch_scale: f64,
    /// Processes left over from this user's earlier sessions.
    pub leftovers: &'a [Leftover],
}

impl<'a> RemedyInputs<'a> {
    /// The command as it is understood with this launch.
    pub fn recognize(&self, command: &'a CommandLine) -> Recognized<'a> {
        Recognized::new(command, &self.launch)
    }
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
