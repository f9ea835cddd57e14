//! The one loop: receive, apply, diagnose, draw; carry effects out.
//!
//! Everything that decides is below (state, diagnosis, remedy, the gate); everything that happens
//! comes in as an event. What is left here is order: start things in the right sequence, wait for
//! all sources at once, and end so that nothing is lost.

pub(crate) mod allocator;
pub(crate) mod below;
mod beside;
pub(crate) mod display;
mod ending;
pub(crate) mod front;
mod link;
mod news;
pub(crate) mod policy;
pub(crate) mod print;
pub(crate) mod session;
mod signals;
pub(crate) mod suspend;
pub(crate) mod torch;

pub use crate::remedy::Which;
pub use crate::supervise::Forwarding;
pub use crate::ui::terminal::Alert;
pub use crate::ui::theme::Scheme;
pub use policy::auto::{AutoOptions, Permission, RemedyKind};
pub use policy::fit::FitOptions;
pub use print::complain;
pub use signals::OnHup;

use crate::command::CommandLine;
use crate::event::Exit;
use crate::supervise;
use anyhow::Context;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// What `oomph COMMAND` was asked to do.
#[derive(Debug, Clone, PartialEq)]
pub struct RunOptions {
    /// The command; its environment holds the words typed before it.
    pub command: CommandLine,
    /// No screen, even where there is a terminal.
    pub headless: bool,
    /// Put the probe in front.
    pub probe: bool,
    /// Ask NVML.
    pub nvml: bool,
    /// Let the probe record which lines hold the memory.
    pub lines: bool,
    /// Where the probe saves PyTorch's own snapshot at an out-of-memory, if anywhere.
    pub snapshot: Option<PathBuf>,
    /// Time between two samples.
    pub interval: Duration,
    /// Where the recording goes.
    pub recording: Recording,
    /// A directory that all nodes of the job share, for what ranks of other nodes report.
    pub spool: Option<PathBuf>,
    /// Where metrics are written for Prometheus, if anywhere.
    pub metrics: Option<PathBuf>,
    /// Allocator settings for the first launch, as typed.
    pub alloc_conf: Option<String>,
    /// What to do at an OOM; `None` where the mode decides.
    pub on_oom: Option<OnOom>,
    /// How the terminal tells of an OOM; `None` where `oomph.toml` decides.
    pub alert: Option<Alert>,
    /// The last screen stays until a person quits.
    pub hold: bool,
    /// What relaunching unasked may do.
    pub auto: AutoOptions,
    /// Whether signals are passed on.
    pub forward: Forwarding,
    /// What a hang-up of the terminal does.
    pub on_hup: OnHup,
    /// How many times shorter graces and deadlines are than they should be; 1 but in tests.
    pub scaled: u32,
    /// The screen's theme; `None` where `oomph.toml` decides.
    pub theme: Option<Scheme>,
}

/// Where a recording goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recording {
    /// To the state directory, under the session's name.
    InStateDirectory,
    /// To this file.
    To(PathBuf),
    /// Nowhere.
    Off,
}

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
const SESSION_VARIABLE: &str = "OOMPH_SESSION";

/// Our own failure before or beside the command, as `timeout` and `env` number it.
pub const OWN_FAILURE: i32 = 125;

/// A front in the place of another, on its runtime.
pub(crate) fn follow(
    arrival: front::Arrival,
    connect: impl FnOnce() -> anyhow::Result<(supervise::Keeper, supervise::Reports)>,
) -> anyhow::Result<Ending> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()?;
    let ending = runtime.block_on(front::take_over(arrival, connect));
    runtime.shutdown_background();
    ending
}

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
    follow(front::Arrival::Headless(deputy), || {
        Ok(supervise::Keeper::inherit(number)?)
    })
}
