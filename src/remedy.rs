//! Finding and command line to remedies: what to change so that the next run fits.
//!
//! A remedy is a list of edits of the list of words (never of a shell string) with what it is
//! expected to need and what it costs; where one is not offered it says why. Pure: what the disk
//! knows is an argument, nothing is run.
//!
//! A command is first taken apart (`launcher`), its program looked up among known ones (`program`,
//! `programs.toml`) or read by families of spelling (`family`); then each remedy drafts its edits
//! (`batch`, `precision`, `recompute`, `segments`, `device`, `resume`, `workers`; `patch`
//! where only a change inside the process is left), says what it expects (`expectation`), and the chosen ones
//! together make a plan (`plan`).

pub mod alloc_conf;
mod argument;
mod batch;
mod context;
mod device;
mod draft;
mod expectation;
mod family;
mod file;
mod job;
mod launcher;
#[cfg(test)]
mod laws;
mod leftover;
pub mod model;
mod nudge;
mod offer;
mod outline;
mod patch;
#[cfg(test)]
mod pitfalls;
mod plan;
mod precision;
mod program;
mod readback;
mod recognition;
mod recompute;
mod refusal;
mod resume;
mod segments;
mod setting;
mod switch;
mod workers;

pub use argument::Form;
pub use batch::{Batch, batch_of};
pub use context::{Context, ENVIRONMENT};
pub use file::{ConfigFile, NamedFile, named_files};
pub use launcher::{Anatomy, Kind, Launcher, Passage};
pub use leftover::Leftover;
pub use nudge::{Nudge, nudge};
pub use offer::{expectation, remedies};
pub use outline::{plan_json, plan_text};
pub use plan::{
    Alteration, Availability, Edit, Expectation, FileCopy, FileEdit, Plan, Remedy, RemedyId, Taken,
};
pub use program::{Catalogue, Entry, Scope};
pub use readback::not_in_force;
pub use recognition::{Recognised, recognise};
pub use refusal::{Ended, Refusal, less_refused, refused};
pub use resume::{Checkpoint, Wanted, wanted as checkpoints_wanted};
pub use segments::with_alloc_conf;
pub use setting::{Setting, Which, places_written, with_argument};
