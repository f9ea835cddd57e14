//! What will a run need?
//!
//! A run's memory as a model: what was seen of it, and what another batch or another remedy makes
//! of it, each with an interval. Observations go in (`observation`, from the state's fold), a target
//! is asked (`memory`), and the answer is a forecast of the allocated peak or of what the allocator
//! must be able to reserve (`replay`). Pure; it knows neither keys nor edits of commands.

mod contradiction;
mod earlier_run;
mod ended;
mod estimate;
mod hint;
mod largest;
mod memory;
mod need;
mod observation;
mod optimizer_step;
mod other_rank;
mod ranks;
mod rehearsed;
pub mod replay;
mod requirement;
pub mod score;
mod spread;
pub mod trace;
mod traced;
mod workspaces;

pub use crate::event::Basis;
pub use earlier_run::{EarlierOutcome, EarlierRun};
pub use ended::{NoRoom, room_after_end};
pub use estimate::{ActivationReduction, Allocator, Estimate, Target};
pub use hint::{BatchRoom, Hint, RoomBasis, RoomSearch, TracedHint, hint, traced_search};
pub use largest::{Division, ForecastInputs, MARGIN, divided, edge, rounded};
pub use memory::{Forecast, Model};
pub use need::Need;
pub use observation::{ForwardBackwardPeak, Observation, PartialStep, Progress, SeenIn, Unseen};
pub use optimizer_step::{Alternative, OptimizerStep, RecordedStep, StepLoop};
pub use other_rank::{OtherNeed, OtherRank};
pub(crate) use rehearsed::RANGES_BEYOND;
pub use rehearsed::{OnCard, Rehearsed, WholeStep};
pub use requirement::{Requirement, run_settings, with_conf};
pub use spread::InputSpread;
pub use traced::{InputShape, TracedRoom, TracedSearch};
