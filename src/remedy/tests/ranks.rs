//! Several ranks: the figures are of the one that needs most, whichever ran out first.

use crate::diagnosis::Cause;
use crate::event::{
    BlockOrigin, Blocks, EventKind, OomRecord, OptimizerMemory, Patchable, Phase, Rehearsal,
    RehearsedVariant, SourceLine, StepTrace,
};
use crate::remedy::{Remedy, RemedyId, remedies};
use crate::state::tests::staged::{StagedSession, gib, hello, record, sample, started, step};
use crate::units::{Bytes, Pid};

const GIB: u64 = 1 << 30;
const TRAIN: &str = "torchrun --nproc-per-node 2 train.py --batch-size 8";

/// The step of a rank with a model of 1 GiB and plain SGD, which keeps so many MiB for each sample, beside so much else.
fn rehearsed(pid: i32, each: u64, beside: f64) -> EventKind {
    EventKind::Rehearsal(Box::new(Rehearsal {
        pid: Pid(pid),
        phase: Phase::Forward,
        batch: 8,
        before: gib(1.0 + beside),
        weights: vec![GIB],
        trained: vec![GIB],
        optimizer: Some(OptimizerMemory {
            states: Some(0),
            ..OptimizerMemory::default()
        }),
        own_loss: true,
        ranks: 2,
        variants: [false, true]
            .map(|checkpointing| {
                let each = (each << 20) / if checkpointing { 8 } else { 1 };
                RehearsedVariant {
                    checkpointing,
                    trace: Some(format!("x{each} {GIB} -2")),
                    ..RehearsedVariant::default()
                }
            })
            .to_vec(),
        ..Rehearsal::default()
    }))
}

fn out(pid: i32, free: f64) -> EventKind {
    EventKind::Oom(OomRecord {
        phase: Phase::Forward,
        step: 2,
        ..record(pid, gib(20.0), gib(21.0), gib(4.0), gib(free))
    })
}

/// Two ranks after two steps, of which the second, process 101, has run out of memory; what each holds between steps.
fn two(held: [f64; 2]) -> StagedSession {
    let mut scene = StagedSession::default();
    scene.add(0.0, started(1, 10, TRAIN));
    for (pid, held) in [100, 101].into_iter().zip(held) {
        scene.add(1.0, hello(1, pid, Some(pid as u32 - 100)));
        scene.add(1.1, EventKind::Sample(sample(pid, 0, gib(15.0), gib(16.0))));
        scene.add(1.5, step(pid, 1, gib(1.0), gib(15.0)));
        scene.add(2.0, step(pid, 2, gib(held), gib(15.0)));
    }
    scene.add(3.0, out(101, 1.0));
    scene.add(3.1, can_recompute());
    scene
}

fn can_recompute() -> EventKind {
    EventKind::Patchable(Patchable {
        pid: Pid(101),
        blocks: vec![Blocks {
            class: "Block".into(),
            count: 12,
            held: Some(gib(9.0)),
            ..Blocks::default()
        }],
        ..Patchable::default()
    })
}

fn offer(scene: &StagedSession, id: RemedyId) -> Remedy {
    let findings = [super::finding(Cause::Capacity, None)];
    let inputs = super::of_staged(scene, &findings);
    let command = scene.state.run().unwrap().command.clone();
    let all = remedies(&command, &inputs);
    (all.into_iter().find(|remedy| remedy.id == id)).unwrap()
}

/// Its peak, without cuBLAS's workspaces, and what is said of it.
fn checkpointing(scene: &StagedSession) -> (f64, String) {
    let remedy = offer(scene, RemedyId::Recompute);
    let expectation = remedy.expectation;
    let peak = expectation.peak.unwrap().likely.0 as f64 / GIB as f64;
    ((peak * 2.0).floor() / 2.0, expectation.words.to_string())
}

#[test]
fn of_two_that_ran_out_the_one_that_needs_most_decides_for_each_remedy() {
    // 3 GiB for each of eight samples: 26 GiB, and 5 with checkpointing.
    let alone = |mut scene: StagedSession| {
        scene.add(4.0, rehearsed(101, 3 << 10, 0.0));
        scene
    };
    let scene = alone(two([1.0, 1.0]));
    let (peak, words) = checkpointing(&scene);
    assert_eq!(peak, 5.0);
    assert!(!words.contains("for rank"), "{words}");
    // Rank 0 ran out as well, with smaller inputs and 6 GiB of something else: as it is rank 1 needs more, and with
    // checkpointing rank 0.
    let mut scene = alone(two([1.0, 1.0]));
    scene.add(3.2, out(100, 0.5));
    scene.add(4.1, rehearsed(100, 2 << 10, 6.0));
    let (peak, words) = checkpointing(&scene);
    assert_eq!(peak, 10.0, "{words}");
    assert!(words.contains("for rank 0, which needs most"), "{words}");
    let batch = offer(&scene, RemedyId::Batch);
    // 3 GiB a sample beside 2 in 22 GiB, against 2 beside 8: rank 1 takes six, and no more than seven where it is rank 0's.
    let takes = batch.takes.unwrap();
    assert!(takes.at_once <= 6, "{takes:?}");
    // The room is that of the one that has less.
    assert_eq!(batch.expectation.room, Some(gib(21.5)));
}

#[test]
fn what_a_rank_holds_more_at_the_same_step_is_added_for_it_and_said() {
    let of = |held: [f64; 2]| {
        let mut scene = two(held);
        scene.add(4.0, rehearsed(101, 3 << 10, 0.0));
        scene
    };
    let plain = offer(&of([1.0, 1.0]), RemedyId::Recompute).expectation;
    let more = offer(&of([3.0, 1.0]), RemedyId::Recompute).expectation;
    let said = more.words.to_string();
    assert!(
        said.contains("for rank 0, which holds 2.00 GiB more"),
        "{said}"
    );
    for (plain, more) in [
        (plain.peak.unwrap().likely, more.peak.unwrap().likely),
        (plain.needs().unwrap(), more.needs().unwrap()),
        (
            plain.reserved.unwrap().likely,
            more.reserved.unwrap().likely,
        ),
    ] {
        assert_eq!(more, plain + gib(2.0));
    }
    let batch = |held| offer(&of(held), RemedyId::Batch).takes.unwrap().at_once;
    assert!(batch([7.0, 1.0]) < batch([1.0, 1.0]));
    // One that holds less changes nothing, nor does what is within any interval.
    for held in [[1.0, 3.0], [1.01, 1.0]] {
        let same = offer(&of(held), RemedyId::Recompute).expectation;
        assert_eq!(same.peak, plain.peak, "{held:?}");
        assert!(!same.words.contains("for rank"), "{:?}", same.words);
    }
}

#[test]
fn what_is_held_more_is_named_by_the_line_that_allocated_it() {
    let traced = |pid: i32, sizes: [u64; 2]| {
        let line = |line, function: &str| BlockOrigin {
            line: Some(SourceLine {
                file: "/home/ada/train.py".into(),
                line,
                function: function.into(),
            }),
            ..BlockOrigin::default()
        };
        EventKind::StepTrace(Box::new(StepTrace {
            pid: Pid(pid),
            step: 2,
            trace: format!("{} {} | 512 -1", sizes[0], sizes[1]),
            origins: vec![line(10, "main"), line(40, "evaluate")],
            blocks: "1 2 0".into(),
            ..StepTrace::default()
        }))
    };
    let mut scene = two([3.0, 1.0]);
    scene.add(2.2, traced(100, [GIB, 2 * GIB]));
    scene.add(2.2, traced(101, [GIB, 512]));
    scene.add(4.0, rehearsed(101, 3 << 10, 0.0));
    let said = offer(&scene, RemedyId::Recompute).expectation.words;
    assert!(
        said.contains("for rank 0, which holds 2.00 GiB more (train.py:40 evaluate)"),
        "{said:?}"
    );
    let findings = crate::diagnosis::diagnose(&scene.state);
    let ranks = findings[0].ranks.clone().unwrap();
    assert_eq!(
        ranks.who_holds_more().unwrap(),
        "Rank 0 holds 2.00 GiB more between steps (train.py:40 evaluate); predictions are for the rank that needs most."
    );
    assert_eq!(ranks.holds_more.unwrap().more, Bytes::gib(2));
}
