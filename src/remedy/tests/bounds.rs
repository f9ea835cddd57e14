//! What is tried where nothing is known to fit, and how far a batch is reduced in an evaluation and in DataLoaders.

use crate::diagnosis::Cause;
use crate::event::{
    EventKind, Exit, OomRecord, OptimizerMemory, OptimizerRecord, Patchable, Phase, Rehearsal,
    RehearsedVariant,
};
use crate::remedy::{Remedy, RemedyId, recommended, remedies};
use crate::state::tests::staged::{StagedSession, exited, gib, hello, record, started};
use crate::units::{Bytes, Pid};

const MIB: u64 = 1 << 20;
const TRAIN: &str = "python train.py --batch-size 8";

/// A model of 1 GiB with plain SGD, whose step keeps so much for each sample.
fn rehearsal(batch: u64, each: u64) -> Rehearsal {
    Rehearsal {
        pid: Pid(100),
        phase: Phase::Forward,
        batch,
        before: Bytes::gib(1),
        weights: vec![1024 * MIB],
        trained: vec![1024 * MIB],
        optimizer: Some(OptimizerMemory {
            states: Some(0),
            ..OptimizerMemory::default()
        }),
        own_loss: true,
        variants: vec![RehearsedVariant {
            trace: Some(format!("x{} {} -2", each * MIB, 1024 * MIB)),
            ..RehearsedVariant::default()
        }],
        ..Rehearsal::default()
    }
}

/// A run that ran out of memory where 22 GiB could be had.
pub(super) fn ran(words: &str, out: OomRecord, more: Vec<EventKind>) -> StagedSession {
    let mut scene = StagedSession::default();
    scene
        .add(0.0, started(1, 100, words))
        .add(1.0, hello(1, 100, None))
        .add(2.0, EventKind::Oom(out));
    for event in more {
        scene.add(2.1, event);
    }
    scene.add(3.0, exited(1, Exit::Code(1)));
    scene
}

fn out(phase: Phase) -> OomRecord {
    OomRecord {
        phase,
        ..record(100, gib(20.0), gib(21.0), gib(4.0), gib(1.0))
    }
}

fn offers(scene: &StagedSession) -> (Remedy, bool) {
    let findings = [super::finding(Cause::Capacity, None)];
    let inputs = super::of_staged(scene, &findings);
    let all = remedies(&scene.state.run().unwrap().command, &inputs);
    let at = all.iter().position(|remedy| remedy.id == RemedyId::Batch);
    let enter = recommended(&all, Some(Cause::Capacity)) == at;
    (all[at.unwrap()].clone(), enter)
}

#[test]
fn a_single_sample_is_tried_where_it_most_likely_just_does_not_fit() {
    let batch_of = |each| {
        let said = EventKind::Rehearsal(Box::new(rehearsal(8, each)));
        offers(&ran(TRAIN, out(Phase::Forward), vec![said]))
    };
    // 2 GiB beside the sample.
    let (batch, enter) = batch_of(20 * 1024 - 32);
    assert_eq!(batch.changes, "--batch-size 8→1");
    assert_eq!(batch.expectation.fits, None);
    let words = batch.expectation.words.to_string();
    let begins =
        "may not fit, the smallest batch: needs 22.03 GiB (21.97–22.61), 22.00 GiB available";
    assert!(words.starts_with(begins), "{words}");
    assert!(enter);
    // By the least that it needs it cannot.
    let (batch, enter) = batch_of(21 * 1024);
    assert_eq!((batch.expectation.fits, enter), (Some(false), false));
}

#[test]
fn in_an_evaluation_half_the_batch_is_not_enough() {
    let batch_of = |step| {
        let optimizer = OptimizerRecord {
            class: "AdamW".into(),
            base: Some("AdamW".into()),
            trained: Bytes::gib(1),
            ..OptimizerRecord::default()
        };
        let out = OomRecord {
            step,
            optimizer: Some(Box::new(optimizer)),
            ..out(Phase::Evaluation)
        };
        offers(&ran(TRAIN, out, Vec::new())).0.changes
    };
    // It wanted 24 GiB, 23 of which grow with the batch, and has not come to its end.
    assert_eq!(batch_of(5), "--batch-size 8→3");
    // Before the first step the training has to fit as well, which keeps more.
    assert_eq!(batch_of(0), "--batch-size 8→2");
}

#[test]
fn a_dataloaders_batch_is_the_largest_that_fits() {
    let patchable = EventKind::Patchable(Patchable {
        pid: Pid(100),
        batch: Some(64),
        batch_asked: Some(64),
        ..Patchable::default()
    });
    let said = EventKind::Rehearsal(Box::new(rehearsal(64, 512)));
    let scene = ran(
        "python train.py",
        out(Phase::Forward),
        vec![patchable, said],
    );
    let (batch, enter) = offers(&scene);
    // 2 GiB beside the samples.
    assert_eq!(batch.changes, "patched at runtime: DataLoader batch 64→38");
    assert_eq!((batch.expectation.fits, enter), (Some(true), true));
}
