//! Which patches are offered after a probe's findings, and what they do to the command.

use crate::command::CommandLine;
use crate::event::{
    Blocks, EventKind, GivenSize, Knobs, PatchOutcome, Patchable, Patched, Rehearsal,
};
use crate::remedy::{Alteration, Availability, Plan, Remedy, RemedyId, RemedyInputs, remedies};
use crate::state::tests::staged::{StagedSession, gib, hello, record, started};
use crate::units::Pid;

const TRAIN: &str = "python train.py";

fn found() -> Patchable {
    Patchable {
        pid: Pid(100),
        models: vec!["Net".into()],
        blocks: vec![Blocks {
            class: "Block".into(),
            count: 12,
            held: Some(gib(9.0)),
            left: None,
            idle: None,
        }],
        bf16: true,
        batch: Some(64),
        batch_asked: Some(64),
        ..Patchable::default()
    }
}

/// A run of a command that ran out of memory, with these findings.
fn ran(words: &str, found: Option<Patchable>) -> StagedSession {
    let mut scene = StagedSession::default();
    scene
        .add(0.0, started(1, 100, words))
        .add(1.0, hello(1, 100, None));
    let record = record(100, gib(12.0), gib(13.0), gib(1.0), gib(0.1));
    scene.add(9.0, EventKind::Oom(record));
    if let Some(found) = found {
        scene.add(9.1, EventKind::Patchable(found));
    }
    scene
}

fn offers(scene: &StagedSession) -> (CommandLine, Vec<Remedy>) {
    let command = scene.state.run().unwrap().command.clone();
    let context = RemedyInputs {
        batch_fits: false,
        ..super::of_staged(scene, &[])
    };
    let remedies = remedies(&command, &context);
    (command, remedies)
}

/// Whether the loaders' batch of 64 is offered where the model was given a tensor of so many rows.
fn offers_a_smaller_batch(rows: u64) -> bool {
    let scene = ran(TRAIN, Some(found()));
    let command = scene.state.run().unwrap().command.clone();
    let told = Knobs {
        given: vec![GivenSize {
            at: "0".into(),
            shape: vec![rows, 160, 40],
            ..GivenSize::default()
        }],
        world: 1,
        ..Knobs::default()
    };
    let mut context = super::of_staged(&scene, &[]);
    context.launch.told = Some(&told);
    let all = remedies(&command, &context);
    one(&all, RemedyId::Batch).is_offered()
}

#[test]
fn a_loaders_batch_stays_where_the_model_is_given_several_of_each_sample() {
    assert!(offers_a_smaller_batch(64));
    // The last one of an epoch.
    assert!(offers_a_smaller_batch(40));
    assert!(!offers_a_smaller_batch(320));
}

fn one(remedies: &[Remedy], id: RemedyId) -> &Remedy {
    remedies.iter().find(|remedy| remedy.id == id).unwrap()
}

#[track_caller]
fn reason(scene: &StagedSession, id: RemedyId) -> String {
    match one(&offers(scene).1, id).availability.clone() {
        Availability::NotOffered(reason) => reason.to_string(),
        Availability::Offered => panic!("{id:?} is offered"),
    }
}

#[test]
fn what_was_found_is_offered_and_shown_as_a_patch() {
    let scene = ran(TRAIN, Some(found()));
    let (command, remedies) = offers(&scene);
    for (id, shown, value) in [
        (RemedyId::Recompute, "checkpoint 12 Block", "recompute"),
        (RemedyId::Amp, "bf16 autocast around Net", "amp"),
        (RemedyId::Batch, "DataLoader batch 64→32", "batch=64:32"),
    ] {
        let remedy = one(&remedies, id);
        assert!(remedy.is_offered(), "{remedy:?}");
        assert_eq!(remedy.changes, format!("patched at runtime: {shown}"));
        let made = Plan::new(&command, &[remedy]).command;
        assert_eq!(made.argv, command.argv);
        assert_eq!(made.env_value("OOMPH_PATCHES").unwrap(), value);
    }
    let words = &one(&remedies, RemedyId::Recompute).expectation.words;
    assert!(words.contains("used 9.00 GiB of 12.0 GiB"), "{words}");
}

/// An accumulated batch is equivalent, except to batch normalization.
#[test]
fn a_batch_in_parts_is_another_to_batch_normalization() {
    const ACCUMULATES: &str = "python train.py --batch-size 64 --grad-accum 1";
    let alters = |batch_norm: Option<&str>| {
        let found = Patchable {
            batch_norm: batch_norm.map(str::to_string),
            ..found()
        };
        let (_, remedies) = offers(&ran(ACCUMULATES, Some(found)));
        let batch = one(&remedies, RemedyId::Batch);
        (batch.alters, batch.cost.clone())
    };
    assert_eq!(alters(None).0, None);
    let (alters, cost) = alters(Some("BatchNorm2d"));
    assert_eq!(alters, Some(Alteration::BatchStatistics));
    assert!(
        cost.contains("BatchNorm2d then normalizes over fewer samples"),
        "{cost}"
    );
}

#[test]
fn patches_chosen_together_stand_in_one_variable_and_stay_from_run_to_run() {
    let scene = ran(TRAIN, Some(found()));
    let (command, remedies) = offers(&scene);
    let both = [
        one(&remedies, RemedyId::Amp),
        one(&remedies, RemedyId::Batch),
    ];
    let made = Plan::new(&command, &both).command;
    assert_eq!(made.env_value("OOMPH_PATCHES").unwrap(), "amp,batch=64:32");
    // The next run: the loaders yield 32 where the program asks for 64.
    let again = ran(
        TRAIN,
        Some(Patchable {
            batch: Some(32),
            ..found()
        }),
    );
    let mut next = again.state.clone();
    next.runs[0].command = made;
    let next = StagedSession {
        state: next,
        events: Vec::new(),
    };
    let (command, remedies) = offers(&next);
    let made = Plan::new(&command, &[one(&remedies, RemedyId::Batch)]).command;
    assert_eq!(made.env_value("OOMPH_PATCHES").unwrap(), "amp,batch=64:16");
    assert!(reason(&next, RemedyId::Amp).contains("already patched at runtime"));
}

#[test]
fn what_was_not_found_is_not_offered() {
    let blocks = |left: Option<&str>, held| Patchable {
        blocks: vec![Blocks {
            left: left.map(String::from),
            held,
            ..found().blocks[0].clone()
        }],
        ..found()
    };
    let cases = [
        (
            RemedyId::Recompute,
            Patchable {
                blocks: Vec::new(),
                ..found()
            },
            "no repeated blocks",
        ),
        (
            RemedyId::Recompute,
            blocks(Some("hooks inside them would run twice"), None),
            "its 12 Block cannot be patched: hooks",
        ),
        (
            RemedyId::Recompute,
            blocks(None, Some(gib(0.2))),
            "too little to gain",
        ),
        (
            RemedyId::Amp,
            Patchable {
                precision: Some("it scales its loss (GradScaler)".into()),
                ..found()
            },
            "sets its own precision: it scales its loss",
        ),
        (
            RemedyId::Amp,
            Patchable {
                amp_left: Some("it computes with sparse matrices".into()),
                ..found()
            },
            "sparse matrices",
        ),
        (
            RemedyId::Amp,
            Patchable {
                bf16: false,
                ..found()
            },
            "no bf16",
        ),
        (
            RemedyId::Batch,
            Patchable {
                batch: None,
                batch_left: Some("a batch sampler makes them".into()),
                ..found()
            },
            "a batch sampler makes them",
        ),
        (
            RemedyId::Batch,
            Patchable {
                batch: Some(1),
                ..found()
            },
            "already use a batch size of 1",
        ),
    ];
    for (id, found, expected) in cases {
        let reason = reason(&ran(TRAIN, Some(found)), id);
        assert!(reason.contains(expected), "{reason}");
    }
}

#[test]
fn blocks_that_change_what_is_outside_are_not_run_twice() {
    for changes_outside in [false, true] {
        let mut scene = ran(TRAIN, Some(found()));
        let said = Rehearsal {
            pid: Pid(100),
            changes_outside,
            ..Rehearsal::default()
        };
        scene.add(9.2, EventKind::Rehearsal(Box::new(said)));
        let (_, remedies) = offers(&scene);
        let offered = &one(&remedies, RemedyId::Recompute).availability;
        assert_eq!(matches!(offered, Availability::Offered), !changes_outside);
        if changes_outside {
            let reason = reason(&scene, RemedyId::Recompute);
            assert!(reason.contains("no part of the model"), "{reason}");
        }
    }
}

#[test]
fn an_argument_goes_before_a_patch() {
    let scene = ran("python train.py --batch-size 64 --amp False", Some(found()));
    let (command, remedies) = offers(&scene);
    for id in [RemedyId::Batch, RemedyId::Amp] {
        let made = Plan::new(&command, &[one(&remedies, id)]).command;
        assert_eq!(made.env, []);
        assert_ne!(made.argv, command.argv);
    }
}

#[test]
fn without_a_word_of_the_probes_nothing_is_said_of_patches() {
    let scene = ran(TRAIN, None);
    for id in [RemedyId::Batch, RemedyId::Amp, RemedyId::Recompute] {
        let reason = reason(&scene, id);
        assert!(!reason.contains("inside"), "{reason}");
    }
}

#[test]
fn a_patch_that_declined_is_not_offered_again() {
    let mut scene = ran(TRAIN, Some(found()));
    scene.add(
        9.2,
        EventKind::Patch(Patched {
            pid: Pid(100),
            patch: "recompute".into(),
            outcome: PatchOutcome::Declined,
            words: "they change their input in place".into(),
            relief: None,
        }),
    );
    let reason = reason(&scene, RemedyId::Recompute);
    assert!(
        reason.ends_with("they change their input in place"),
        "{reason}"
    );
}

#[test]
fn expandable_segments_are_not_offered_where_they_break() {
    let with = |change: fn(&mut crate::event::Hello), found: Patchable| {
        let EventKind::Hello(mut hello) = hello(1, 100, None) else {
            panic!("a hello");
        };
        change(&mut hello);
        let mut scene = StagedSession::default();
        scene
            .add(0.0, started(1, 100, TRAIN))
            .add(1.0, EventKind::Hello(hello));
        // 9 GiB are cached in pieces.
        let record = record(100, gib(12.0), gib(21.0), gib(1.0), gib(0.1));
        scene.add(9.0, EventKind::Oom(record));
        scene.add(9.1, EventKind::Patchable(found));
        scene
    };
    let is_offered =
        |scene: &StagedSession| one(&offers(scene).1, RemedyId::ExpandableSegments).is_offered();
    assert!(is_offered(&with(|_| {}, found())));
    let shares = Patchable {
        shares_cuda: true,
        ..found()
    };
    for (scene, why) in [
        (with(|hello| hello.wsl = true, found()), "WSL2"),
        (
            with(|hello| hello.torch = "2.8.0+rocm6.4".into(), found()),
            "ROCm",
        ),
        // As AMD's images have it.
        (
            with(
                |hello| {
                    hello.torch = "2.8.0a0+git5d3e1c2".into();
                    hello.rocm = true;
                },
                found(),
            ),
            "ROCm",
        ),
        (
            with(
                |hello| hello.devices[0].name = "NVIDIA H100 80GB HBM3 MIG 1g.10gb".into(),
                found(),
            ),
            "MIG",
        ),
        (
            with(
                |hello| hello.devices[0].uuid = Some(crate::units::Uuid::new("MIG-4f2a")),
                found(),
            ),
            "MIG",
        ),
        (with(|_| {}, shares), "shares CUDA tensors"),
    ] {
        let said = reason(&scene, RemedyId::ExpandableSegments);
        assert!(said.contains(why), "{said}");
    }
}

/// Where no probe has said which device it is, the name that the program is given says so.
#[test]
fn an_instance_in_the_visible_devices_has_no_expandable_segments() {
    let text = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 15.98 GiB of which 1.00 GiB is free. Including non-PyTorch memory, this process has 14.90 GiB memory in use. Of the allocated memory 9.00 GiB is allocated by PyTorch, and 5.50 GiB is reserved by PyTorch but unallocated.";
    let inherited = |value: &str| vec![("CUDA_VISIBLE_DEVICES".to_string(), value.to_string())];
    let instance = "CUDA_VISIBLE_DEVICES=MIG-4f2a";
    for (line, environment, is_offered) in [
        ("python train.py".to_string(), inherited("1"), true),
        (format!("{instance} python train.py"), vec![], false),
        (format!("env {instance} python train.py"), vec![], false),
        ("python train.py".to_string(), inherited("MIG-4f2a"), false),
        (
            format!("{} python train.py", "CUDA_VISIBLE_DEVICES=0"),
            inherited("MIG-4f2a"),
            true,
        ),
    ] {
        let mut scene = StagedSession::default();
        scene.add(0.0, started(1, 100, "python train.py"));
        for report in crate::oom::read(text.as_bytes()) {
            scene.add(3.0, EventKind::OomText(report));
        }
        let mut inputs = super::of_staged(&scene, &[]);
        inputs.launch.environment = &environment;
        let command = super::command(&line);
        let all = remedies(&command, &inputs);
        let offered = one(&all, RemedyId::ExpandableSegments);
        assert_eq!(offered.is_offered(), is_offered, "{line} {environment:?}");
        if let Availability::NotOffered(why) = &offered.availability {
            assert!(why.to_string().contains("MIG"), "{line}: {why}");
        }
    }
}

#[test]
fn a_text_of_rocm_or_of_an_intel_gpu_gets_no_setting_of_cudas() {
    for (text, component) in [
        (
            "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 15.98 GiB of which 3.00 GiB is free. Of the allocated memory 8.00 GiB is allocated by PyTorch, and 4.50 GiB is reserved by PyTorch but unallocated.",
            "HIP ran out of memory",
        ),
        (
            "torch.OutOfMemoryError: XPU out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 15.98 GiB. Of the allocated memory 8.00 GiB is allocated by PyTorch, and 4.50 GiB is reserved by PyTorch but unallocated.",
            "an Intel GPU ran out of memory",
        ),
    ] {
        let mut scene = StagedSession::default();
        scene.add(0.0, started(1, 100, TRAIN));
        for report in crate::oom::read(text.as_bytes()) {
            scene.add(3.0, EventKind::OomText(report));
        }
        let said = reason(&scene, RemedyId::ExpandableSegments);
        assert!(said.contains(component), "{said}");
        let (_, all) = offers(&scene);
        let split = |remedy: &&Remedy| remedy.id == RemedyId::MaxSplitSize;
        assert!(
            all.iter()
                .find(split)
                .is_none_or(|split| !split.is_offered())
        );
    }
}
