//! The child: the keeper process and the front's handle on it.
//!
//! A training may run for weeks, and whatever holds its terminal takes it along when it dies. So
//! oomph is two processes of one binary. The *keeper* owns the pseudo-terminal, drains it, keeps
//! the log, and alone waits for and signals the trainer; it is small, has one loop, and calls
//! nothing that panics. The *front* (screen, NVML, probe, diagnosis) does all the rest and may die
//! without harm. Between them lies one socket: [`KeeperOrder`]s go down, [`KeeperReport`]s come up.
//!
//! ```text
//! shell ── front ══ orders, reports ══ keeper ── trainer ── ranks, workers, …
//!            │                           │  └─── session holder (only where there is a terminal)
//!         the screen                the log, the user's own pipes and files
//! ```
//!
//! What is promised, by whom:
//!
//! * The drain waits for nobody but the user's own pipe or terminal: a slow log or a slow front
//!   costs counted gaps, never time.
//! * Every byte goes where it would have gone without oomph, unchanged.
//! * A run's [`KeeperReport::Exited`] comes after all of its output.
//! * If the front dies the trainer lives on and the user's terminal is put in order.
//! * If the keeper dies the kernel hangs up the trainer's terminal; a trainer without one lives on,
//!   and the front stands in.
//!
//! This module knows nothing of memory, devices or remedies: it runs a command and says what
//! became of it. The relaunch gate is the app's.

mod aftermath;
mod bare;
mod call;
mod exit;
mod front;
mod inherited;
pub mod keeper;
mod missing;
mod order;
mod orphan;
mod report;
mod resolve;
mod slurm;
mod status;
mod streams;
mod terminal;
mod wire;

pub use aftermath::clear_up;
pub use bare::{become_command, lacking};
pub use call::{KeeperAnswers, look, pass_on};
pub use exit::exit_like;
pub use front::{Keeper, Reports};
pub use inherited::{InheritedSignals, ignore_own_limits, inherited, reap_strangers};
pub use missing::Missing;
pub use order::{Forwarding, Io, KeeperOrder, KeeperTimeouts, Launch, Setup, Size};
pub use orphan::HeldRun;
pub use report::{KeeperReport, Rung};
pub use resolve::resolve;
pub use slurm::step_is_signalled;
pub use status::{Call, HeadlessFront, RunStage, RunStatus, SessionStatus};
pub use streams::{OutputStream, TrainerStreams};
pub use terminal::{LineSettings, RESET};

/// The word that makes this binary a keeper instead of a front.
pub const KEEPER_WORD: &str = "__keeper";

/// The word that makes it a front in the place of one that is gone.
pub const HEADLESS_WORD: &str = "__headless";
