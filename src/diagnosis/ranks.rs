//! One OOM of many ranks: which ran out first, whether it alone needs so much, and what the others did
//! because of it.
//!
//! All ranks wait for each other in every step. So when one of them fails the others print errors of
//! their own, or are ended by the launcher: consequences, of which none is a cause.

use super::Cause;
use super::finding::{Aftermath, AmongRanks, NamedRank, Phrase, RankNeed, because, capitalized};
use crate::anatomy::RankExcess;
use crate::oom::ConsequenceKind;
use crate::state::{OomIncident, RankState, Run};
use crate::units::{Pid, Rank};
use std::collections::BTreeMap;
use std::time::Duration;

/// Ranks that run out within this time ran out together: so exactly are the clocks of nodes known.
const TOGETHER: Duration = Duration::from_millis(500);
/// Other OOMs of the same failure.
const BURST: Duration = Duration::from_secs(30);
/// A rank needs more than the others from this factor on. Batches of one length differ by less.
const MORE: f64 = 1.1;
/// The most consequences that are named.
const NAMED: usize = 4;

impl AmongRanks {
    /// `None` if there is one rank.
    pub(super) fn new(run: &Run, oom: &OomIncident) -> Option<AmongRanks> {
        let ranks = current(run);
        let of = (run.world_size().unwrap_or(0) as usize).max(ranks.len());
        if of < 2 {
            return None;
        }
        let failed = run.rank_of(oom);
        let also = also(run, oom);
        Some(AmongRanks {
            first: named(failed, oom.rank)?,
            of,
            whose: whose(&ranks, failed, oom, also.len()),
            holds_more: failed.and_then(|failed| RankExcess::of_fullest(run, failed)),
            aftermath: aftermath(run, oom),
            before: before(run, oom),
            also,
        })
    }

    /// "Rank 1 on gpu-2 ran out first, of 8 ranks."
    pub fn who(&self) -> String {
        let name = capitalized(&self.first.name);
        let together = |after: &u64| Duration::from_micros(*after) <= TOGETHER;
        let other = self.also.first().or(self.before.as_ref());
        if let (2, Some((other, after))) = (self.of, other)
            && together(after)
        {
            return format!(
                "Both ranks ran out together: {}, {}.",
                self.first.name, other.name
            );
        }
        match self.also.as_slice() {
            [] => match &self.before {
                Some((first, after)) if together(after) => format!(
                    "{name} and {} ran out together, of {} ranks.",
                    first.name, self.of
                ),
                Some((first, _)) => {
                    format!("{name} ran out after {}, of {} ranks.", first.name, self.of)
                }
                None => format!("{name} ran out, the only one of {} ranks.", self.of),
            },
            [(other, after)] if together(after) => {
                format!(
                    "{name} and {} ran out together, of {} ranks.",
                    other.name, self.of
                )
            }
            [(other, _)] => format!(
                "{name} ran out first, then {}, of {} ranks.",
                other.name, self.of
            ),
            several => {
                let all = several.len() + 1;
                format!(
                    "{name} ran out first, and {all} of {} ranks in all.",
                    self.of
                )
            }
        }
    }

    /// Whether it is this rank's own need.
    pub fn whose(&self) -> Option<String> {
        match &self.whose {
            RankNeed::OneRank {
                needed,
                others_at_most,
                keeps_more,
            } => {
                let needs = format!(
                    "No other rank needs so much: {others_at_most} at most, this one {needed} and more"
                );
                Some(match (keeps_more, self.first.rank) {
                    (Some(more), Some(Rank(0))) => format!(
                        "{needs}. It keeps {more} more than the others after each step: look at what only rank 0 does."
                    ),
                    (Some(more), _) => {
                        format!("{needs}. It keeps {more} more than the others after each step.")
                    }
                    (None, _) => {
                        format!("{needs}. Between steps they keep the same: its batch is larger.")
                    }
                })
            }
            RankNeed::AllRanks {
                others_at_most: Some(most),
            } => Some(format!(
                "The other ranks need about as much (up to {most}): it is not this rank alone."
            )),
            RankNeed::AllRanks {
                others_at_most: None,
            } => match self.also.len() + 1 == self.of {
                // Which has been said.
                true => None,
                false => Some("Most ranks ran out: it is not this rank alone.".into()),
            },
            RankNeed::Unknown => None,
        }
    }

    /// "Rank 0 holds 1.90 GiB more between steps (eval.py:40 evaluate); predictions are for the rank that needs most."
    pub fn who_holds_more(&self) -> Option<String> {
        let excess = self.holds_more.as_ref()?;
        let of = excess.of.as_ref().map(|of| format!(" ({})", of.words()));
        Some(format!(
            "{} between steps{}; predictions are for the rank that needs most.",
            capitalized(&excess.words()),
            of.unwrap_or_default()
        ))
    }

    /// "Consequences, not causes: a connection was closed (rank 0), the launcher ended the other ranks."
    pub fn what_followed(&self) -> Option<String> {
        let said = self.aftermath.iter().take(NAMED).map(|one| {
            let what = words(one.kind);
            match one.ranks.as_slice() {
                [] => what.to_string(),
                [Rank(rank)] => format!("{what} (rank {rank})"),
                several => format!("{what} ({} ranks)", several.len()),
            }
        });
        let said: Vec<String> = said.collect();
        (!said.is_empty()).then(|| format!("Consequences, not causes: {}.", said.join(", ")))
    }

    /// All that is to be said of it.
    pub fn sentences(&self) -> Vec<String> {
        let mut sentences = vec![self.who()];
        sentences.extend(self.whose());
        sentences.extend(self.who_holds_more());
        sentences.extend(self.what_followed());
        sentences
    }

    /// What to change in the program, where one rank has more to do than the others.
    pub(super) fn advice(&self, cause: Cause) -> Option<Phrase> {
        match (&self.whose, self.first.rank) {
            _ if !cause.spec().of_one_rank => None,
            (
                RankNeed::OneRank {
                    keeps_more: None, ..
                },
                _,
            ) => Some(
                "give every rank batches of one size: cap the tokens of a batch, or sort by length"
                    .into(),
            ),
            (
                RankNeed::OneRank {
                    keeps_more: Some(_),
                    ..
                },
                Some(Rank(0)),
            ) => Some(because(
                "share what only rank 0 does",
                "evaluation, gathered results, an EMA copy",
            )),
            (RankNeed::OneRank { .. } | RankNeed::AllRanks { .. } | RankNeed::Unknown, _) => None,
        }
    }
}

/// The latest process of each rank.
fn current(run: &Run) -> Vec<&RankState> {
    let mut latest: BTreeMap<Rank, &RankState> = BTreeMap::new();
    for rank in &run.ranks {
        if let Some(number) = rank.hello.rank {
            latest.insert(number, rank);
        }
    }
    latest.into_values().collect()
}

fn named(rank: Option<&RankState>, number: Option<Rank>) -> Option<NamedRank> {
    let number = number.or(rank?.hello.rank);
    Some(NamedRank {
        rank: number,
        node: rank.and_then(|rank| rank.hello.node.clone()),
        name: match (rank, number) {
            (Some(rank), _) => rank.name(),
            (None, Some(number)) => format!("rank {number}"),
            (None, None) => return None,
        },
    })
}

/// The rank that ran out shortly before this one, the first of them, and how many microseconds before.
fn before(run: &Run, oom: &OomIncident) -> Option<(NamedRank, u64)> {
    let is_another = |other: &&OomIncident| {
        let is_same = (other.pid.is_some() && other.pid == oom.pid)
            || (other.rank.is_some() && other.rank == oom.rank);
        !is_same && !other.caught && other.at < oom.at && oom.at.since(other.at) <= BURST
    };
    let first = run.ooms.iter().find(is_another)?;
    let name = named(run.rank_of(first), first.rank)?;
    Some((name, oom.at.since(first.at).as_micros() as u64))
}

/// The first OOM of each other rank in the same failure.
fn also(run: &Run, oom: &OomIncident) -> Vec<(NamedRank, u64)> {
    let mut seen: Vec<(Option<Pid>, Option<Rank>)> = vec![(oom.pid, oom.rank)];
    let mut also = Vec::new();
    for other in &run.ooms {
        let is_known = seen.iter().any(|(pid, rank)| {
            (pid.is_some() && *pid == other.pid) || (rank.is_some() && *rank == other.rank)
        });
        let after = other.at.since(oom.at);
        if is_known || other.caught || other.at < oom.at || after > BURST {
            continue;
        }
        let Some(name) = named(run.rank_of(other), other.rank) else {
            continue;
        };
        seen.push((other.pid, other.rank));
        also.push((name, after.as_micros() as u64));
    }
    also
}

fn whose(
    ranks: &[&RankState],
    failed: Option<&RankState>,
    oom: &OomIncident,
    also: usize,
) -> RankNeed {
    let is_failed = |rank: &RankState| failed.is_some_and(|failed| std::ptr::eq(failed, rank));
    // A rank in its first step may not have come to its peak.
    let others: Vec<&&RankState> = (ranks.iter())
        .filter(|rank| !is_failed(rank) && rank.steps.count > 0)
        .collect();
    let most = others.iter().map(|rank| rank.allocated_peak).max();
    if also > 0 && (also + 1) * 2 >= ranks.len() {
        return RankNeed::AllRanks {
            others_at_most: most,
        };
    }
    let (Some(most), Some(allocated), Some(requested)) = (most, oom.allocated(), oom.requested())
    else {
        return RankNeed::Unknown;
    };
    let needed = allocated + requested;
    if needed <= most.scale(MORE) {
        return RankNeed::AllRanks {
            others_at_most: Some(most),
        };
    }
    if also > 0 {
        return RankNeed::Unknown;
    }
    let floor = |rank: &RankState| rank.steps.baselines.last().map(|(_, bytes)| *bytes);
    let floors = others.iter().filter_map(|rank| floor(rank)).max();
    let keeps_more = failed
        .and_then(floor)
        .zip(floors)
        .map(|(own, others)| own - others)
        .filter(|more| more.scale(2.0) >= needed - most);
    RankNeed::OneRank {
        needed,
        others_at_most: most,
        keeps_more,
    }
}

fn aftermath(run: &Run, oom: &OomIncident) -> Vec<Aftermath> {
    let mut found: Vec<Aftermath> = Vec::new();
    let since = run.consequences.iter().filter(|(at, _)| *at >= oom.at);
    for (_, consequence) in since {
        let place = found.iter().position(|one| one.kind == consequence.kind);
        let place = place.unwrap_or_else(|| {
            found.push(Aftermath {
                kind: consequence.kind,
                ranks: Vec::new(),
            });
            found.len() - 1
        });
        let ranks = &mut found[place].ranks;
        ranks.extend(consequence.rank.filter(|rank| !ranks.contains(rank)));
    }
    found
}

fn words(kind: ConsequenceKind) -> &'static str {
    match kind {
        ConsequenceKind::CollectiveTimedOut => "a collective operation timed out",
        ConsequenceKind::ConnectionClosed => "the connection to a rank was closed",
        ConsequenceKind::Terminated => "a process was ended by SIGTERM",
        ConsequenceKind::Killed => "a process was ended by SIGKILL",
        ConsequenceKind::LauncherGaveUp => "the launcher ended the other ranks",
        ConsequenceKind::AllocationEnded => "the allocation ended",
        ConsequenceKind::NoSpace => "no space left on a file system",
        ConsequenceKind::WorkerGone => "a worker of an executor ended",
        ConsequenceKind::NoHandle => "cuBLAS or cuDNN could not be set up",
        ConsequenceKind::AnotherError | ConsequenceKind::Unknown => "another error",
    }
}
