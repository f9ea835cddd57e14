//! The front's orders to the keeper.

use super::sent_signal::SentSignal;
use crate::command::{CommandLine, Word};
use crate::units::RunNumber;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// A keeper's settings for the whole session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// The file for the raw output, created with mode 0600; `None` keeps no log.
    pub log: Option<PathBuf>,
    pub io: Io,
    pub timing: KeeperTimeouts,
    /// For signals that arrive while there is no front to decide.
    pub forwarding: Forwarding,
    pub input: PipedInput,
}

/// What becomes of the user's standard input where that is a pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PipedInput {
    /// The runs have it. Once one has read it there is no other run.
    #[default]
    Inherited,
    /// What a run reads is kept, up to 1 MiB, for the next one.
    Kept,
}

/// Whether signals from outside are passed on to the trainer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Forwarding {
    /// Once each; not where SLURM signals every process itself.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl Forwarding {
    pub fn passes(self, in_slurm_step: bool) -> bool {
        match self {
            Forwarding::Auto => !in_slurm_step,
            Forwarding::Always => true,
            Forwarding::Never => false,
        }
    }
}

/// Where output for the user's terminal goes. The user's files and pipes are treated the same in both
/// cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Io {
    /// Only to the front, which draws on that terminal.
    Screen,
    /// To that terminal, unchanged; the front gets a copy.
    PassThrough,
}

/// The keeper's timeouts. They use the monotonic clock, which stops while the machine sleeps: nothing
/// is killed because of a deadline that passed on a suspended laptop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KeeperTimeouts {
    /// From SIGTERM to the trainer until SIGTERM to the whole tree. 45 s, because torchrun itself waits
    /// 30 s for its ranks before it kills them.
    pub stop: Duration,
    /// From SIGTERM to a whole tree until SIGKILL.
    pub sweep: Duration,
    /// From SIGKILL until remaining processes are called unkillable.
    pub unkillable: Duration,
    /// After the trainer's end, if another process still holds its terminal or pipe open: how long that
    /// must have been silent for the output to count as complete.
    pub quiet: Duration,
    /// After the trainer's end: how long another process's output may delay the report.
    pub drain: Duration,
    /// From a failed write of the log until the next attempt.
    pub log_retry: Duration,
    /// The shortest time between two changes of the window's size.
    pub resize: Duration,
    /// How long a front may take to make way for the next before it is killed.
    pub handover: Duration,
}

impl Default for KeeperTimeouts {
    fn default() -> KeeperTimeouts {
        KeeperTimeouts {
            stop: Duration::from_secs(45),
            sweep: Duration::from_secs(5),
            unkillable: Duration::from_secs(5),
            quiet: Duration::from_millis(100),
            drain: Duration::from_millis(500),
            log_retry: Duration::from_secs(30),
            resize: Duration::from_millis(100),
            handover: Duration::from_secs(5),
        }
    }
}

impl KeeperTimeouts {
    /// Divide the timeouts by `divisor` (tests); those that depend on the machine's speed stay.
    pub fn scaled(divisor: u32) -> KeeperTimeouts {
        let whole = KeeperTimeouts::default();
        let divisor = divisor.max(1);
        KeeperTimeouts {
            stop: whole.stop / divisor,
            sweep: whole.sweep / divisor,
            unkillable: whole.unkillable / divisor,
            log_retry: whole.log_retry / divisor,
            ..whole
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    pub rows: u16,
    pub cols: u16,
    /// In pixels; 0 if unknown.
    pub xpixel: u16,
    pub ypixel: u16,
}

impl Size {
    /// For a terminal of unknown size.
    pub const USUAL: Size = Size::new(24, 80);

    /// At least 2 by 2: at 0 columns tqdm draws an empty bar, and terminal emulators with one line or
    /// column have been seen to panic.
    pub const fn new(rows: u16, cols: u16) -> Size {
        Size {
            rows: if rows < 2 { 2 } else { rows },
            cols: if cols < 2 { 2 } else { cols },
            xpixel: 0,
            ypixel: 0,
        }
    }

    pub const fn clamped(self) -> Size {
        Size {
            xpixel: self.xpixel,
            ypixel: self.ypixel,
            ..Size::new(self.rows, self.cols)
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    pub run: RunNumber,
    /// Its `env` holds the differences to oomph's own environment.
    pub command: CommandLine,
    /// The size of its terminal, if it gets one; `None` for that of the user's terminal.
    pub size: Option<Size>,
}

/// Orders are carried out in the order in which they were sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeeperOrder {
    /// Start a run. Refused while another is alive.
    Launch(Launch),
    /// Ctrl-C on our screen: SIGINT to the foreground group of the trainer's terminal.
    Interrupt,
    /// Pass on a signal from outside to the direct child alone. TERM, HUP and QUIT are
    /// passed on once per run; USR1 and USR2 only to processes that handle them.
    Forward(SentSignal),
    /// End the trainer: SIGTERM to the direct child, after [`KeeperTimeouts::stop`] to the whole tree,
    /// after [`KeeperTimeouts::sweep`] SIGKILL. Answered by [`KeeperReport::Exited`](super::KeeperReport),
    /// then `Swept`.
    Stop,
    /// SIGKILL to the whole tree, now. Answered like [`KeeperOrder::Stop`].
    Kill,
    /// Before a relaunch: end what is left of the last run and could hold a GPU, by TERM, then KILL.
    /// Answered by `Swept`.
    Sweep,
    /// The new size of the trainer's terminal.
    Resize(Size),
    /// Keys for the trainer's terminal.
    Input(Vec<u8>),
    /// Whether the front's screen is on the user's terminal (not while the front is suspended). It
    /// decides what must be restored if the front dies. Initially true.
    ScreenShown(bool),
    /// The front leaves on purpose: continue without it.
    Release,
    /// The front has made way for another one, and keeps listening: it is told when runs and the
    /// session end, and ends with the session. For a front that a script or a scheduler waits for.
    StepBack,
    /// Listen at this path for callers.
    Listen(Word),
    /// The handover state that isn't in the recording; replaces the previous one. Never written to
    /// disk, because it holds the command as it was typed.
    Remember(String),
    /// A summary of the session for callers; replaces the previous one.
    Describe(String),
    /// There will be no more runs. Answered by `Finished` when everything is written.
    Finish,
}
