//! What will a run need?
//!
//! A run's memory as a model: what was seen of it, and what another batch or another remedy makes
//! of it, each with an interval. Observations go in (`observation`, from the state's fold), a target
//! is asked (`memory`), and the answer is a forecast of the allocated peak or of what the allocator
//! must be able to reserve (`allocator`). Pure; it knows neither keys nor edits of commands.

mod allocator;
mod estimate;
mod hint;
mod inputs;
mod largest;
mod memory;
mod observation;
mod partial_step;
mod rehearsed;
pub mod replay;
pub mod score;
pub mod step_blocks;
mod target;
pub mod trace;
mod traced;
mod treatment;

pub use crate::event::Basis;
pub use estimate::Estimate;
pub use hint::{BatchRoom, Hint, RoomBasis, TracedHint, hint, traced_search};
pub use inputs::ForecastInputs;
pub use largest::{Division, MARGIN, divided, edge, rounded};
pub use memory::{Forecast, Model};
pub use observation::{Observation, Passes, Unseen};
pub use partial_step::{PartialStep, Progress};
pub use rehearsed::{Rehearsed, WholeStep};
pub use target::{Allocator, Target};
pub use traced::{TracedRoom, TracedSearch};
pub use treatment::Treatment;
