//! What the front asks of the keeper. Shapes only: nothing here is carried out.

use crate::command::{CommandLine, Word};
use crate::units::RunNumber;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// How a keeper is set up, once for the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// The file that is to hold the output's bytes, made with mode 0600; `None` keeps no log.
    pub log: Option<PathBuf>,
    /// Where output that is meant for the user's terminal goes.
    pub io: Io,
    /// How long to wait for what. Tests divide the timeouts.
    pub timing: KeeperTimeouts,
    /// Whether signals from outside are passed on, once there is no front to decide.
    pub forwarding: Forwarding,
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
    /// Whether a signal is passed on, inside an `srun` step or outside one.
    pub fn passes(self, in_slurm_step: bool) -> bool {
        match self {
            Forwarding::Auto => !in_slurm_step,
            Forwarding::Always => true,
            Forwarding::Never => false,
        }
    }
}

/// Where output that is meant for the user's terminal goes. Files and pipes of the user's are
/// served alike in both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Io {
    /// To the front alone, which draws on that terminal.
    Screen,
    /// To that terminal, unchanged; the front gets a copy.
    PassThrough,
}

/// How long the keeper waits for what. Counted on the monotonic clock, which stands still while
/// the machine sleeps: nothing is killed by a deadline that passed in a suspended laptop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KeeperTimeouts {
    /// From SIGTERM to the trainer until the whole tree gets it. 45 s, because torchrun itself
    /// waits 30 s for its ranks before it kills them.
    pub stop: Duration,
    /// From SIGTERM to a whole tree until SIGKILL.
    pub sweep: Duration,
    /// From SIGKILL until what is still there is called unkillable.
    pub unkillable: Duration,
    /// After the trainer's end: how long its terminal or pipe must have been silent, where
    /// somebody else still holds it open, for its output to be complete.
    pub quiet: Duration,
    /// After the trainer's end: how long somebody else's chatter may delay the report of it.
    pub drain: Duration,
    /// From a failed write of the log until the next attempt.
    pub log_retry: Duration,
    /// The shortest time between two changes of the window's size.
    pub resize: Duration,
    /// How long a front may take to make way for another before it is killed.
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

/// The size of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    /// Lines.
    pub rows: u16,
    /// Characters in a line.
    pub cols: u16,
    /// Width in pixels, or 0 where it is not known.
    pub xpixel: u16,
    /// Height in pixels, or 0 where it is not known.
    pub ypixel: u16,
}

impl Size {
    /// What a terminal has whose size nobody knows.
    pub const USUAL: Size = Size::new(24, 80);

    /// A size in characters, at least 2 by 2: at 0 columns tqdm draws an empty bar, and emulators
    /// of one line or column have been seen to panic.
    pub const fn new(rows: u16, cols: u16) -> Size {
        Size {
            rows: if rows < 2 { 2 } else { rows },
            cols: if cols < 2 { 2 } else { cols },
            xpixel: 0,
            ypixel: 0,
        }
    }

    /// This size, at least 2 by 2.
    pub const fn clamped(self) -> Size {
        Size {
            xpixel: self.xpixel,
            ypixel: self.ypixel,
            ..Size::new(self.rows, self.cols)
        }
    }
}

/// One run to start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// Its number.
    pub run: RunNumber,
    /// What to run; its `env` is what differs from the environment that oomph itself got.
    pub command: CommandLine,
    /// The size of its terminal, if it gets one; `None` takes the user's terminal's.
    pub size: Option<Size>,
}

/// What the front asks for. Orders are carried out in the order in which they were sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeeperOrder {
    /// Start a run. Refused while another one is alive.
    Launch(Launch),
    /// Ctrl-C on our screen: SIGINT, once, to the foreground group of the trainer's terminal.
    Interrupt,
    /// A signal that came from outside, by number, to the direct child alone. TERM, HUP and QUIT
    /// are passed on once in a run; USR1 and USR2 only to who handles them.
    Forward(i32),
    /// End the trainer: SIGTERM to the direct child, after [`KeeperTimeouts::stop`] to the whole tree,
    /// after [`KeeperTimeouts::sweep`] SIGKILL. Answered by [`KeeperReport::Exited`], then [`KeeperReport::Swept`].
    Stop,
    /// SIGKILL to the whole tree, now. Answered as [`KeeperOrder::Stop`] is.
    Kill,
    /// Clear away what an ended run left that could hold a GPU, before a relaunch: TERM, then
    /// KILL. Answered by [`KeeperReport::Swept`].
    Sweep,
    /// The trainer's terminal has another size now.
    Resize(Size),
    /// Keys for the trainer's terminal.
    Input(Vec<u8>),
    /// Whether the front's screen is on the user's terminal at the moment (it is not while the
    /// front is suspended). Decides what is put in order should the front die; shown until told.
    ScreenShown(bool),
    /// The front goes away on purpose: go on without it.
    Release,
    /// The front has made way for another one, and goes on listening: it is told of the ends of
    /// runs and of the session's, and ends with it. For a front that a script or a scheduler waits
    /// for.
    StepBack,
    /// Listen at this path for callers: fronts that want to attach, and who looks or stops.
    Listen(Word),
    /// What the next front must know and no recording tells; replaces what was said before. Never
    /// written anywhere, for it holds the command as it was typed.
    Remember(String),
    /// What others may know of the session; replaces what was said before.
    Describe(String),
    /// There will be no more runs. Answered by [`KeeperReport::Finished`] when all is written.
    Finish,
}
