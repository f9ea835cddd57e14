//! What others may know of a session while it lives: a few figures, the command without secrets.

use crate::state::State;
use crate::units::{Bytes, RunNumber};
use serde::{Deserialize, Serialize};

/// What a session does, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Activity {
    /// A run is being started.
    Starting,
    /// A run goes on.
    Running,
    /// A run was asked to end.
    Stopping,
    /// Memory ran out: a decision is awaited.
    Waiting,
    /// The next run is on its way.
    Relaunching,
    /// The session is at its end.
    Ending,
    /// Nobody says: the front is gone, or does not answer.
    Unknown,
}

impl Activity {
    /// The word for it.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Activity::Starting => "starting",
            Activity::Running => "running",
            Activity::Stopping => "stopping",
            Activity::Waiting => "waiting at OOM",
            Activity::Relaunching => "relaunching",
            Activity::Ending => "ending",
            Activity::Unknown => "unknown",
        }
    }
}

/// The figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Summary {
    #[serde(alias = "standing")]
    pub activity: Activity,
    /// Whether somebody sees its screen.
    pub attached: bool,
    /// The command of the present run, secrets masked.
    pub command: String,
    /// The present run.
    pub run: Option<RunNumber>,
    /// When the session began, in seconds since 1970.
    pub since: f64,
    /// The devices that the run uses, by name.
    pub devices: Vec<String>,
    /// The largest `allocated` of any of the present run's processes.
    pub peak: Option<Bytes>,
    /// Optimizer steps of the present run.
    pub steps: u64,
}

impl Summary {
    /// What is known now.
    pub(crate) fn of(state: &State, activity: Activity, attached: bool) -> Summary {
        let run = state.run();
        let session = state.session.as_ref();
        let ranks = run.map(|run| run.ranks.as_slice()).unwrap_or_default();
        let devices = (state.devices.iter())
            .filter(|device| (ranks.iter()).any(|rank| rank.device.as_ref() == Some(&device.uuid)))
            .map(|device| device.name.clone())
            .collect();
        let command = run.map(|run| &run.command);
        Summary {
            activity,
            attached,
            command: command
                .or(session.map(|session| &session.command))
                .map(|command| command.shown())
                .unwrap_or_default(),
            run: run.map(|run| run.number),
            since: session.map_or(0.0, |session| session.wall),
            devices,
            peak: run.and_then(|run| run.peak()),
            steps: run.map_or(0, |run| run.steps()),
        }
    }

    /// As the keeper holds it.
    pub(crate) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}
