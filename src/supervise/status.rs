//! The status of a session as its keeper knows it, and the requests that callers may make.
//!
//! The recording says what happened, the keeper what is true now. If the two differ (a front was
//! killed in the middle of a line), the keeper is right.

use super::order::Io;
use super::sent_signal::SentSignal;
use super::streams::TrainerStreams;
use crate::event::Exit;
use crate::units::{Pid, RunNumber};
use serde::{Deserialize, Serialize};

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
    /// What the last front left for the next ([`KeeperOrder::Remember`](super::KeeperOrder::Remember));
    /// only a front gets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
    /// The last front's summary for others ([`KeeperOrder::Describe`](super::KeeperOrder::Describe)).
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
    /// [`KeeperReport::Welcome`](super::KeeperReport::Welcome) once that has gone.
    Attach,
    /// Report the status.
    Look,
    /// End the session, as with [`KeeperOrder::Stop`](super::KeeperOrder::Stop). The caller is told when
    /// runs and the session end.
    Stop,
    /// The same, by SIGKILL.
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
