//! What the processes of a session say to each other: the front's orders, the keeper's reports, and the
//! requests of callers from outside.
//!
//! The recording says what happened, the keeper what is true now. If the two differ (a front was killed in
//! the middle of a line), the keeper is right.

use super::sent_signal::SentSignal;
use crate::command::{CommandLine, Word};
use crate::event::Exit;
use crate::units::{Bytes, Pid, RunNumber};
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
    /// Each once a second; not where SLURM signals every process itself.
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
    /// after [`KeeperTimeouts::sweep`] SIGKILL. Answered by [`KeeperReport::Exited`],
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

/// Where a byte of output came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputStream {
    /// The trainer's terminal: stdout and stderr in the order in which they were written.
    Terminal,
    /// Its stdout if that is a pipe or file, and its stderr if that is the same one.
    Out,
    /// Its stderr if that is a pipe or file of its own.
    Err,
}

impl OutputStream {
    pub(super) const ALL: [OutputStream; 3] =
        [OutputStream::Terminal, OutputStream::Out, OutputStream::Err];

    /// The user's descriptor, where it isn't the terminal's.
    pub(super) fn number(self) -> Option<i32> {
        match self {
            OutputStream::Terminal => None,
            OutputStream::Out => Some(1),
            OutputStream::Err => Some(2),
        }
    }
}

/// What the keeper put in place of the user's own streams.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrainerStreams {
    /// Whether there is a pseudo-terminal, which hangs up when the keeper dies.
    pub terminal: bool,
    /// Pipes, by the keeper's descriptor number of the reading end.
    pub pipes: Vec<(OutputStream, i32)>,
}

/// A stage of a stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopStage {
    /// SIGTERM was sent to the direct child.
    Asked,
    /// SIGTERM was sent to the whole tree.
    TreeAsked,
    /// SIGKILL was sent to everything that was left.
    Killed,
}

/// What the keeper tells the front. Only output may be lost on the way to a slow front; a [`KeeperReport::Gap`] then
/// takes its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeeperReport {
    /// A run's program is running (its `exec` succeeded).
    Started {
        run: RunNumber,
        /// The direct child.
        pid: Pid,
        /// In clock ticks since boot. Together with the PID it identifies the process for good.
        start_time: u64,
        #[serde(default)]
        streams: TrainerStreams,
    },
    /// A run's program could not be started.
    SpawnFailed {
        run: RunNumber,
        errno: i32,
        /// The path that was tried.
        path: String,
        /// What happened and what to do.
        reason: String,
        /// oomph's exit code: 127, 126, or 125 if the failure is oomph's own.
        status: i32,
    },
    /// The trainer wrote something, passed on unchanged.
    Output {
        stream: OutputStream,
        bytes: Vec<u8>,
    },
    /// Output that came too fast for the front; the log has it.
    Gap { bytes: Bytes },
    /// A run is over: its direct child was reaped, and its output is complete.
    Exited {
        run: RunNumber,
        exit: Exit,
        /// Processes of its tree that are still alive.
        left: Vec<Pid>,
    },
    /// A sweep is over.
    Swept {
        /// What could not be ended: never start another run beside it. What was spared on purpose (a
        /// daemon that finishes an upload, another user's process) is named in a note.
        left: Vec<Pid>,
    },
    /// There can't be another run with the same standard input; why, and what to do.
    InputSpent { reason: String },
    /// A stop has reached this stage; the next follows after `within` unless the run ends first.
    Stopping { rung: StopStage, within: Duration },
    /// The direct child was suspended by a signal (SIGSTOP).
    Suspended { signal: i32 },
    /// The direct child continues after a suspension.
    Resumed,
    /// Output that did not reach the log since the last such report.
    Unlogged { bytes: Bytes },
    /// The log was given so many bytes of output by that moment, since the session began.
    Logged {
        bytes: Bytes,
        /// In microseconds on `CLOCK_MONOTONIC`.
        monotonic: u64,
    },
    /// A line for the user.
    Note(String),
    /// The first report to a later front.
    Welcome(SessionStatus),
    /// The end of the current run's output so far, for the screen only: an earlier front may have
    /// processed it.
    Recent(Vec<u8>),
    /// So much output was not delivered: the session was asked to end, and a reader of the user's pipe or
    /// terminal read nothing until that was to be over. The log has it.
    Undelivered { bytes: Bytes },
    /// Another front wants this one's place: make way.
    Superseded,
    /// A caller asked for the session to end; the run, if there is one, has already been signalled.
    StopAsked {
        /// Whether by SIGKILL.
        kill: bool,
    },
    /// A signal that a front which has stepped back received: to be treated as our own.
    Signalled(SentSignal),
    /// A process still has the terminal or a pipe open: the keeper outlives [`KeeperReport::Finished`], to serve it.
    Stays,
    /// The answer to [`KeeperOrder::Finish`]: everything is written, and no
    /// report follows. If the reports end without it, the keeper was lost.
    Finished,
}

/// What the keeper knows of the session at this moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionStatus {
    /// Where the output for the first front's terminal goes.
    pub io: Io,
    /// The latest run; `None` before the first.
    pub run: Option<RunStatus>,
    /// Whether a caller has asked for the session to end.
    pub stopping: bool,
    /// Whether there is a front now.
    pub front: bool,
    /// Why there can't be another run with the same standard input, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_spent: Option<String>,
    /// What the last front left for the next ([`KeeperOrder::Remember`]);
    /// only a front gets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
    /// The last front's summary for others ([`KeeperOrder::Describe`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub described: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunStatus {
    pub run: RunNumber,
    pub stage: RunStage,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStage {
    /// Before its exec.
    Starting,
    /// It is alive, or its last output is being read.
    Running {
        /// The direct child.
        pid: Pid,
        /// In clock ticks since boot.
        start_time: u64,
        #[serde(default)]
        streams: TrainerStreams,
    },
    Ended {
        exit: Exit,
        /// Processes of its tree that were still alive.
        left: Vec<Pid>,
    },
    /// It could not be started.
    Failed {
        /// oomph's exit code.
        status: i32,
    },
}

/// A request at the keeper's socket: the caller's first frame, and its only one unless it becomes
/// the front.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// Become the front in place of the current one. Answered by
    /// [`KeeperReport::Welcome`] once that has gone.
    Attach,
    /// Report the status.
    Look,
    /// End the session, as with [`KeeperOrder::Stop`]. The caller is told when
    /// runs and the session end.
    Stop,
    /// End the session by SIGKILL, answered like [`Call::Stop`].
    Kill,
    /// Treat a signal that the caller received as if the front had received it.
    Forward(SentSignal),
}

/// Why the keeper starts a front without a screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadlessFront {
    /// The front before it went away on purpose.
    Follows,
    /// The front before it died: what it may have died of is avoided.
    Replaces,
}

impl HeadlessFront {
    /// Its argument in the command line.
    pub fn word(self) -> &'static str {
        match self {
            HeadlessFront::Follows => "follows",
            HeadlessFront::Replaces => "replaces",
        }
    }

    pub fn of_word(word: &str) -> Option<HeadlessFront> {
        [HeadlessFront::Follows, HeadlessFront::Replaces]
            .into_iter()
            .find(|headless| headless.word() == word)
    }
}
