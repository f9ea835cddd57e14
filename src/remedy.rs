//! What can be changed so that the next run fits, and what it costs.
//!
//! A remedy is a list of edits of the command's words (never of a shell string), with its expected
//! need and its cost; one that isn't offered says why. No I/O: what is on disk is passed in, and
//! nothing is run.

mod amp;
mod attribution;
mod batch;
mod checkpointing;
mod device;
mod draft;
mod edit;
mod effect;
mod expandable_segments;
mod expectation;
mod inputs;
mod leftover;
mod max_split_size;
mod offer;
mod patch;
mod plan;
mod plan_output;
mod proposal;
mod rejected;
mod resume;
mod setting;
mod spec;
mod stop_leftover;
mod switch;
#[cfg(test)]
mod tests;
mod useful;
mod verify;
mod wait;
mod workers;

pub use edit::{Edit, FileEdit};
pub use effect::{NeedFrom, RemedyAction, RemedyEffect};
pub use expandable_segments::with_alloc_conf;
pub use inputs::RemedyInputs;
pub use leftover::Leftover;
pub use offer::{expectation, remedies};
pub use plan::{
    Alteration, Availability, BatchChange, Expectation, FileCopy, FitVerdict, Plan, Remedy,
    RemedyId,
};
pub use plan_output::{plan_json, plan_text};
pub use rejected::{Ended, RejectedRemedy, rejected, without_rejected};
pub use setting::{Setting, Which, places_written, with_argument};
pub use spec::RemedySpec;
pub use useful::{Promise, may_help, promise, recommended};
pub use verify::not_in_force;
