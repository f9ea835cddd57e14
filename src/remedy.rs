//! Finding and command line to remedies: what to change so that the next run fits.
//!
//! A remedy is a list of edits of the list of words (never of a shell string) with what it is
//! expected to need and what it costs; where one is not offered it says why. Pure: what the disk
//! knows is an argument, nothing is run.

mod plan;

pub use plan::{Availability, Edit, Expectation, Plan, Remedy, RemedyId};
