//! What is wrong with a run that is alive, before any out-of-memory: a baseline that climbs, an
//! allocator that thrashes, a device that is gone. And when to say so: once.

use super::baseline_growth::baseline_growth;
use super::leak_forecast::leak_forecast;
use super::thrashing::{self, thrash};
use super::{Cause, Certainty, Evidence, Finding, device_fault};
use crate::event::{Level, Note};
use crate::state::{RankState, RunOutcome, State};
use crate::units::{Bytes, Moment, Rank, RunNumber, Uuid};
use std::time::Duration;

/// What is wrong with the current run while it goes on; nothing once it has ended, or while all is
/// well.
pub fn warnings(state: &State) -> Vec<Finding> {
    let Some(run) = state
        .run()
        .filter(|run| run.outcome() == RunOutcome::Running)
    else {
        return Vec::new();
    };
    let alive = || run.ranks.iter().filter(|rank| rank.gone.is_none());
    let mut found = Vec::new();
    for device in &state.devices {
        let Some(fault) = device_fault::fault(state, device) else {
            continue;
        };
        let is_ours = alive().any(|rank| rank.device.as_ref() == Some(&device.uuid));
        if is_ours {
            let headline = format!("The GPU itself failed: {fault}.");
            let mut finding = warning(Cause::DeviceFault, Certainty::Certain, headline);
            finding.device = Some(device.uuid.clone());
            finding.advice = device_fault::advice();
            found.push(finding);
        }
    }
    found.extend(alive().filter_map(|rank| leaking(state, rank)));
    found.extend(alive().filter_map(thrashing));
    found
}

fn warning(cause: Cause, certainty: Certainty, headline: String) -> Finding {
    Finding {
        cause,
        certainty,
        headline,
        explanation: String::new(),
        evidence: Vec::new(),
        advice: Vec::new(),
        device: None,
        rank: None,
        foreign: None,
    }
}

fn of_rank(finding: Finding, rank: &RankState) -> Finding {
    Finding {
        device: rank.device.clone(),
        rank: rank.hello.rank,
        ..finding
    }
}

fn leaking(state: &State, rank: &RankState) -> Option<Finding> {
    let capacity = state.device(rank.device.as_ref()?).and_then(|d| d.capacity);
    let climb = baseline_growth(&rank.steps, capacity)?;
    let per_step = Bytes(climb.per_step as u64);
    let coming = leak_forecast(state).filter(|forecast| forecast.rank == rank.hello.rank);
    let words = coming.map_or(String::new(), |forecast| format!("; {}", forecast.words()));
    let mut finding = warning(
        Cause::Leak,
        Certainty::Likely,
        format!("Memory leak: +{per_step} per step{words}."),
    );
    finding.explanation = format!(
        "What is allocated between steps has grown steadily over the last {} steps.",
        climb.steps
    );
    finding.evidence = vec![
        Evidence {
            what: "leak per step".into(),
            bytes: per_step,
        },
        Evidence {
            what: "leaked".into(),
            bytes: climb.total,
        },
    ];
    finding.advice = super::leak::advice();
    Some(of_rank(finding, rank))
}

fn thrashing(rank: &RankState) -> Option<Finding> {
    let thrash = thrash(&rank.steps)?;
    let headline = super::capacity::sentence(&thrash.words());
    let mut finding = warning(Cause::Thrashing, Certainty::Likely, headline);
    finding.explanation =
        "Each time the GPU waits while its memory is freed and reserved again.".into();
    finding.advice = thrashing::advice();
    Some(of_rank(finding, rank))
}

/// How often a run is looked at: a look costs some tenths of a millisecond.
const PAUSE: Duration = Duration::from_secs(1);

/// Says each warning once a run.
#[derive(Debug, Default)]
pub struct LiveWarnings {
    next: Moment,
    said: Vec<(RunNumber, GivenWarning)>,
}

/// One thing that was said.
#[derive(Debug)]
struct GivenWarning {
    who: (Cause, Option<Rank>, Option<Uuid>),
    /// With the step at which it will end.
    foretold: bool,
}

impl LiveWarnings {
    /// The notes that are due: what has come up since the last look. A leak is said again once it
    /// can be told when it will end.
    pub fn look(&mut self, state: &State) -> Vec<Note> {
        let Some(run) = state.run() else {
            return Vec::new();
        };
        if state.now < self.next {
            return Vec::new();
        }
        self.next = state.now + PAUSE;
        self.said.retain(|(number, _)| *number == run.number);
        let mut due = Vec::new();
        for finding in warnings(state) {
            let who = (finding.cause, finding.rank, finding.device.clone());
            let is_foretold = finding.cause == Cause::Leak && leak_forecast(state).is_some();
            let known = self.said.iter_mut().find(|(_, said)| said.who == who);
            match known {
                Some((_, said)) if said.foretold || !is_foretold => continue,
                Some((_, said)) => said.foretold = true,
                None => self.said.push((
                    run.number,
                    GivenWarning {
                        who,
                        foretold: is_foretold,
                    },
                )),
            }
            due.push(Note {
                level: Level::Warning,
                text: finding.headline,
            });
        }
        due
    }
}
