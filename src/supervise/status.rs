//! The state of a session as its keeper knows it, and what callers may ask of the keeper.
//!
//! The recording says what happened, the keeper what is the case now. Where the two differ (a front
//! was killed in the middle of a line) the keeper is right.

use super::order::Io;
use super::streams::TrainerStreams;
use crate::event::Exit;
use crate::units::{Pid, RunNumber};
use serde::{Deserialize, Serialize};

/// How a session stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionStatus {
    /// Where output that is meant for the first front's terminal goes.
    pub io: Io,
    /// The latest run; `None` before there was one.
    pub run: Option<RunStatus>,
    /// Whether somebody asked for the session to end.
    pub stopping: bool,
    /// Whether a front follows the session at the moment.
    pub front: bool,
    /// What the last front left for the next ([`KeeperOrder::Remember`](super::KeeperOrder::Remember)); only a
    /// front is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
    /// What the last front said of the session for others ([`KeeperOrder::Describe`](super::KeeperOrder::Describe)).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub described: Option<String>,
}

/// How a run stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunStatus {
    /// Which.
    pub run: RunNumber,
    /// How far it has come.
    pub stage: RunStage,
}

/// How far a run has come, as far as others need to know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStage {
    /// Its program is not there yet.
    Starting,
    /// It is alive, or its last output is being taken out.
    Running {
        /// The direct child.
        pid: Pid,
        /// When it began, in clock ticks since boot.
        start_time: u64,
        /// What its streams are.
        #[serde(default)]
        streams: TrainerStreams,
    },
    /// It is over.
    Ended {
        /// How it ended.
        exit: Exit,
        /// Processes of its tree that were alive then.
        left: Vec<Pid>,
    },
    /// It could not be started.
    Failed {
        /// What to exit with.
        status: i32,
    },
}

/// What a caller at the keeper's socket asks for: its first and only frame, unless it becomes the
/// front.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// To be the front, in place of the one there is. Answered by
    /// [`KeeperReport::Welcome`](super::KeeperReport::Welcome) once that has gone.
    Attach,
    /// To be told how the session stands.
    Look,
    /// That the session ends, as [`KeeperOrder::Stop`](super::KeeperOrder::Stop) has it. The caller hears of the
    /// ends of runs, and of the session's.
    Stop,
    /// The same, by SIGKILL.
    Kill,
    /// That a signal which reached the caller is dealt with as one that reached the front.
    Forward(i32),
}

/// How a new front comes to its keeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadlessFront {
    /// The front before it went away on purpose.
    Follows,
    /// The front before it died: whatever it died of is kept away from.
    Replaces,
}
