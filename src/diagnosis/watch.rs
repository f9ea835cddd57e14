//! Problems of a running training before any OOM: a growing baseline, a thrashing allocator, a lost
//! device. Each is reported once.

use super::finding::{sentence, with_figures};
use super::fitted_growth::FittedGrowth;
use super::host_growth::filling;
use super::leak::{self, LeakForecast, leak_forecast};
use super::thrashing::{self, thrash};
use super::{Cause, Certainty, Finding, device_fault};
use crate::state::{RankState, Run, RunOutcome, State};
use crate::units::{Bytes, Moment, Rank, RunNumber, Uuid};
use std::time::Duration;

/// Problems of the current run; none once it has ended.
pub fn warnings(state: &State, fitted: &FittedGrowth) -> Vec<Finding> {
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
    let coming = leak_forecast(state, fitted);
    found.extend(alive().filter_map(|rank| leaking(state, fitted, coming.as_ref(), rank)));
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

fn leaking(
    state: &State,
    fitted: &FittedGrowth,
    coming: Option<&LeakForecast>,
    rank: &RankState,
) -> Option<Finding> {
    let capacity = state.device(rank.device.as_ref()?).and_then(|d| d.capacity);
    let climb = fitted.growth(rank, capacity)?;
    let (per_step, grown) = (Bytes(climb.per_step as u64), climb.so_far(&rank.steps));
    let certainty = leak::growth_certainty(state, fitted, rank, &climb);
    let coming = certain_leak(coming, certainty);
    let coming = coming.filter(|forecast| forecast.rank == rank.hello.rank);
    let what = match certainty {
        Certainty::Certain => "Memory leak",
        Certainty::Likely | Certainty::Possible => "Memory grows",
    };
    let words = coming.map_or(String::new(), |forecast| format!("; {}", forecast.words()));
    let headline = with_figures(what, format!("+{per_step} per step{words}"));
    let finding = Finding::new(Cause::Leak, certainty, headline)
        .says(grown.sentence())
        .shows([("leak per step", per_step), ("leaked", grown.bytes)])
        .advises(leak::advice());
    Some(of_rank(finding, rank))
}

/// The OOM to come, where the growth is certainly a leak. Of other growth no step is told: a cache or a list that is kept at a
/// size grows in the same way until it is full.
pub fn certain_leak(coming: Option<&LeakForecast>, certainty: Certainty) -> Option<&LeakForecast> {
    match certainty {
        Certainty::Certain => coming,
        Certainty::Likely | Certainty::Possible => None,
    }
}

fn thrashing(rank: &RankState) -> Option<Finding> {
    let headline = sentence(&thrash(&rank.steps)?.words());
    let finding = Finding::new(Cause::Thrashing, Certainty::Likely, headline)
        .says("Each time the GPU waits while its memory is freed and reserved again.")
        .advises(thrashing::advice(rank.hello.no_segments().is_none()));
    Some(of_rank(finding, rank))
}

/// The interval between looks, for each so many ranks: a look at one takes up to some tenths of a
/// millisecond.
const PAUSE: Duration = Duration::from_secs(1);
const RANKS: usize = 64;

/// What grew and has not grown for so many steps does not grow any more.
const STILL_FOR: u64 = 20;

/// What a look at a running training brought.
#[derive(Debug, Clone, PartialEq)]
pub enum LiveWarning {
    New(Box<Finding>),
    /// Growth that was warned of, and is not certain to go on, would fill the GPU soon.
    FullSoon,
    /// Growth that was warned of has ended: how sure it had been that it was a leak, and how it ended.
    Withdrawn(Box<Finding>),
}

/// Reports each warning once per run.
#[derive(Debug, Clone, Default)]
pub struct LiveWarnings {
    next: Moment,
    run: Option<RunNumber>,
    said: Vec<GivenWarning>,
    fitted: FittedGrowth,
}

#[derive(Debug, Clone)]
struct GivenWarning {
    who: (Cause, Option<Rank>, Option<Uuid>),
    /// Whether the step of a coming OOM was reported.
    is_forecast: bool,
    /// Whether it was reported that the GPU would be full soon.
    is_full_soon: bool,
    certainty: Certainty,
    /// The last step after which it was so.
    step: u64,
}

impl LiveWarnings {
    /// What is new since the last look. Growth is reported again once its end can be predicted and once it is
    /// certainly a leak, and withdrawn where it ends.
    pub fn look(&mut self, state: &State) -> Vec<LiveWarning> {
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
        self.fitted.follow(state);
        let coming = leak_forecast(state, &self.fitted);
        let is_soon = coming.as_ref().is_some_and(LeakForecast::is_soon);
        let mut due = Vec::new();
        for finding in warnings(state, &self.fitted) {
            let who = (finding.cause, finding.rank, finding.device.clone());
            let (certainty, step) = (finding.certainty, run.steps());
            let is_forecast =
                finding.cause == Cause::Leak && certain_leak(coming.as_ref(), certainty).is_some();
            match self.said.iter_mut().find(|said| said.who == who) {
                Some(said) => {
                    said.step = step;
                    // What is certain was reported as that.
                    let is_open = said.who.0 == Cause::Leak
                        && said.certainty != Certainty::Certain
                        && !said.is_full_soon;
                    if is_open && certainty != Certainty::Certain && is_soon {
                        said.is_full_soon = true;
                        due.push(LiveWarning::FullSoon);
                    }
                    let is_news = is_forecast && !said.is_forecast
                        || certainty == Certainty::Certain && said.certainty != certainty;
                    if !is_news {
                        continue;
                    }
                    said.is_forecast |= is_forecast;
                    said.certainty = certainty;
                }
                None => self.said.push(GivenWarning {
                    who,
                    is_forecast,
                    is_full_soon: false,
                    certainty,
                    step,
                }),
            }
            due.push(LiveWarning::New(Box::new(finding)));
        }
        due.extend(self.withdrawn(run));
        due
    }

    /// A run has ended: what is to be said of growth that was warned of where it ended well, and never filled the memory.
    pub fn ended(&mut self, state: &State) -> Option<String> {
        let run = state.run().filter(|run| Some(run.number) == self.run)?;
        let grew = |said: &GivenWarning| said.who.0 == Cause::Leak;
        let went_well = run.outcome() == RunOutcome::Finished && run.oom_count == 0;
        if !went_well || !self.said.iter().any(grew) {
            return None;
        }
        self.said.retain(|said| !grew(said));
        let ranks = run.ranks.iter();
        let most = ranks.filter_map(|rank| Some(rank.steps.baselines.last()?.1));
        let level = most.max().map_or(String::new(), |bytes| {
            format!(": {bytes} after the last step")
        });
        Some(format!(
            "The run ended well although its memory grew{level}."
        ))
    }

    /// Growth that was warned of and has ended.
    fn withdrawn(&mut self, run: &Run) -> Vec<LiveWarning> {
        if run.outcome() != RunOutcome::Running {
            return Vec::new();
        }
        let steps = run.steps();
        let over = (self.said).extract_if(.., |said| {
            said.who.0 == Cause::Leak && steps >= said.step + STILL_FOR
        });
        let between_steps = |device: &Option<Uuid>| {
            let ranks = run.alive().filter(|rank| rank.device == *device);
            ranks
                .filter_map(|rank| rank.steps.baselines.last())
                .max_by_key(|(step, _)| *step)
        };
        over.map(|said| {
            let level = between_steps(&said.who.2).map_or(String::new(), |(_, bytes)| {
                format!(": {bytes} after each step")
            });
            let words = format!(
                "Memory is steady again{level}; it stopped growing around step {}.",
                said.step
            );
            let over = Finding::new(Cause::Leak, said.certainty, words);
            LiveWarning::Withdrawn(Box::new(over))
        })
        .collect()
    }
}
