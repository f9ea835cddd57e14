//! Being told: what somebody who is elsewhere hears of a session, when, and how.

mod messenger;
mod told;

pub(super) use messenger::Messenger;
pub(crate) use told::{NewsInputs, ToldNews};
