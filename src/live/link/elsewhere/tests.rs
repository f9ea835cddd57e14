//! Who can tell that a rank of another node is gone, and who cannot.

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
