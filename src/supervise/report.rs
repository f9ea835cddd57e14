//! What the keeper tells the front.

use super::sent_signal::SentSignal;
use super::status::SessionStatus;
use super::streams::{OutputStream, TrainerStreams};
use crate::event::Exit;
use crate::units::{Bytes, Pid, RunNumber};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A stage of a stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rung {
    /// SIGTERM was sent to the direct child.
    Asked,
    /// SIGTERM was sent to the whole tree.
    TreeAsked,
    /// SIGKILL was sent to everything that was left.
    Killed,
}

/// What happened. Only output may be lost on the way to a slow front; a [`KeeperReport::Gap`] then
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
    Stopping { rung: Rung, within: Duration },
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
    /// The answer to [`KeeperOrder::Finish`](super::KeeperOrder::Finish): everything is written, and no
    /// report follows. If the reports end without it, the keeper was lost.
    Finished,
}
