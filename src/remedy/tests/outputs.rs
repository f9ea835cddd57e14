//! An evaluation that keeps its outputs on the GPU: by which argument or patch they go to RAM, and what that needs.

use super::remedy_of;
use crate::event::*;
use crate::remedy::{Availability, Plan, Remedy, RemedyId};
use crate::state::tests::staged::*;
use crate::units::Pid;

const TRAINER: &str = "/v/lib/python3.12/site-packages/transformers/trainer_pt_utils.py";
const FLAGS: &str = "python run_clm.py --do_train --output_dir out --model_name_or_path gpt2 --per_device_train_batch_size 8";

fn line(file: &str, function: &str) -> SourceLine {
    SourceLine {
        file: file.into(),
        line: 87,
        function: function.into(),
    }
}

/// A card of 23.6 GiB: Trainer kept so much of outputs in GiB, and those of one batch were to be added.
fn gathering(words: &str, kept: f64, each: f64) -> StagedSession {
    let mut scene = StagedSession::default();
    scene
        .add(0.0, started(1, 100, words))
        .add(1.0, hello(1, 100, None));
    let stack = vec![
        line(TRAINER, "torch_pad_and_concatenate"),
        line(
            "/v/lib/python3.12/site-packages/transformers/trainer.py",
            "evaluation_loop",
        ),
        line("/srv/train.py", "main"),
    ];
    let failed = record(
        100,
        gib(kept + each + 1.0),
        gib(kept + each + 1.5),
        gib(kept + each),
        gib(0.2),
    );
    scene.add(
        9.0,
        EventKind::Oom(OomRecord {
            phase: Phase::Evaluation,
            grad_enabled: Some(true),
            step: 10,
            stack,
            ..failed
        }),
    );
    let retainer = |name: &str, bytes: f64| Retainer {
        name: name.into(),
        kind: RetainerKind::Local,
        of: "torch_pad_and_concatenate".into(),
        class: "Tensor".into(),
        // A library's variable has none.
        line: None,
        bytes: gib(bytes),
        ..Retainer::default()
    };
    scene.add(
        9.1,
        EventKind::Retainers(Box::new(Retainers {
            pid: Pid(100),
            step: 10,
            retainers: vec![retainer("tensor1", kept), retainer("tensor2", each)],
            looked_for: gib(kept + each),
            ..Retainers::default()
        })),
    );
    scene.add(
        9.2,
        EventKind::Patchable(Patchable {
            pid: Pid(100),
            ..Patchable::default()
        }),
    );
    scene
}

fn to_ram(scene: &StagedSession) -> Option<(Remedy, bool)> {
    remedy_of(scene, RemedyId::OutputsToRam)
}

#[track_caller]
fn command(scene: &StagedSession) -> Result<String, String> {
    let (remedy, _) = to_ram(scene).unwrap();
    let command = &scene.state.run().unwrap().command;
    match &remedy.availability {
        Availability::NotOffered(why) => Err(why.to_string()),
        Availability::Offered => Ok(Plan::new(command, &[&remedy]).command.shown()),
    }
}

#[test]
fn the_programs_argument_comes_first_and_its_own_number_is_lowered() {
    // 16 batches were kept: they are moved after two.
    let scene = gathering(FLAGS, 8.0, 0.5);
    assert_eq!(
        command(&scene),
        Ok(format!("{FLAGS} --eval_accumulation_steps 2"))
    );
    let typed = format!("{FLAGS} --eval_accumulation_steps 100");
    assert_eq!(
        command(&gathering(&typed, 8.0, 0.5)),
        Ok(format!("{FLAGS} --eval_accumulation_steps 2"))
    );
    let few = format!("{FLAGS} --eval_accumulation_steps 4");
    let why = command(&gathering(&few, 8.0, 0.5)).unwrap_err();
    assert!(why.contains("already on"), "{why}");
}

#[test]
fn without_an_argument_trainer_is_patched_and_nothing_else() {
    let scene = gathering("python train.py", 8.0, 0.5);
    assert_eq!(
        command(&scene).as_deref(),
        Ok("OOMPH_PATCHES=eval_outputs=2 python train.py")
    );
    let (remedy, is_recommended) = to_ram(&scene).unwrap();
    assert_eq!(remedy.numerics(), "same numerics");
    assert!(is_recommended, "{remedy:?}");
}

#[test]
fn what_it_needs_is_an_estimate_and_says_what_ram_takes() {
    let (remedy, _) = to_ram(&gathering(FLAGS, 8.0, 0.5)).unwrap();
    let said = &remedy.expectation;
    assert_eq!(said.basis, Some(Basis::Estimated));
    // 1.5 beside what was kept, and three times a batch; each batch ran beside 8.
    assert_eq!(said.needs(), Some(gib(3.0)));
    let relief = said.prediction().and_then(|said| said.relief).unwrap();
    assert_eq!(relief.at, ReliefMoment::Evaluation);
    assert_eq!(relief.allocated, Some(gib(3.0)));
    // Nothing is known of how many batches come, nor of the training's own peak.
    assert_eq!((relief.to_ram, said.peak), (None, None));
    for words in [
        "likely fits",
        "8.00 GiB of outputs go to RAM",
        "RAM takes at least 16.0 GiB",
    ] {
        assert!(said.words.contains(words), "{}", said.words);
    }
}

#[test]
fn ram_that_cannot_hold_them_is_said_and_nothing_is_offered() {
    let mut scene = gathering(FLAGS, 8.0, 0.5);
    scene.add(
        9.3,
        EventKind::HostMemory(Box::new(HostMemory {
            used: gib(20.0),
            limit: gib(30.0),
            ..HostMemory::default()
        })),
    );
    let why = command(&scene).unwrap_err();
    assert!(
        why.contains("would have to hold at least 16.0 GiB (all outputs"),
        "{why}"
    );
}

#[test]
fn another_evaluations_outputs_are_not_trainers() {
    let mut scene = gathering(FLAGS, 8.0, 0.5);
    let own = OomRecord {
        phase: Phase::Evaluation,
        grad_enabled: Some(false),
        step: 10,
        stack: vec![line("/srv/train.py", "evaluate")],
        ..record(100, gib(9.5), gib(10.0), gib(8.5), gib(0.2))
    };
    scene.add(20.0, EventKind::Oom(own));
    assert!(to_ram(&scene).is_none());
}

#[test]
fn where_the_number_of_batches_is_known_ram_has_to_hold_all_of_them() {
    let mut scene = gathering(FLAGS, 8.0, 0.5);
    let last = scene.state.oom().unwrap().record.clone().unwrap();
    let known = OomRecord {
        gathering: Some(Box::new(Gathering {
            done: 16,
            of: Some(64),
        })),
        ..last
    };
    scene.add(9.4, EventKind::Oom(known));
    let (remedy, _) = to_ram(&scene).unwrap();
    let words = &remedy.expectation.words;
    assert!(words.contains("RAM takes 64.0 GiB"), "{words}");
    let relief = remedy.expectation.relief.unwrap();
    assert_eq!(relief.to_ram, Some(gib(32.0)));
}

#[test]
fn the_runs_peak_is_that_of_the_training_where_that_is_larger() {
    let mut scene = StagedSession::default();
    scene
        .add(0.0, started(1, 100, FLAGS))
        .add(1.0, hello(1, 100, None));
    for count in 1..=10 {
        scene.add(
            1.0 + count as f64 / 2.0,
            step(100, count, gib(1.5), gib(7.0)),
        );
    }
    let evaluation = gathering(FLAGS, 8.0, 0.5).events;
    for event in evaluation.into_iter().skip(2) {
        scene.add(event.at.0 as f64 / 1e6, event.what);
    }
    let (remedy, _) = to_ram(&scene).unwrap();
    assert_eq!(
        remedy.expectation.peak.map(|peak| peak.likely),
        Some(gib(7.0))
    );
}
