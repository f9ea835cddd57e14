//! The ranks beside the one whose OOM is shown: those that ran out as well, with the rehearsals of their own steps, and the one
//! that holds more between steps. What a remedy needs is what the rank needs that needs most.

use super::failed_runs::{rehearsed, room_at};
use super::{RemedyInputs, rank_of};
use crate::anatomy::RankExcess;
use crate::event::Phase;
use crate::forecast::{OtherNeed, OtherRank, Rehearsed};
use crate::recognize::WorkloadKey;
use crate::state::{OomIncident, RankState, Run, State};
use crate::units::Bytes;
use std::time::Duration;

/// OOMs of one failure.
const BURST: Duration = Duration::from_secs(30);

/// What is known of the others.
#[derive(Debug, Clone, Default)]
pub(super) struct BesideTheFailed {
    pub ranks: Vec<OtherRank>,
    /// The one that holds more between steps.
    pub excess: Option<RankExcess>,
    /// The least that one of those could have had that ran out.
    pub room: Option<Bytes>,
}

impl BesideTheFailed {
    pub fn new(
        inputs: &RemedyInputs<'_>,
        oom: &OomIncident,
        reading: &WorkloadKey,
    ) -> BesideTheFailed {
        let run = inputs.forecast.state.and_then(State::run);
        let (Some(run), Some(failed)) = (run, rank_of(inputs, oom)) else {
            return BesideTheFailed::default();
        };
        let also = also(run, oom, failed);
        let own = failed.rehearsal.as_ref();
        let steps: Vec<(&RankState, Rehearsed)> = (also.iter())
            .filter(|(rank, _)| rank.rehearsal.as_ref() != own)
            .filter_map(|(rank, _)| Some((*rank, rehearsed(rank, reading)?)))
            .collect();
        // Ranks may be hundreds, and a replay takes its time: it is worth it for the largest step, and for the one beside which
        // most lies, which is the largest where a remedy leaves little of the step.
        let by_step = steps.iter().max_by_key(|(_, step)| step.at_once());
        let by_rest = steps.iter().max_by_key(|(_, step)| step.before());
        let mut ranks: Vec<OtherRank> = Vec::new();
        for (rank, step) in by_step.into_iter().chain(by_rest) {
            let name = rank.name();
            if ranks.iter().all(|known| known.name != name) {
                ranks.push(OtherRank {
                    name,
                    need: OtherNeed::Rehearsed(Box::new(step.clone())),
                });
            }
        }
        // Of one that ran out its own rehearsal says what it needs.
        let is_known =
            |excess: &RankExcess| steps.iter().any(|(rank, _)| rank.hello.pid == excess.pid);
        let excess = RankExcess::of_fullest(run, failed).filter(|excess| !is_known(excess));
        ranks.extend(excess.as_ref().map(|excess| OtherRank {
            name: excess.name.clone(),
            need: OtherNeed::Holds(excess.more),
        }));
        BesideTheFailed {
            ranks,
            excess,
            room: also.iter().filter_map(|(_, oom)| room_at(oom)).min(),
        }
    }

    /// Whose figures are shown, and why: `for rank 0, which holds 1.90 GiB more`.
    pub fn words(&self, deciding: &OtherRank) -> String {
        let name = &deciding.name;
        match (&deciding.need, &self.excess) {
            (OtherNeed::Holds(more), Some(excess)) => {
                let of = excess.of.as_ref().map(|of| format!(" ({})", of.words()));
                let of = of.unwrap_or_default();
                format!("for {name}, which holds {more} more{of}")
            }
            (OtherNeed::Holds(more), None) => format!("for {name}, which holds {more} more"),
            (OtherNeed::Rehearsed(_), _) => format!("for {name}, which needs most"),
        }
    }
}

/// The other ranks that ran out in a step in the same failure, with their OOMs.
fn also<'a>(
    run: &'a Run,
    oom: &OomIncident,
    failed: &RankState,
) -> Vec<(&'a RankState, &'a OomIncident)> {
    let of_failure = run.ooms.iter().filter(|other| {
        let apart = other.at.since(oom.at).max(oom.at.since(other.at));
        let phase = other.record.as_ref().map(|record| record.phase);
        let in_a_step = match phase {
            Some(Phase::Forward | Phase::Backward | Phase::Optimizer) => true,
            Some(Phase::Load | Phase::Evaluation | Phase::Unknown) | None => false,
        };
        in_a_step && !other.caught && apart <= BURST
    });
    let mut found: Vec<(&RankState, &OomIncident)> = Vec::new();
    for other in of_failure {
        let Some(rank) = run.rank_of(other) else {
            continue;
        };
        let is_new = found
            .iter()
            .all(|(known, _)| known.hello.pid != rank.hello.pid);
        if is_new && rank.hello.pid != failed.hello.pid {
            found.push((rank, other));
        }
    }
    found
}
