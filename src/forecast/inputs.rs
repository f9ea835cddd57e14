//! What a forecast rests on beside the command: what was seen of this session and of earlier ones,
//! and the room that there is.

use super::largest::MARGIN;
use super::observation::Observation;
use crate::state::{OomIncident, State};
use crate::units::Bytes;

/// Everything that a forecast may rest on. All of it may be missing.
#[derive(Debug, Clone)]
pub struct ForecastInputs<'a> {
    /// The out-of-memory that asks for a remedy.
    pub oom: Option<&'a OomIncident>,
    /// What is known of the session.
    pub state: Option<&'a State>,
    /// What earlier sessions of the same program showed on this machine, the earliest first.
    pub earlier: &'a [Observation],
    /// The room on the device, where it is known better than from the out-of-memory.
    pub room: Option<Bytes>,
    /// The share of its need by which a batch is to stay below the room.
    pub margin: f64,
}

impl Default for ForecastInputs<'_> {
    fn default() -> Self {
        ForecastInputs {
            oom: None,
            state: None,
            earlier: &[],
            room: None,
            margin: MARGIN,
        }
    }
}
