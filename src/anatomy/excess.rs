//! What one rank of a training holds between steps beyond another, at the same step: how much, and what most of it is.

use super::{StepAnatomy, by_line};
use crate::event::{SourceLine, StepTrace, Structure};
use crate::state::{RankState, Run};
use crate::units::{Bytes, Pid, Rank};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// A smaller share of what a rank allocates is within the interval of any figure.
const NOTABLE: f64 = 0.005;

/// A rank that holds more than the one that ran out of memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RankExcess {
    #[serde(skip)]
    pub pid: Pid,
    pub rank: Option<Rank>,
    /// `rank 0`.
    pub name: String,
    pub more: Bytes,
    /// What most of it is, if that is known.
    pub of: Option<ExcessOf>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ExcessOf {
    /// Its parameters, gradients and optimizer state.
    States,
    /// What this line of the program allocated.
    Line(SourceLine),
}

impl RankExcess {
    /// The rank that holds most of those that hold more than this one, at the latest step that both have ended.
    pub fn of_fullest(run: &Run, than: &RankState) -> Option<RankExcess> {
        // A rank that was started again has a later process.
        let mut latest: BTreeMap<Rank, &RankState> = BTreeMap::new();
        for rank in &run.ranks {
            if let Some(number) = rank.hello.rank {
                latest.insert(number, rank);
            }
        }
        let others = latest
            .into_values()
            .filter(|rank| rank.hello.rank != than.hello.rank);
        let more = |rank: &RankState| {
            let (held, own) = at_the_same_step(rank, than)?;
            Some(held - own)
        };
        let each = others.filter_map(|rank| Some((rank, more(rank)?)));
        let (rank, more) = each.max_by_key(|(_, more)| *more)?;
        let is_notable = more > than.allocated_peak.scale(NOTABLE) && more > Bytes::ZERO;
        is_notable.then(|| RankExcess {
            pid: rank.hello.pid,
            rank: rank.hello.rank,
            name: rank.name(),
            more,
            of: ExcessOf::most_of(more, rank, than),
        })
    }

    /// `rank 0 holds 1.90 GiB more`.
    pub fn words(&self) -> String {
        format!("{} holds {} more", self.name, self.more)
    }
}

impl ExcessOf {
    /// What at least half of it is.
    fn most_of(more: Bytes, rank: &RankState, than: &RankState) -> Option<ExcessOf> {
        let is_most = |part: &Bytes| part.scale(2.0) >= more;
        let states = |rank: &RankState| rank.structure.as_ref().map(Structure::total);
        let states = states(rank).zip(states(than)).map(|(a, b)| a - b);
        if states.is_some_and(|states| is_most(&states)) {
            return Some(ExcessOf::States);
        }
        let (theirs, own) = alike(rank, than)?;
        let own = lines_before(own)?;
        let beyond = lines_before(theirs)?.into_iter().map(|(line, bytes)| {
            let own = own.get(&line).copied().unwrap_or_default();
            (line, bytes - own)
        });
        let (line, bytes) = beyond.max_by_key(|(_, bytes)| *bytes)?;
        is_most(&bytes).then_some(ExcessOf::Line(line))
    }

    /// `parameters, gradients, optimizer`, `eval.py:40 evaluate`.
    pub fn words(&self) -> String {
        match self {
            ExcessOf::States => "parameters, gradients, optimizer".into(),
            ExcessOf::Line(line) => line.path_to(None, ""),
        }
    }
}

/// What two ranks had allocated after the same step.
fn at_the_same_step(a: &RankState, b: &RankState) -> Option<(Bytes, Bytes)> {
    let theirs = &b.steps.baselines;
    a.steps.baselines.iter().rev().find_map(|(step, held)| {
        let at = theirs.binary_search_by_key(step, |(step, _)| *step).ok()?;
        Some((*held, theirs[at].1))
    })
}

/// A traced step of each, the same where there is one.
fn alike<'a>(a: &'a RankState, b: &'a RankState) -> Option<(&'a StepTrace, &'a StepTrace)> {
    let whole = |rank: &'a RankState| rank.traces.all().rev().filter(|trace| !trace.failed);
    let same = whole(a).find_map(|one| {
        let other = whole(b).find(|other| other.step == one.step)?;
        Some((one, other))
    });
    same.or_else(|| Some((whole(a).next()?, whole(b).next()?)))
}

/// What each line holds when the step begins.
fn lines_before(step: &StepTrace) -> Option<HashMap<SourceLine, Bytes>> {
    let anatomy = StepAnatomy::new(step).ok()?;
    let mut held: HashMap<SourceLine, Bytes> = HashMap::new();
    for holding in by_line(&anatomy, 0) {
        if let Some(line) = holding.line {
            *held.entry(line).or_default() += holding.bytes;
        }
    }
    Some(held)
}
