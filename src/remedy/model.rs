//! A run's memory as a model: what was seen of it, and what another batch or another remedy makes
//! of it, each with an interval.
//!
//! Pure and small: observations go in (`observation`, from the state's fold), a target is asked
//! (`memory`), and the answer is a forecast of the allocated peak or of what the allocator must be
//! able to reserve (`allocator`). It knows neither keys nor commands' edits; `reading` alone looks at
//! a command, for the batch and for which runs are of the same program.

mod allocator;
mod estimate;
#[cfg(test)]
mod failed;
mod largest;
#[cfg(test)]
mod measured;
mod memory;
mod observation;
mod partway;
mod reading;
mod treatment;

pub use allocator::Allocator;
pub use estimate::Estimate;
pub use largest::{Division, MARGIN, divided, edge, rounded};
pub use memory::{Forecast, Model, Target};
pub use observation::{Observation, Passes, Unseen};
pub use partway::{Partway, Progress};
pub use reading::Reading;
pub use treatment::Treatment;
