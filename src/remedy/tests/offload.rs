//! Activations that wait in RAM: what is offered, what RAM has to hold for it, and what comes before it.

use super::combined::{rehearsal, run_out};
use crate::command::CommandLine;
use crate::diagnosis::Cause;
use crate::event::{
    EventKind, PatchOutcome, Patchable, Patched, Rehearsal, RehearsedVariant, Relief, ReliefMoment,
    SavedInRam,
};
use crate::remedy::{Alteration, Availability, Plan, Remedy, RemedyId, recommended, remedies};
use crate::state::tests::host::host;
use crate::state::tests::staged::StagedSession;
use crate::units::{Bytes, Pid};

const MIB: u64 = 1 << 20;
const TRAIN: &str = "python train.py --batch-size 8";

/// A step of 8 samples whose forward saves 4 GiB a sample, or 256 MiB where RAM takes so many GiB.
fn said(takes: u64) -> Rehearsal {
    let mut said = rehearsal(100, 8, [4096, 4096, 4096, 4096]);
    said.variants.truncate(1);
    said.variants.push(RehearsedVariant {
        offload: true,
        trace: Some(format!("x{} {} -2", 256 * MIB, 1024 * MIB)),
        ram: Some(SavedInRam {
            takes: Bytes::gib(takes),
            out: Bytes::gib(28),
            back: Bytes::gib(30),
        }),
        ..RehearsedVariant::default()
    });
    said
}

/// Out of 22 GiB, on a host with 8 GiB left.
fn ran(said: Rehearsal, more: Option<EventKind>) -> StagedSession {
    let mut scene = StagedSession::default();
    scene.add(1.0, host(24.0, 1.0));
    run_out(&mut scene, 1, TRAIN, Some(said));
    if let Some(more) = more {
        scene.add(15.0, more);
    }
    scene
}

fn offers(scene: &StagedSession) -> (CommandLine, Vec<Remedy>) {
    let command = scene.state.run().unwrap().command.clone();
    let all = remedies(&command, &super::of_staged(scene, &[]));
    (command, all)
}

fn offload(scene: &StagedSession) -> Remedy {
    let mut all = offers(scene).1.into_iter();
    all.find(|remedy| remedy.id == RemedyId::Offload).unwrap()
}

#[track_caller]
fn why_not(scene: &StagedSession) -> String {
    match offload(scene).availability {
        Availability::NotOffered(why) => why.to_string(),
        Availability::Offered => panic!("it is offered"),
    }
}

#[test]
fn what_it_needs_on_the_gpu_and_in_ram_is_said_and_that_it_is_slower() {
    let scene = ran(said(6), None);
    let (command, all) = offers(&scene);
    let remedy = all.iter().find(|remedy| remedy.id == RemedyId::Offload);
    let remedy = remedy.unwrap();
    assert!(remedy.is_offered(), "{:?}", remedy.availability);
    let made = Plan::new(&command, &[remedy]).command;
    assert_eq!(made.env_value("OOMPH_PATCHES").unwrap(), "offload=cpu");
    assert_eq!(remedy.alters, Some(Alteration::Offloading));
    assert_eq!(remedy.numerics(), "same numerics, slower");
    assert_eq!(
        remedy.cost.as_str(),
        "same numerics; slower: copying 28.0 GiB there and 30.0 GiB back takes some 1.2–5.7 s of a step (estimated)"
    );
    let words = remedy.expectation.words.as_str();
    assert!(
        words.contains("6.00 GiB to RAM, 8.00 GiB is available") && words.contains("rehearsed"),
        "{words}"
    );
    let relief = remedy.expectation.relief.unwrap();
    // The weight and two states beside what forward saves, the gradient, and the input of the call.
    let without = relief.without.unwrap();
    assert!(without > Bytes::gib(34), "{without}");
    assert_eq!(
        relief,
        Relief {
            at: ReliefMoment::Step,
            allocated: Some(without - Bytes::mib(8 * (4096 - 256))),
            to_ram: Some(Bytes::gib(6)),
            without: Some(without),
            time: None,
        }
    );
}

#[test]
fn a_host_without_the_room_is_told_of() {
    let scene = ran(said(12), None);
    assert_eq!(
        why_not(&scene),
        "RAM would have to hold 12.0 GiB, and 8.00 GiB is available"
    );
    let (_, all) = offers(&scene);
    let enter = recommended(&all, Some(Cause::Capacity)).map(|at| all[at].id);
    assert_ne!(enter, Some(RemedyId::Offload));
}

#[test]
fn it_comes_after_what_is_cheaper_and_likely_fits() {
    // A smaller batch fits as well.
    let scene = ran(said(6), None);
    let (_, all) = offers(&scene);
    let batch = all.iter().find(|remedy| remedy.id == RemedyId::Batch);
    assert!(batch.unwrap().expectation.verdict().is_expected());
    assert!(offload(&scene).expectation.verdict().is_expected());
    let enter = recommended(&all, Some(Cause::Capacity)).map(|at| all[at].id);
    assert_eq!(enter, Some(RemedyId::Batch));
    let alone: Vec<Remedy> = all
        .into_iter()
        .filter(|remedy| remedy.id == RemedyId::Offload)
        .collect();
    assert_eq!(recommended(&alone, Some(Cause::Capacity)), Some(0));
}

#[test]
fn what_the_patch_leaves_alone_is_not_offered() {
    let found = EventKind::Patchable(Patchable {
        pid: Pid(100),
        models: vec!["Net".into()],
        offload_left: Some("FSDP moves what it saves itself".into()),
        ..Patchable::default()
    });
    assert_eq!(
        why_not(&ran(said(6), Some(found))),
        "FSDP moves what it saves itself"
    );
    let declined = EventKind::Patch(Patched {
        pid: Pid(100),
        patch: "offload".into(),
        outcome: PatchOutcome::Declined,
        words: "the program has hooks of its own".into(),
        relief: None,
    });
    let why = why_not(&ran(said(6), Some(declined)));
    assert!(why.contains("hooks of its own"), "{why}");
}
