//! What the keeper tells the front.

use super::status::SessionStatus;
use super::streams::{OutputStream, TrainerStreams};
use crate::event::Exit;
use crate::units::{Bytes, Pid, RunNumber};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How far a stop has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rung {
    /// The direct child has been asked (SIGTERM).
    Asked,
    /// Everything below it has been asked too.
    TreeAsked,
    /// Everything that is left has been killed.
    Killed,
}

/// What happened. Of all these only output may be lost on the way to a front that is too slow,
/// and then a [`KeeperReport::Gap`] stands in its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeeperReport {
    /// A run's program is running (its `exec` succeeded).
    Started {
        /// Which run.
        run: RunNumber,
        /// The direct child.
        pid: Pid,
        /// When the kernel says that it began, in clock ticks since boot; with the pid it names
        /// the process for good.
        start_time: u64,
        /// What its streams are.
        #[serde(default)]
        streams: TrainerStreams,
    },
    /// A run's program could not be started.
    SpawnFailed {
        /// Which run.
        run: RunNumber,
        /// The system's error number.
        errno: i32,
        /// The path that was tried.
        path: String,
        /// What happened and what to do.
        reason: String,
        /// What oomph should exit with: 127, 126, or 125 where the failure is our own.
        status: i32,
    },
    /// The trainer wrote something.
    Output {
        /// Where.
        stream: OutputStream,
        /// What, unchanged.
        bytes: Vec<u8>,
    },
    /// This many bytes of output came too fast for the front; the log has them.
    Gap {
        /// How many.
        bytes: Bytes,
    },
    /// A run is over: its direct child was reaped, and its output is complete.
    Exited {
        /// Which run.
        run: RunNumber,
        /// How it ended.
        exit: Exit,
        /// Processes of its tree that are still alive.
        left: Vec<Pid>,
    },
    /// A sweep is over.
    Swept {
        /// What could not be ended: never begin another run beside it. What was spared on purpose
        /// (a daemon that finishes an upload, another user's process) is told in a note.
        left: Vec<Pid>,
    },
    /// A stop goes on; the next rung comes after `within` unless the end comes first.
    Stopping {
        /// Which rung it is on.
        rung: Rung,
        /// How long this rung lasts at most.
        within: Duration,
    },
    /// The direct child was stopped by a signal (SIGSTOP, not an end).
    Suspended {
        /// The signal's number.
        signal: i32,
    },
    /// The direct child goes on after a stop.
    Resumed,
    /// This many bytes of output did not reach the log.
    Unlogged {
        /// How many since the last such report.
        bytes: Bytes,
    },
    /// Something worth telling the user.
    Note(String),
    /// The first report to a front that came later: how things stand.
    Welcome(SessionStatus),
    /// The last of the present run's output that the front before may have had: for the eye.
    Recent(Vec<u8>),
    /// Another front wants this one's place: make way.
    Superseded,
    /// Somebody asked for the session to end; the run, if there is one, has been told already.
    StopAsked {
        /// Whether by SIGKILL.
        kill: bool,
    },
    /// A signal, by number, reached a front that has stepped back: the present one is to deal with
    /// it as with its own.
    Signalled(i32),
    /// The answer to [`KeeperOrder::Finish`](super::KeeperOrder::Finish): everything is written, and the keeper
    /// says no more. An end of the reports without it means that the keeper was lost.
    Finished,
}
