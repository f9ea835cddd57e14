//! The session's phase: one value instead of several flags.

use super::gate::Gate;
use crate::app::Ending;
use crate::app::session::NextRun;
use crate::event::{Exit, Exited};
use crate::units::Moment;

/// Runs follow each other through
/// `Starting → Running → Settling → Asking → Sweeping → Gating → Starting`.
#[derive(Debug)]
pub(in crate::app) enum SessionPhase {
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

/// What follows the end of the current run.
#[derive(Debug, Clone, Default)]
pub(in crate::app) enum AfterRun {
    /// The policy decides.
    #[default]
    Decide,
    /// The end: the user has asked to quit.
    Leave,
    /// Another run, which the user has already chosen.
    Relaunch(Box<NextRun>),
}
