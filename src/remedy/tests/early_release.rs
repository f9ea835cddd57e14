//! Cached segments that are given back early: offered by the replay of the step that failed, where no segment can grow.

use super::combined::rehearsal;
use crate::diagnosis::Cause;
use crate::event::{EventKind, Hello, OomRecord, Patchable, Phase};
use crate::remedy::{Availability, Plan, Remedy, RemedyId, not_in_force, remedies};
use crate::state::tests::staged::{StagedSession, hello, record, started};
use crate::units::{Bytes, Pid};

const MIB: u64 = 1 << 20;
const PLAIN: &str = "python train.py --batch-size 8";

/// What runs, and how its memory ran out.
struct CutUp<'a> {
    command: &'a str,
    torch: &'a str,
    alloc_conf: Option<&'a str>,
    /// The program limits itself to all that there is.
    has_limit: bool,
    /// The program shares CUDA tensors, so that its segments may not grow.
    shares: bool,
    /// What else lies in the process's memory and stays there.
    stays: Bytes,
    /// MiB of the parameters that are trained, and the optimizer with the tensors of state that each has.
    weights: &'a [u64],
    optimizer: (&'a str, u32),
    /// MiB of the step's allocations in their order; below zero: which one is freed.
    step: &'a [i64],
}

const CUT_UP: CutUp<'_> = CutUp {
    command: PLAIN,
    torch: "2.11.0+cu130",
    alloc_conf: None,
    has_limit: false,
    shares: true,
    stays: Bytes::ZERO,
    weights: &[64],
    optimizer: ("AdamW", 2),
    // The optimizer's state takes a piece of the block that is freed at once, and the next step needs another.
    step: &[50, -1, 60, 110],
};

fn staged(told: &CutUp<'_>, room: Bytes) -> StagedSession {
    let mut said = rehearsal(100, 8, [0, 0, 0, 0]);
    said.variants.truncate(1);
    let weights: Vec<u64> = told.weights.iter().map(|mib| mib * MIB).collect();
    let held = weights.iter().sum();
    (said.before, said.arguments) = (told.stays + Bytes(held) + Bytes::mib(16), Bytes::mib(16));
    (said.weights, said.trained) = (weights.clone(), weights);
    said.zero_grad = Some(crate::event::ZeroGrad::Forward);
    said.optimizer = Some(crate::event::OptimizerMemory {
        class: told.optimizer.0.into(),
        states: Some(told.optimizer.1),
        ..Default::default()
    });
    let word = |n: &i64| if *n > 0 { n * MIB as i64 } else { *n };
    let words: Vec<String> = told.step.iter().map(|n| word(n).to_string()).collect();
    said.variants[0].trace = Some(words.join(" "));
    let EventKind::Hello(heard) = hello(1, 100, None) else {
        panic!("a hello");
    };
    let heard = Hello {
        torch: told.torch.into(),
        alloc_conf: told.alloc_conf.map(Into::into),
        ..heard
    };
    let (missing, free) = (Bytes::mib(12), Bytes::mib(4));
    // A context of the process's takes some thousandths of a GPU.
    let total = room + Bytes::mib(8) + told.stays.scale(0.004);
    let out = OomRecord {
        phase: Phase::Forward,
        total,
        limit: told.has_limit.then_some(total),
        ..record(100, room - missing, room - free, missing, free)
    };
    let patchable = Patchable {
        pid: Pid(100),
        models: vec!["Net".into()],
        shares_cuda: told.shares,
        ..Patchable::default()
    };
    let mut scene = StagedSession::default();
    scene
        .add(0.0, started(1, 100, told.command))
        .add(1.0, EventKind::Hello(heard))
        .add(2.0, EventKind::Oom(out))
        .add(2.1, EventKind::Patchable(patchable))
        .add(2.2, EventKind::Rehearsal(Box::new(said)));
    scene
}

/// The changed command and the remedy on the smallest card on which it is offered.
fn offered(told: &CutUp<'_>) -> Option<(Bytes, String, Remedy)> {
    (380..700).step_by(4).find_map(|mib| {
        let scene = staged(told, told.stays + Bytes::mib(mib));
        let findings = [super::finding(Cause::Fragmentation, None)];
        let command = scene.state.run().unwrap().command.clone();
        let all = remedies(&command, &super::of_staged(&scene, &findings));
        let remedy = all
            .into_iter()
            .find(|remedy| remedy.id == RemedyId::EarlyRelease)?;
        let shown = Plan::new(&command, &[&remedy]).command.shown();
        Some((told.stays + Bytes::mib(mib), shown, remedy))
    })
}

#[test]
fn beside_much_that_stays_the_same_pieces_count() {
    let stays = Bytes::mib(128 << 10);
    let beside = CutUp {
        stays,
        // The gradient of the first layer fits into nothing that its second one kept, and momentum takes a piece of that.
        weights: &[64, 112],
        optimizer: ("SGD", 1),
        step: &[50, -1, 60, 110, 64, -2, -3, 112, -1, -3],
        ..CUT_UP
    };
    let (room, _, remedy) = offered(&beside).expect("a card on which it helps");
    let (room, predicted) = (room - stays, remedy.expectation.needs().unwrap() - stays);
    assert!(
        predicted <= room && predicted.0 > room.0 * 9 / 10,
        "{predicted}"
    );
}

#[test]
fn it_is_offered_where_no_segment_can_grow_and_the_replay_says_that_it_helps() {
    let (room, command, remedy) = offered(&CUT_UP).expect("a card on which it helps");
    assert!(matches!(remedy.availability, Availability::Offered));
    assert!(remedy.expectation.needs().unwrap() <= room);
    // Without a limit of the process PyTorch passes over it.
    assert_eq!(
        command,
        format!(
            "PYTORCH_CUDA_ALLOC_CONF=per_process_memory_fraction:0.999,garbage_collection_threshold:0.9 {PLAIN}"
        )
    );
    assert_eq!(remedy.numerics(), "same numerics");
}

#[test]
fn a_limit_of_the_programs_own_is_enough_and_an_older_torch_needs_one() {
    let old = CutUp {
        torch: "2.4.1+cu121",
        ..CUT_UP
    };
    assert!(offered(&old).is_none());
    let limited = CutUp {
        has_limit: true,
        ..old
    };
    let (_, command, _) = offered(&limited).expect("a card on which it helps");
    assert_eq!(
        command,
        format!("PYTORCH_CUDA_ALLOC_CONF=garbage_collection_threshold:0.9 {PLAIN}")
    );
}

#[test]
fn it_goes_into_the_settings_that_there_are() {
    let command = "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:512 python train.py";
    let told = CutUp {
        command,
        alloc_conf: Some("max_split_size_mb:512"),
        // Nor can segments grow beside that setting.
        shares: false,
        ..CUT_UP
    };
    let (_, command, _) = offered(&told).expect("a card on which it helps");
    assert!(
        command.contains(
            "max_split_size_mb:512,per_process_memory_fraction:0.999,garbage_collection_threshold:0.9"
        ),
        "{command}"
    );
}

#[test]
fn it_is_not_offered_where_it_does_nothing_or_something_else_helps() {
    for (told, why) in [
        (
            CutUp {
                shares: false,
                ..CUT_UP
            },
            "segments can grow",
        ),
        (
            CutUp {
                step: &[110],
                ..CUT_UP
            },
            "nothing is freed before the step's end",
        ),
        (
            CutUp {
                step: &[500, -1, 600, 1100],
                ..CUT_UP
            },
            "a limit for splitting helps, too",
        ),
    ] {
        let found = offered(&told).map(|(room, command, _)| (room, command));
        assert_eq!(found, None, "{why}");
    }
}

#[test]
fn a_setting_that_did_not_arrive_is_said() {
    let said = |conf: &str| {
        let EventKind::Hello(heard) = hello(1, 100, None) else {
            panic!("a hello");
        };
        let heard = Hello {
            alloc_conf: Some(conf.into()),
            ..heard
        };
        not_in_force(&[Remedy::new(RemedyId::EarlyRelease)], &heard, None).join("; ")
    };
    assert_eq!(said("garbage_collection_threshold:0.8"), "");
    assert!(said("").contains("garbage_collection_threshold has no effect"));
}
