//! Whether an OOM can have ended its run, or was only read in its output: quoted from an older log, or
//! followed by a training that went well.

use super::{OomIncident, RankState, Run};
use crate::event::Exit;
use std::time::Duration;

/// A process that goes on for longer after an OOM was not ended by it. It unwinds, prints its
/// traceback, and is rehearsed.
pub(super) const UNWINDS: Duration = Duration::from_secs(10);

/// The allocator whose OOMs the probe always sees.
const WATCHED_BACKEND: &str = "native";

/// Steps of others that may still end after an OOM: those that were under way.
const UNDER_WAY: usize = 1;

/// Why an OOM is not taken for what ended a run that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    /// Training went on after it.
    WentOn,
    /// A message of one was read, and the probe saw none.
    Unseen,
    /// Its process lived on, and was killed later.
    KilledLater,
}

impl RankState {
    /// Whether its probe records every OOM of PyTorch's allocator.
    fn is_watched(&self) -> bool {
        self.hello.resting.is_none() && self.hello.backend.as_deref() == Some(WATCHED_BACKEND)
    }

    fn steps_since(&self, oom: &OomIncident) -> usize {
        let steps = self.steps.recent.iter();
        steps.filter(|(at, _)| *at > oom.at).count()
    }
}

impl Run {
    /// Why an OOM that was not caught does not count as the end of a run that failed, if it does not.
    pub(super) fn doubt(&self, oom: &OomIncident) -> Option<Doubt> {
        let told = [
            (self.went_on_after(oom), Doubt::WentOn),
            // What its process has said of its end is no matter of the rest.
            (
                !self.is_end_of_process(oom) && self.is_hearsay(oom),
                Doubt::Unseen,
            ),
            (
                !self.is_end_of_process(oom) && self.was_killed_later(oom),
                Doubt::KilledLater,
            ),
        ];
        told.into_iter()
            .find(|(is_so, _)| *is_so)
            .map(|(_, doubt)| doubt)
    }

    /// The latest OOM that was not caught and did not count.
    pub(super) fn doubtful_oom(&self) -> Option<(&OomIncident, Doubt)> {
        let oom = self.ooms.iter().rev().find(|oom| !oom.caught)?;
        Some((oom, self.doubt(oom)?))
    }

    /// Whether training went on after it: in a process that began later (a launcher or a script has
    /// started it again), or, where nobody knows whose it was, in any.
    fn went_on_after(&self, oom: &OomIncident) -> bool {
        let is_unclaimed = oom.record.is_none() && oom.pid.is_none() && oom.rank.is_none();
        self.ranks.iter().any(|rank| {
            let steps = rank.steps_since(oom);
            let is_later = rank.joined > oom.at && steps > 0;
            is_later || (is_unclaimed && steps > UNDER_WAY)
        })
    }

    /// Whether it was only read, of an allocator that every process of the run is watched for.
    fn is_hearsay(&self, oom: &OomIncident) -> bool {
        let is_of_the_allocator = |report: &crate::oom::OomReport| report.kind.spec().probed;
        oom.record.is_none()
            && oom.report.as_ref().is_some_and(is_of_the_allocator)
            && !self.ranks.is_empty()
            && self.ranks.iter().all(RankState::is_watched)
            && !self.ranks.iter().any(|rank| rank.ended_by_oom)
    }

    /// Whether its process lived on, and somebody has killed the run since. (One that nobody killed may
    /// have saved a checkpoint before it failed.)
    fn was_killed_later(&self, oom: &OomIncident) -> bool {
        let Some((ended, Exit::Signal(_))) = self.ended else {
            return false;
        };
        let process = oom.pid.and_then(|pid| self.rank_with(pid));
        self.stopped().is_none()
            && process
                .is_some_and(|rank| rank.disconnected.unwrap_or(ended).since(oom.at) > UNWINDS)
    }
}
