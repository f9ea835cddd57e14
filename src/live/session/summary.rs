//! The public summary of a running session: a few figures, and the command without secrets.

use crate::diagnosis::Finding;
use crate::event::displayed;
use crate::state::State;
use crate::units::{Bytes, Moment, RunNumber, Uuid};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Activity {
    Starting,
    Running,
    Stopping,
    /// Waiting for a decision after an OOM.
    Waiting,
    /// The last run has ended without an OOM, and the screen stays.
    Held,
    Relaunching,
    Ending,
    /// The front is gone, or doesn't answer, or is a later version's.
    #[serde(other)]
    Unknown,
}

impl Activity {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Activity::Starting => "starting",
            Activity::Running => "running",
            Activity::Stopping => "stopping",
            Activity::Waiting => "waiting at OOM",
            Activity::Held => "ended, held open",
            Activity::Relaunching => "relaunching",
            Activity::Ending => "ending",
            Activity::Unknown => "unknown",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Summary {
    #[serde(alias = "standing")]
    pub activity: Activity,
    pub attached: bool,
    /// Secrets masked.
    pub command: String,
    pub run: Option<RunNumber>,
    /// The session's start, in seconds since 1970.
    pub since: f64,
    /// The names of the devices that the run uses.
    pub devices: Vec<String>,
    /// The largest `allocated` of any process of the current run.
    pub peak: Option<Bytes>,
    /// What counts against the limit of the host's memory, and that limit.
    #[serde(default)]
    pub ram: Option<(Bytes, Bytes)>,
    pub steps: u64,
    /// What runs took that have ended, in seconds.
    #[serde(default)]
    pub ran: Option<f64>,
    /// When the current run began, in seconds since 1970, while it goes on.
    #[serde(default)]
    pub running_since: Option<f64>,
    /// Since when somebody is asked what to do.
    #[serde(default)]
    pub waiting_since: Option<f64>,
    /// Why memory ran out, while somebody is asked.
    #[serde(default)]
    pub cause: Option<String>,
    /// The same as a sentence.
    #[serde(default)]
    pub told: Option<String>,
}

impl Summary {
    pub(crate) fn new(
        state: &State,
        findings: &[Finding],
        activity: Activity,
        attached: bool,
    ) -> Summary {
        let run = state.run();
        let session = state.session.as_ref();
        let ranks = run.into_iter().flat_map(|run| &run.ranks);
        let used: HashSet<&Uuid> = ranks.filter_map(|rank| rank.device.as_ref()).collect();
        let devices = (state.devices.iter())
            .filter(|device| used.contains(&device.uuid))
            .map(|device| device.name.clone())
            .collect();
        let command = run.map(|run| &run.command);
        let since = session.map_or(0.0, |session| session.wall);
        let wall = |at: Moment| since + at.since(Moment::ZERO).as_secs_f64();
        let ended = run.and_then(|run| Some(run.ended?.0));
        let is_asked = activity == Activity::Waiting;
        Summary {
            activity,
            attached,
            command: command
                .or(session.map(|session| &session.command))
                .map(displayed)
                .unwrap_or_default(),
            run: run.map(|run| run.number),
            since,
            devices,
            peak: run.and_then(|run| run.peak()),
            ram: (state.host.latest()).map(|(_, memory)| (memory.used, memory.limit)),
            steps: run.map_or(0, |run| run.steps()),
            ran: Some(state.ended_runs_took().as_secs_f64()),
            running_since: run
                .filter(|run| run.ended.is_none())
                .map(|run| wall(run.started)),
            waiting_since: ended.filter(|_| is_asked).map(wall),
            cause: (findings.first().filter(|_| is_asked))
                .map(|finding| finding.cause.spec().title.to_string()),
            told: (findings.first().filter(|_| is_asked))
                .map(|finding| finding.headline.to_string()),
        }
    }

    pub(crate) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}
