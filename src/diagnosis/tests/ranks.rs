//! One OOM of many ranks: who, whose, and what followed.

use crate::diagnosis::{AmongRanks, diagnose};
use crate::event::{Consequence, EventKind, Exit, Hello};
use crate::oom::ConsequenceKind::{self, *};
use crate::state::tests::staged::*;
use crate::units::{Bytes, Pid, Rank};

/// The process of a rank, of which each node has two; the first node is this one.
fn pid(rank: u32) -> i32 {
    match rank / 2 {
        0 => 100 + rank as i32,
        node => Pid::elsewhere(node, 100 + rank as i32).unwrap().0,
    }
}

/// Eight ranks on four nodes; of each, what it keeps between steps and its peak.
fn job(floors: impl Fn(u32) -> f64, peaks: impl Fn(u32) -> f64) -> StagedSession {
    let mut scene = StagedSession::default();
    scene.add(0.0, started(1, 10, "srun -N4 -n8 python train.py"));
    for rank in 0..8 {
        let EventKind::Hello(known) = hello(1, pid(rank), Some(rank)) else {
            unreachable!()
        };
        scene.add(
            1.0,
            EventKind::Hello(Hello {
                world_size: Some(8),
                node: Some(format!("gpu-{}", rank / 2 + 1)),
                ..known
            }),
        );
        let (floor, peak) = (gib(floors(rank)), gib(peaks(rank)));
        scene.add(1.5, EventKind::Sample(sample(pid(rank), 0, peak, peak)));
        scene.add(2.0, step(pid(rank), 1, floor, peak));
    }
    scene
}

fn runs_out(scene: &mut StagedSession, rank: u32, at: f64, allocated: f64) {
    let record = record(
        pid(rank),
        gib(allocated),
        gib(allocated),
        gib(1.5),
        Bytes::ZERO,
    );
    scene.add(at, EventKind::Oom(record));
}

fn said(scene: &mut StagedSession, at: f64, kind: ConsequenceKind, rank: Option<u32>) {
    let rank = rank.map(Rank);
    scene.add(at, EventKind::Consequence(Consequence { kind, rank }));
}

fn found(scene: &mut StagedSession) -> AmongRanks {
    scene.add(20.0, exited(1, Exit::Code(1)));
    let findings = diagnose(&scene.state);
    assert!(findings[1..].iter().all(|finding| finding.ranks.is_none()));
    findings[0].ranks.clone().expect("of several ranks")
}

#[test]
fn the_first_is_named_and_what_followed_is_no_cause() {
    let mut scene = job(|_| 4.0, |_| 15.0);
    // A rank whose connection broke earlier has nothing to do with it.
    said(&mut scene, 2.5, ConnectionClosed, Some(7));
    runs_out(&mut scene, 5, 3.0, 23.0);
    for rank in [0, 1, 2] {
        said(&mut scene, 3.4, ConnectionClosed, Some(rank));
    }
    said(&mut scene, 4.0, LauncherGaveUp, None);
    said(&mut scene, 4.2, Terminated, None);
    assert_eq!(
        found(&mut scene).sentences(),
        [
            "Rank 5 on gpu-3 ran out, the only one of 8 ranks.",
            "No other rank needs so much: 15.0 GiB at most, this one 24.5 GiB and more. Between steps they keep the same: its batch is larger.",
            "Consequences, not causes: the connection to a rank was closed (3 ranks), the launcher ended the other ranks, a process was ended by SIGTERM.",
        ]
    );
}

#[test]
fn what_rank_0_alone_keeps_is_told() {
    let mut scene = job(|rank| if rank == 0 { 12.0 } else { 4.0 }, |_| 15.0);
    runs_out(&mut scene, 0, 3.0, 22.0);
    let ranks = found(&mut scene);
    let whose = ranks.whose().unwrap();
    assert!(
        whose.ends_with(
            "It keeps 8.00 GiB more than the others after each step: look at what only rank 0 does."
        ),
        "{whose}"
    );
}

#[test]
fn a_need_of_all_ranks_is_told_from_one_ranks() {
    let mut scene = job(|_| 4.0, |_| 23.0);
    runs_out(&mut scene, 3, 3.0, 22.6);
    let whose = found(&mut scene).whose().unwrap();
    assert_eq!(
        whose,
        "The other ranks need about as much (up to 23.0 GiB): it is not this rank alone."
    );
    let mut scene = job(|_| 4.0, |_| 15.0);
    for rank in 0..6 {
        runs_out(&mut scene, rank, 3.0 + f64::from(rank), 23.0);
    }
    let ranks = found(&mut scene);
    assert_eq!(
        ranks.who(),
        "Rank 0 on gpu-1 ran out first, and 6 of 8 ranks in all."
    );
    assert!(ranks.whose().unwrap().contains("not this rank alone"));
}

#[test]
fn clocks_of_two_nodes_do_not_tell_which_was_first_within_a_moment() {
    let mut scene = job(|_| 4.0, |_| 15.0);
    runs_out(&mut scene, 3, 3.0, 23.0);
    runs_out(&mut scene, 6, 3.2, 23.0);
    assert_eq!(
        found(&mut scene).who(),
        "Rank 3 on gpu-2 and rank 6 on gpu-4 ran out together, of 8 ranks."
    );
    let mut scene = job(|_| 4.0, |_| 15.0);
    runs_out(&mut scene, 6, 3.0, 23.0);
    runs_out(&mut scene, 3, 5.0, 23.0);
    assert_eq!(
        found(&mut scene).who(),
        "Rank 6 on gpu-4 ran out first, then rank 3 on gpu-2, of 8 ranks."
    );
}

#[test]
fn in_the_first_step_nobody_knows_what_the_others_need() {
    let mut scene = StagedSession::default();
    scene.add(0.0, started(1, 10, "torchrun train.py"));
    scene.add(1.0, hello(1, 100, Some(0)));
    scene.add(1.0, hello(1, 101, Some(1)));
    scene.add(1.5, EventKind::Sample(sample(101, 0, gib(9.0), gib(9.0))));
    let out = |pid| EventKind::Oom(record(pid, gib(22.0), gib(22.0), gib(3.0), Bytes::ZERO));
    scene.add(3.0, out(100));
    let ranks = found(&mut scene);
    assert_eq!(ranks.who(), "Rank 0 ran out, the only one of 2 ranks.");
    assert_eq!(ranks.whose(), None);
    scene.add(3.1, out(101));
    let ranks = found(&mut scene);
    assert_eq!(ranks.who(), "Both ranks ran out together: rank 0, rank 1.");
    assert_eq!(ranks.whose(), None, "that has been said");
}

#[test]
fn a_message_is_not_the_only_known_ranks_while_others_are_awaited() {
    let mut scene = StagedSession::default();
    scene.add(0.0, started(1, 10, "srun -N2 python train.py"));
    scene.add(1.0, hello(1, 100, Some(0)));
    // The file of rank 1 is read after what srun passes on of it.
    let failed = record(pid(3), gib(22.0), gib(22.0), gib(3.0), Bytes::ZERO);
    scene.add(3.0, EventKind::OomText(text_of(&failed)));
    scene.add(1.1, hello(1, pid(3), Some(1)));
    scene.add(2.9, EventKind::Oom(failed));
    let ranks = found(&mut scene);
    assert_eq!(ranks.who(), "Rank 1 ran out, the only one of 2 ranks.");
}

#[test]
fn one_rank_is_not_many() {
    let mut scene = StagedSession::training();
    let record = record(100, gib(22.0), gib(22.0), gib(3.0), Bytes::ZERO);
    scene.add(3.0, EventKind::Oom(record));
    assert_eq!(diagnose(&scene.state)[0].ranks, None);
}

#[test]
fn an_allocation_that_ends_is_a_stop() {
    use crate::state::RunOutcome;
    let mut scene = job(|_| 4.0, |_| 15.0);
    said(&mut scene, 3.0, AllocationEnded, None);
    scene.add(5.0, exited(1, Exit::Signal(15)));
    assert_eq!(scene.state.run().unwrap().outcome(), RunOutcome::Stopped);
    // After an OOM it changes nothing of what happened, and nothing is started any more.
    let mut scene = job(|_| 4.0, |_| 15.0);
    runs_out(&mut scene, 3, 3.0, 22.6);
    said(&mut scene, 4.0, AllocationEnded, None);
    scene.add(5.0, exited(1, Exit::Signal(15)));
    let run = scene.state.run().unwrap();
    assert_eq!(run.outcome(), RunOutcome::OutOfMemory);
    assert!(run.stopped().is_some());
}

#[test]
fn the_rank_that_ran_out_second_is_not_said_to_be_the_only_one() {
    let second_after = |seconds: f64| {
        let mut scene = job(|_| 4.0, |_| 15.0);
        runs_out(&mut scene, 1, 3.0, 23.0);
        runs_out(&mut scene, 0, 3.0 + seconds, 23.0);
        let run = scene.state.run().unwrap();
        AmongRanks::new(run, run.ooms.last().unwrap())
            .unwrap()
            .who()
    };
    assert_eq!(
        second_after(0.01),
        "Rank 0 on gpu-1 and rank 1 on gpu-1 ran out together, of 8 ranks."
    );
    assert_eq!(
        second_after(2.0),
        "Rank 0 on gpu-1 ran out after rank 1 on gpu-1, of 8 ranks."
    );
}
