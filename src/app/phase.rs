//! Where a session stands: one value instead of a handful of flags.

use super::Ending;
use super::gate::Gate;
use crate::command::CommandLine;
use crate::event::{Exit, Exited};
use crate::remedy::{FileCopy, Leftover, Remedy};
use crate::units::{Bytes, Moment, Pid};

/// The lifecycle of a session. Runs follow each other through
/// `Starting → Running → Settling → Asking → Sweeping → Gating → Starting`.
#[derive(Debug)]
pub enum Phase {
    /// A run was ordered; the keeper has not answered yet.
    Starting,
    /// A run goes on.
    Running {
        /// What follows its end.
        after: After,
    },
    /// It was reaped; the last words of its probes may still be on their way.
    Settling {
        /// How it ended; folded when it has settled.
        exited: Exited,
        /// Since when.
        since: Moment,
        /// What follows.
        after: After,
    },
    /// It ran out of memory and the dialog is open: nothing runs, the device is free.
    Asking {
        /// How it ended.
        exit: Exit,
        /// Since when.
        since: Moment,
    },
    /// A relaunch was chosen; what is left of the last run's tree is being ended.
    Sweeping {
        /// How the last run ended.
        exit: Exit,
        /// What is to be started.
        next: Next,
    },
    /// The tree is gone; the device's memory is awaited.
    Gating {
        /// How the last run ended.
        exit: Exit,
        /// What is to be started.
        next: Next,
        /// The gate.
        gate: Gate,
    },
    /// The session ends.
    Leaving(Ending),
}

/// What follows the end of a run.
#[derive(Debug, Clone, Default)]
pub enum After {
    /// Its outcome decides: the dialog, or the end.
    #[default]
    Decide,
    /// The end: the user has asked to leave.
    Leave,
    /// Another run, which the user has asked for already.
    Relaunch(Box<Next>),
}

/// The run that was chosen to follow.
#[derive(Debug, Clone)]
pub struct Next {
    /// Its command.
    pub command: CommandLine,
    /// The remedies that made it, in words.
    pub remedies: Vec<String>,
    /// The peak that is predicted for it.
    pub predicted_peak: Option<Bytes>,
    /// The same remedies, whole.
    pub applied: Vec<Remedy>,
    /// Edited copies of files that its command names, to be written first.
    pub files: Vec<FileCopy>,
    /// Processes that are waited for until they have left the device.
    pub awaited: Vec<Pid>,
    /// Those among them that were asked to end, and are killed after this instant.
    pub ending: Option<(Vec<Leftover>, Moment)>,
}
