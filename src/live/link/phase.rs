//! The session's phase: one value instead of several flags.

use super::gate::Gate;
use crate::collect::scheduler::SlurmJob;
use crate::event::{Exit, Exited};
use crate::live::Ending;
use crate::live::session::NextRun;
use crate::units::Moment;
use std::sync::mpsc::Receiver;

/// Runs follow each other through
/// `Starting → Running → Settling → Asking → Sweeping → Proving → Gating → Starting`.
#[derive(Debug)]
pub(in crate::live) enum SessionPhase {
    /// A run was ordered; the keeper has not answered yet.
    Starting,
    Running {
        then: AfterRun,
    },
    /// It was reaped; the last events of its probes may still be on their way.
    Settling {
        /// Applied once it has settled.
        exited: Exited,
        since: Moment,
        then: AfterRun,
    },
    /// Nothing runs: somebody chooses what follows.
    Asking {
        exit: Exit,
        since: Moment,
        /// If nobody is asked: until when to wait for earlier sessions.
        decide_by: Option<Moment>,
    },
    /// A relaunch was chosen; remaining processes of the last run are being ended.
    Sweeping {
        exit: Exit,
        next: NextRun,
    },
    /// They are gone; proof is awaited that those of other nodes are.
    Proving {
        exit: Exit,
        next: NextRun,
        proof: Proof,
    },
    /// They are gone; waiting for the device's memory.
    Gating {
        exit: Exit,
        next: NextRun,
        gate: Gate,
    },
    /// The session ends, or continues without this front.
    Leaving(Ending),
}

impl SessionPhase {
    pub(crate) fn asking(exit: Exit, since: Moment) -> SessionPhase {
        SessionPhase::Asking {
            exit,
            since,
            decide_by: None,
        }
    }

    /// How the last run ended, if none runs and another may follow.
    pub(crate) fn ended(&self) -> Option<Exit> {
        match self {
            SessionPhase::Asking { exit, .. }
            | SessionPhase::Sweeping { exit, .. }
            | SessionPhase::Proving { exit, .. }
            | SessionPhase::Gating { exit, .. } => Some(*exit),
            SessionPhase::Starting
            | SessionPhase::Running { .. }
            | SessionPhase::Settling { .. }
            | SessionPhase::Leaving(_) => None,
        }
    }

    /// Whether there is a run that can be signalled.
    pub(crate) fn has_run(&self) -> bool {
        matches!(self, SessionPhase::Starting | SessionPhase::Running { .. })
    }
}

/// What is known by now of ranks on other nodes.
#[derive(Debug)]
pub(in crate::live) struct Proof {
    pub begun: Moment,
    /// A question to the scheduler that has not been answered, and when the next one is due.
    pub asked: Option<Receiver<Result<SlurmJob, String>>>,
    pub ask_at: Moment,
    /// Its latest answer.
    pub answer: Option<Result<SlurmJob, String>>,
}

impl Proof {
    pub(in crate::live) fn begun(now: Moment) -> Proof {
        Proof {
            begun: now,
            asked: None,
            ask_at: now,
            answer: None,
        }
    }
}

/// What follows the end of the current run.
#[derive(Debug, Clone, Default)]
pub(in crate::live) enum AfterRun {
    /// The policy decides.
    #[default]
    Decide,
    /// The end: the user has asked to quit.
    Leave,
    /// Another run, which the user has already chosen.
    Relaunch(Box<NextRun>),
}
