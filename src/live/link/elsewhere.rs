//! Whether the ranks of the last run are gone on every node: two trainings must never write to one
//! checkpoint directory.
//!
//! Pure. No process of ours is on the other nodes, so it rests on what can be known from here: the
//! scheduler's word that the step has ended, or the last line of every rank's file. A rank that was killed
//! says nothing, and a node that does not answer proves nothing.

#[cfg(test)]
mod tests;

use crate::collect::scheduler::SlurmJob;
use crate::recognize::Reach;
use crate::state::{RankState, Run, ranges};
use crate::units::{Moment, Pid};
use std::collections::BTreeSet;
use std::time::Duration;

/// A process that has said its last word still ends: it gives its GPU's memory back.
const ENDS: Duration = Duration::from_secs(3);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RanksGone {
    /// By whose word.
    Proven(String),
    /// Not yet, or never; what is missing.
    NotProven(String),
    /// Nothing is to be started, whatever is known later.
    Never(String),
}

/// What is known when the next run is to start.
pub(crate) struct RemoteRankCheck<'a> {
    pub run: &'a Run,
    /// Of the last run's command.
    pub reach: &'a Reach,
    /// What SLURM says, if this is one of its jobs.
    pub job: Option<&'a Result<SlurmJob, String>>,
    /// The step of srun that oomph itself runs in.
    pub own_step: Option<u32>,
    /// Whether a process of this node still exists.
    pub exists: &'a dyn Fn(Pid) -> bool,
    pub now: Moment,
}

/// Whether ranks may be elsewhere at all.
pub(crate) fn may_be_elsewhere(run: &Run, reach: &Reach) -> bool {
    reach.is_far() || run.is_spread()
}

impl RemoteRankCheck<'_> {
    pub(crate) fn verdict(&self) -> RanksGone {
        if *self.reach == Reach::OneOfMany {
            return RanksGone::Never(
                "each node has a launcher of its own, and all of them need the same change".into(),
            );
        }
        match self.job {
            Some(Ok(job)) if job.state != "RUNNING" => {
                RanksGone::Never(format!("the allocation is {}", job.state.to_lowercase()))
            }
            Some(Ok(job)) => match self.by_step(job) {
                Ok(()) => RanksGone::Proven("SLURM says that its step has ended".into()),
                Err(why) => self.by_files(Some(why)),
            },
            Some(Err(why)) => self.by_files(Some(why.clone())),
            None => self.by_files(None),
        }
    }

    /// By the scheduler's word.
    fn by_step(&self, job: &SlurmJob) -> Result<(), String> {
        if let Some(node) = job.silent_nodes.first() {
            return Err(format!("node {node} does not answer"));
        }
        let known: BTreeSet<u32> = self.run.ranks.iter().filter_map(step).collect();
        let is_outside = |rank: &RankState| !rank.hello.pid.is_here() && step(rank).is_none();
        let by_srun = matches!(self.reach, Reach::OneLauncher(name) if name == "srun");
        let outside = self.run.ranks.iter().find(|rank| is_outside(rank));
        if let Some(rank) = outside.filter(|_| !by_srun) {
            return Err(format!("{} is no task of a step of SLURM's", rank.name()));
        }
        let may_be_outside = match self.reach {
            Reach::OneLauncher(_) => !by_srun,
            Reach::ThisNode | Reach::OneOfMany | Reach::Unknown => self.run.is_spread(),
        };
        if known.is_empty() && may_be_outside {
            return Err("it is not known which step of SLURM's the other ranks belong to".into());
        }
        let is_of_run = |step: &&u32| match known.is_empty() {
            true => Some(**step) != self.own_step,
            false => known.contains(step),
        };
        match job.steps.iter().find(is_of_run) {
            Some(step) => Err(format!("step {step} has not ended")),
            None => Ok(()),
        }
    }

    /// By the last lines of their files; `otherwise` is what the scheduler lacks.
    fn by_files(&self, otherwise: Option<String>) -> RanksGone {
        let ranks = &self.run.ranks;
        let is_alive = |rank: &&RankState| match rank.hello.pid.is_here() {
            true => (self.exists)(rank.hello.pid),
            false => !rank.said_end,
        };
        let said = match (self.run.world_size(), self.run.unseen().as_slice()) {
            _ if ranks.is_empty() => Err("no rank was seen".to_string()),
            (None, _) => Err("it is not known how many ranks there are".into()),
            (Some(_), []) => Ok(()),
            (Some(_), unseen) => Err(format!("rank {} was never seen", ranges(unseen))),
        };
        let said = said.and_then(|()| match ranks.iter().find(is_alive) {
            Some(rank) => Err(format!("{} has not said that it ended", rank.name())),
            None => Ok(()),
        });
        match said {
            Ok(()) if self.is_long_ago() => {
                RanksGone::Proven("each of them has said that it ended".into())
            }
            Ok(()) => RanksGone::NotProven("the last rank is ending".into()),
            Err(of_files) => RanksGone::NotProven(otherwise.unwrap_or(of_files)),
        }
    }

    fn is_long_ago(&self) -> bool {
        let ended = self.run.ranks.iter().filter_map(|rank| rank.disconnected);
        ended.max().is_some_and(|last| self.now >= last + ENDS)
    }
}

/// The number of its step of srun.
fn step(rank: &RankState) -> Option<u32> {
    let (_, step) = rank.hello.slurm_step.as_ref()?.rsplit_once('.')?;
    // The batch script and interactive shells have the highest ones (`slurm.h`).
    step.parse().ok().filter(|number| *number < 0xffff_fff0)
}
