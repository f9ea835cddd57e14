//! Finding and command line to remedies: what to change so that the next run fits.
//!
//! A remedy is a list of edits of the list of words (never of a shell string) with what it is
//! expected to need and what it costs; where one is not offered it says why. Pure: what the disk
//! knows is an argument, nothing is run.
//!
//! A command is first taken apart (`launcher`), its program looked up among known ones (`program`,
//! `programs.toml`) or read by families of spelling (`family`); then each remedy drafts its edits
//! (`batch`, `precision`, `segments`; `patch` where only a change inside the process is left), says what it expects (`expectation`), and the chosen ones
//! together make a plan (`plan`).

pub mod alloc_conf;
mod argument;
mod batch;
mod context;
mod draft;
mod expectation;
mod family;
mod launcher;
#[cfg(test)]
mod laws;
mod offer;
mod outline;
mod patch;
#[cfg(test)]
mod pitfalls;
mod plan;
mod precision;
mod program;
mod recognition;
mod segments;

pub use argument::Form;
pub use batch::{Batch, batch_of};
pub use context::Context;
pub use launcher::{Anatomy, Kind, Launcher, Passage};
pub use offer::remedies;
pub use outline::{plan_json, plan_text};
pub use plan::{Availability, Edit, Expectation, Plan, Remedy, RemedyId};
pub use program::{Catalogue, Entry, Scope};
pub use recognition::{Recognised, recognise};
pub use segments::with_alloc_conf;
