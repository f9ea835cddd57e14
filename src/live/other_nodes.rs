//! Whether the ranks of the last run are gone on every node: two trainings must never write to one
//! checkpoint directory.
//!
//! Pure. No process of ours is on the other nodes, so it rests on what can be known from here: the
//! scheduler's word that the step has ended, or the last line of every rank's file. A rank that was killed
//! says nothing, and a node that does not answer proves nothing.

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{EventKind, Hello, ProbeGone};
    use crate::state::tests::staged::{StagedSession, exited, hello, started};

    fn job(steps: &[u32]) -> SlurmJob {
        SlurmJob {
            state: "RUNNING".into(),
            steps: steps.to_vec(),
            silent_nodes: Vec::new(),
        }
    }

    fn there(rank: u32) -> Pid {
        Pid::elsewhere(1, 100 + rank as i32).unwrap()
    }

    /// Rank 0 is here, rank 1 elsewhere, both in step 3.
    fn two(step: Option<&str>) -> StagedSession {
        let mut scene = StagedSession::default();
        scene.add(0.0, started(1, 10, "srun -N2 python train.py"));
        for (rank, pid) in [(0, Pid(100)), (1, there(1))] {
            let EventKind::Hello(known) = hello(1, pid.0, Some(rank)) else {
                unreachable!()
            };
            scene.add(
                1.0,
                EventKind::Hello(Hello {
                    pid,
                    slurm_step: step.map(str::to_string),
                    ..known
                }),
            );
        }
        scene
    }

    fn says_end(scene: &mut StagedSession, at: f64, rank: u32) {
        let gone = ProbeGone {
            pid: there(rank),
            reason: None,
            said_end: true,
        };
        scene.add(at, EventKind::ProbeGone(gone));
    }

    fn verdict(
        scene: &StagedSession,
        reach: &Reach,
        job: Option<Result<SlurmJob, String>>,
    ) -> RanksGone {
        RemoteRankCheck {
            run: scene.state.run().unwrap(),
            reach,
            job: job.as_ref(),
            own_step: None,
            exists: &|_| false,
            now: Moment::from_secs_f64(30.0),
        }
        .verdict()
    }

    fn one(name: &str) -> Reach {
        Reach::OneLauncher(name.into())
    }

    fn missing(what: &str) -> RanksGone {
        RanksGone::NotProven(what.into())
    }

    fn by_slurm() -> RanksGone {
        RanksGone::Proven("SLURM says that its step has ended".into())
    }

    fn by_files() -> RanksGone {
        RanksGone::Proven("each of them has said that it ended".into())
    }

    #[test]
    fn the_step_of_the_ranks_has_ended_or_not() {
        let scene = two(Some("12.3"));
        let ask = |steps: &[u32]| verdict(&scene, &one("srun"), Some(Ok(job(steps))));
        assert_eq!(ask(&[]), by_slurm());
        // Another srun of the same job goes on.
        assert_eq!(ask(&[1, 7]), by_slurm());
        assert_eq!(ask(&[1, 3]), missing("step 3 has not ended"));
    }

    #[test]
    fn where_no_step_is_known_none_may_be_left() {
        let scene = two(None);
        let ask = |reach: &Reach, steps: &[u32]| verdict(&scene, reach, Some(Ok(job(steps))));
        assert_eq!(ask(&one("srun"), &[]), by_slurm());
        assert_eq!(ask(&one("srun"), &[1]), missing("step 1 has not ended"));
        // mpirun may have started them over ssh, which the scheduler knows nothing of.
        let outside = missing("rank 1 is no task of a step of SLURM's");
        assert_eq!(ask(&one("mpirun"), &[]), outside);
        assert_eq!(
            verdict(&two(Some("12.3")), &one("mpirun"), Some(Ok(job(&[])))),
            by_slurm()
        );
    }

    #[test]
    fn the_step_that_oomph_runs_in_is_not_awaited() {
        let scene = two(None);
        let verdict = RemoteRankCheck {
            run: scene.state.run().unwrap(),
            reach: &one("srun"),
            job: Some(&Ok(job(&[0]))),
            own_step: Some(0),
            exists: &|_| false,
            now: Moment::from_secs_f64(30.0),
        }
        .verdict();
        assert_eq!(verdict, by_slurm());
    }

    #[test]
    fn a_node_that_does_not_answer_proves_nothing() {
        let mut scene = two(Some("12.3"));
        let silent = || SlurmJob {
            silent_nodes: vec!["n2".into()],
            ..job(&[])
        };
        let ask = |scene: &StagedSession| verdict(scene, &one("srun"), Some(Ok(silent())));
        assert_eq!(ask(&scene), missing("node n2 does not answer"));
        says_end(&mut scene, 4.0, 1);
        assert_eq!(ask(&scene), by_files(), "its rank says so itself");
    }

    #[test]
    fn an_allocation_that_ends_starts_nothing() {
        let ending = SlurmJob {
            state: "COMPLETING".into(),
            ..job(&[])
        };
        assert_eq!(
            verdict(&two(Some("12.3")), &one("srun"), Some(Ok(ending))),
            RanksGone::Never("the allocation is completing".into())
        );
    }

    #[test]
    fn without_a_scheduler_every_rank_must_have_said_it() {
        let mut scene = two(None);
        let ask = |scene: &StagedSession| verdict(scene, &one("mpirun"), None);
        assert_eq!(ask(&scene), missing("rank 1 has not said that it ended"));
        // The front that came later knows of no connection.
        let gone = ProbeGone {
            pid: there(1),
            reason: None,
            said_end: false,
        };
        scene.add(2.0, EventKind::ProbeGone(gone));
        assert_eq!(ask(&scene), missing("rank 1 has not said that it ended"));
        says_end(&mut scene, 29.0, 1);
        assert_eq!(ask(&scene), missing("the last rank is ending"));
        let mut scene = two(None);
        says_end(&mut scene, 4.0, 1);
        scene.add(4.0, exited(1, crate::event::Exit::Code(1)));
        assert_eq!(ask(&scene), by_files());
        let alive = RemoteRankCheck {
            run: scene.state.run().unwrap(),
            reach: &one("mpirun"),
            job: None,
            own_step: None,
            exists: &|pid| pid == Pid(100),
            now: Moment::from_secs_f64(30.0),
        };
        assert_eq!(
            alive.verdict(),
            missing("rank 0 has not said that it ended")
        );
    }

    #[test]
    fn a_rank_that_was_never_seen_is_not_gone() {
        let mut scene = StagedSession::default();
        scene.add(0.0, started(1, 10, "mpirun -np 2 python train.py"));
        assert_eq!(
            verdict(&scene, &one("mpirun"), None),
            missing("no rank was seen")
        );
        scene.add(1.0, hello(1, 100, Some(0)));
        assert_eq!(
            verdict(&scene, &one("mpirun"), None),
            missing("rank 1 was never seen")
        );
    }

    #[test]
    fn a_launcher_for_each_node_is_never_started_by_one() {
        assert!(matches!(
            verdict(&two(None), &Reach::OneOfMany, Some(Ok(job(&[])))),
            RanksGone::Never(_)
        ));
    }
}
