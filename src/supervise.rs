//! Running the command: the keeper process, and the front's handle on it.
//!
//! A training may run for weeks, and it dies with the process that owns its terminal. So oomph is
//! two processes of one binary. The *keeper* owns the pseudo-terminal, reads it, keeps the log, and
//! is the only one to wait for and signal the trainer; it is small, has one loop, and calls nothing
//! that panics. The *front* (screen, NVML, probe, diagnosis) does everything else and may die
//! without harm. They talk over one socket: [`KeeperOrder`]s go down, [`KeeperReport`]s come up.
//!
//! ```text
//! shell ── front ══ orders, reports ══ keeper ── trainer ── ranks, workers, …
//!            │                           │  └─── session holder (only where there is a terminal)
//!         the screen                the log, the user's own pipes and files
//! ```
//!
//! Guarantees:
//!
//! * Output waits only for the user's own pipe or terminal: a slow log or a slow front costs counted
//!   gaps, never time.
//! * Every byte goes where it would have gone without oomph, unchanged.
//! * A run's [`KeeperReport::Exited`] comes after all of its output.
//! * If the front dies, the trainer continues and the user's terminal is restored.
//! * If the keeper dies, the kernel hangs up the trainer's terminal; a trainer without one
//!   continues, and the front stands in for the keeper.
//!
//! This module knows nothing about memory, devices or remedies: it runs a command and reports what
//! became of it. Waiting for free memory before a relaunch is the app's business.

mod aftermath;
mod bare;
mod call;
mod errand;
mod exit;
mod front;
mod inherited;
pub mod keeper;
mod missing;
mod order;
mod orphan;
mod outer;
mod report;
mod resolve;
mod sent_signal;
mod slurm;
mod status;
mod streams;
mod terminal;
mod wire;

pub use aftermath::clear_up;
pub use bare::{become_command, has_small_stack, lacking};
pub use call::{KeeperAnswers, look, pass_on};
pub use errand::{ERRAND_WORD, Errands, errand};
pub use exit::exit_like;
pub use front::{Keeper, Reports};
pub use inherited::{InheritedSignals, ignore_own_limits, inherited, reap_strangers};
pub use missing::Missing;
pub use order::{Forwarding, Io, KeeperOrder, KeeperTimeouts, Launch, PipedInput, Setup, Size};
pub use orphan::HeldRun;
pub use outer::is_below_another;
pub use report::{KeeperReport, Rung};
pub use resolve::resolve;
pub use sent_signal::{Sender, SentSignal, is_meant, is_passed_on};
pub use slurm::step_is_signalled;
pub use status::{Call, HeadlessFront, RunStage, RunStatus, SessionStatus};
pub use streams::{OutputStream, TrainerStreams};
pub use terminal::{LineSettings, RESET};

/// The first argument that makes this binary a keeper instead of a front.
pub const KEEPER_WORD: &str = "__keeper";

/// The first argument that makes it a front without a screen, in place of one that is gone.
pub const HEADLESS_WORD: &str = "__headless";
