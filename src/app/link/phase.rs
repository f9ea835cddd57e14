//! Where a session is between its runs: one value instead of a handful of flags.

use super::gate::Gate;
use crate::app::Ending;
use crate::app::session::NextRun;
use crate::event::{Exit, Exited};
use crate::units::Moment;

/// The lifecycle of a session. Runs follow each other through
/// `Starting → Running → Settling → Asking → Sweeping → Gating → Starting`.
#[derive(Debug)]
pub(in crate::app) enum SessionPhase {
    /// A run was ordered; the keeper has not answered yet.
    Starting,
    Running {
        then: AfterRun,
    },
    /// It was reaped; the last words of its probes may still be on their way.
    Settling {
        /// Folded when it has settled.
        exited: Exited,
        since: Moment,
        then: AfterRun,
    },
    /// The run is over, nothing runs, the device is free: somebody chooses what follows.
    Asking {
        exit: Exit,
        since: Moment,
        /// Where nobody is asked: until when earlier sessions are waited for.
        decide_by: Option<Moment>,
    },
    /// A relaunch was chosen; what is left of the last run's tree is being ended.
    Sweeping {
        exit: Exit,
        next: NextRun,
    },
    /// The tree is gone; the device's memory is awaited.
    Gating {
        exit: Exit,
        next: NextRun,
        gate: Gate,
    },
    /// The session ends, or goes on without this front.
    Leaving(Ending),
}

impl SessionPhase {
    /// Somebody is asked what follows, from now on.
    pub(crate) fn asking(exit: Exit, since: Moment) -> SessionPhase {
        SessionPhase::Asking {
            exit,
            since,
            decide_by: None,
        }
    }

    /// How the last run ended, while none runs and another may follow.
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

    /// Whether there is a run that can take a signal.
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
    /// The end: the user has asked to leave.
    Leave,
    /// Another run, which the user has chosen already.
    Relaunch(Box<NextRun>),
}
