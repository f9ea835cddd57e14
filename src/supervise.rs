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
//!            │                           │  └─── session holder
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
//! Nothing in this room may panic, on either side: the lints below see to it.
//!
//! This module knows nothing about memory, devices or remedies: it runs a command and reports what
//! became of it. Waiting for free memory before a relaunch is for `live`.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::unreachable
    )
)]

mod alarm;
mod front;
pub mod keeper;
mod keeper_lost;
mod messages;
mod notify_hook;
mod program;
mod sent_signal;
mod terminal;
mod this_process;
mod wire;

pub use alarm::Alarm;
pub use front::{Keeper, KeeperAnswers, Reports, look, pass_on, reap_keeper};
pub use keeper_lost::{HeldRun, NoRun, clear_up};
pub use messages::{Call, HeadlessFront, RunStage, RunStatus, SessionStatus};
pub use messages::{Forwarding, Io, KeeperOrder, KeeperTimeouts, Launch, PipedInput, Setup, Size};
pub use messages::{KeeperReport, OutputStream, StopStage, TrainerStreams};
pub use notify_hook::{NOTIFY_HOOK_WORD, NotifyHooks, notify_hook};
pub use program::{Missing, resolve};
pub use sent_signal::{Sender, SentSignal, is_meant, is_passed_on, step_is_signalled};
pub use terminal::{LineSettings, RESET};
pub use this_process::{
    GroupPlace, InheritedSignals, ignore_own_limits, inherited, reap_strangers,
};
pub use this_process::{become_command, exit_like, has_small_stack, is_below_another, lacking};

/// The first argument that makes this binary a keeper instead of a front.
pub const KEEPER_WORD: &str = "__keeper";

/// The first argument that makes this binary a front without a screen, in place of one that is gone.
pub const HEADLESS_WORD: &str = "__headless";
