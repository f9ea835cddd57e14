//! The running session, and its one loop.
//!
//! Everything that happens is a message (`message.rs`). What follows from it is decided without doing
//! anything (`update.rs`, with the phases in `phase.rs`), and comes back as effects, which the loop carries out (`runtime.rs`). A start, an attach and a takeover are set up in one place
//! (`assemble.rs`).

mod assemble;
mod background_task;
mod config;
pub(crate) mod display;
mod ending;
mod gate;
mod heap;
pub(crate) mod launch_facts;
mod message;
mod metrics;
mod news;
mod other_nodes;
mod output_scanners;
mod phase;
pub(crate) mod policy;
pub(crate) mod print;
mod probe_setup;
pub(crate) mod program_text;
mod python_path;
mod reachable;
pub(crate) mod recorded;
pub(crate) mod report_page;
pub(crate) mod requeue;
pub(crate) mod room_gate;
mod runtime;
pub(crate) mod session;
mod setup;
pub(crate) mod signals;
pub(crate) mod torch;
mod typed_edits;
mod update;

pub use crate::remedy::Which;
pub use crate::supervise::Forwarding;
pub use crate::ui::terminal::Alert;
pub use crate::ui::theme::Scheme;
pub(crate) use assemble::{Arrival, NotBegun, follow, run_to_end};
pub(crate) use config::named_in;
pub use config::{Recording, SessionConfig, StartAgain};
pub use policy::auto::{AutoOptions, Permission, RemedyKind};
pub use policy::fit::FitOptions;
pub use print::complain;
pub(crate) use setup::ANNOUNCES;
pub use signals::OnHup;
pub(crate) use typed_edits::with_edits;

use crate::event::Exit;
use crate::supervise;
use anyhow::Context;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;

/// What to do when memory ran out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum OnOom {
    /// Open the dialog and wait for a key.
    Ask,
    /// Print the diagnosis and end with the command's status.
    Exit,
    /// Relaunch with the least invasive remedy that is predicted to fit, unasked.
    Auto,
}

/// How an invocation ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// As the last run did: same code, or the same signal.
    Like(Exit),
    /// With a code of our own (125 own failure, 126 not executable, 127 not found).
    Code(i32),
}

/// The variable that marks every process of a session, for those who look for them.
pub(crate) const SESSION_VARIABLE: &str = "OOMPH_SESSION";

/// Our own failure before or beside the command, as `timeout` and `env` number it.
pub const OWN_FAILURE: i32 = 125;

/// Goes on without a screen in the place of a front that is gone: the keeper starts this process
/// for that, with the descriptor of its socket and the word for why.
///
/// # Errors
/// It was not started by a keeper, or that is gone.
pub fn deputise(words: &[OsString]) -> anyhow::Result<Ending> {
    let word = |at: usize| words.get(at).and_then(|word| word.to_str());
    let arguments = word(0)
        .and_then(|number| number.parse().ok())
        .zip(word(1).and_then(supervise::HeadlessFront::of_word));
    let (number, deputy) = arguments.context("it is started by oomph itself, not by hand")?;
    follow(Arrival::Headless(deputy), || {
        Ok(supervise::Keeper::inherit(number)?)
    })
}
