//! Problems of a running training before any OOM: a growing baseline, a thrashing allocator, a lost
//! device. Each is reported once.

use super::baseline_growth::baseline_growth;
use super::host_figures::filling;
use super::leak::{self, leak_forecast};
use super::thrashing::{self, thrash};
use super::wording::{sentence, with_figures};
use super::{Cause, Certainty, Finding, device_fault};
use crate::state::{RankState, RunOutcome, State};
use crate::units::{Bytes, Moment, Rank, RunNumber, Uuid};
use std::time::Duration;

/// Problems of the current run; none once it has ended.
pub fn warnings(state: &State) -> Vec<Finding> {
    let Some(run) = state
        .run()
        .filter(|run| run.outcome() == RunOutcome::Running)
    else {
        return Vec::new();
    };
    let alive = || run.alive();
    let mut found = Vec::new();
    for device in &state.devices {
        let is_ours = |rank: &RankState| rank.device.as_ref() == Some(&device.uuid);
        if let Some(fault) = device.fault(state).filter(|_| alive().any(is_ours)) {
            let headline = device_fault::headline(&fault);
            let finding = Finding::new(Cause::DeviceFault, Certainty::Certain, headline);
            found.push(Finding {
                device: Some(device.uuid.clone()),
                ..finding.advises(device_fault::advice())
            });
        }
    }
    found.extend(filling(state));
    found.extend(alive().filter_map(|rank| leaking(state, rank)));
    found.extend(alive().filter_map(thrashing));
    found
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
    let headline = with_figures("Memory leak", format!("+{per_step} per step{words}"));
    let finding = Finding::new(Cause::Leak, Certainty::Likely, headline)
        .says(leak::grown(&climb))
        .shows([("leak per step", per_step), ("leaked", climb.total)])
        .advises(leak::advice());
    Some(of_rank(finding, rank))
}

fn thrashing(rank: &RankState) -> Option<Finding> {
    let headline = sentence(&thrash(&rank.steps)?.words());
    let finding = Finding::new(Cause::Thrashing, Certainty::Likely, headline)
        .says("Each time the GPU waits while its memory is freed and reserved again.")
        .advises(thrashing::ADVICE);
    Some(of_rank(finding, rank))
}

/// The interval between looks, for each so many ranks: a look at one takes up to some tenths of a
/// millisecond.
const PAUSE: Duration = Duration::from_secs(1);
const RANKS: usize = 64;

/// Reports each warning once per run.
#[derive(Debug, Default)]
pub struct LiveWarnings {
    next: Moment,
    run: Option<RunNumber>,
    said: Vec<GivenWarning>,
}

#[derive(Debug)]
struct GivenWarning {
    who: (Cause, Option<Rank>, Option<Uuid>),
    /// Whether the step of a coming OOM was reported.
    is_forecast: bool,
}

impl LiveWarnings {
    /// New findings since the last look. A leak is reported again once its end can be predicted.
    pub fn look(&mut self, state: &State) -> Vec<Finding> {
        let Some(run) = state.run() else {
            return Vec::new();
        };
        if state.now < self.next {
            return Vec::new();
        }
        self.next = state.now + PAUSE * run.ranks.len().div_ceil(RANKS).max(1) as u32;
        if self.run.replace(run.number) != Some(run.number) {
            self.said.clear();
        }
        let mut due = Vec::new();
        for finding in warnings(state) {
            let who = (finding.cause, finding.rank, finding.device.clone());
            let is_forecast = finding.cause == Cause::Leak && leak_forecast(state).is_some();
            match self.said.iter_mut().find(|said| said.who == who) {
                Some(said) if said.is_forecast || !is_forecast => continue,
                Some(said) => said.is_forecast = true,
                None => self.said.push(GivenWarning { who, is_forecast }),
            }
            due.push(finding);
        }
        due
    }
}
