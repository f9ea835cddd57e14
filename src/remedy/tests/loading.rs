//! A checkpoint that is loaded onto the GPU beside its model: when it goes to the CPU instead, and what that needs.

use super::remedy_of;
use crate::diagnosis::{Cause, diagnose};
use crate::event::*;
use crate::remedy::{Availability, Plan, Remedy, RemedyId};
use crate::state::tests::staged::*;

const TORCH: &str = "/v/lib/python3.12/site-packages/torch";

fn line(file: &str, number: u32, function: &str) -> SourceLine {
    SourceLine {
        file: file.into(),
        line: number,
        function: function.into(),
    }
}

/// A card of 23.6 GiB with 21 allocated, 2 of it by the checkpoint.
fn loading(checkpoint: LoadedCheckpoint) -> StagedSession {
    let serialization = format!("{TORCH}/serialization.py");
    let resume = line("/srv/train.py", 31, "resume");
    let mut scene = StagedSession::default();
    scene
        .add(0.0, started(1, 100, "python train.py"))
        .add(1.0, hello(1, 100, None));
    scene.add(
        9.0,
        EventKind::Oom(OomRecord {
            phase: Phase::Load,
            step: 0,
            stack: vec![
                line(&format!("{TORCH}/storage.py"), 289, "to"),
                line(&serialization, 2190, "_load"),
                line(&serialization, 1570, "load"),
                resume.clone(),
            ],
            lines: vec![LineUsage {
                line: resume,
                inside: Some(line(&format!("{TORCH}/_utils.py"), 106, "_to")),
                bytes: gib(2.0),
                blocks: 8,
                kind: None,
            }],
            loading: Some(Box::new(checkpoint)),
            ..record(100, gib(21.0), gib(21.2), gib(1.0), gib(0.5))
        }),
    );
    scene
}

fn to_cpu(scene: &StagedSession) -> (Remedy, bool) {
    assert_eq!(diagnose(&scene.state)[0].cause, Cause::CheckpointLoading);
    remedy_of(scene, RemedyId::LoadToCpu).unwrap()
}

fn plain() -> LoadedCheckpoint {
    LoadedCheckpoint {
        bytes: Some(gib(6.0)),
        left: None,
    }
}

#[test]
fn it_goes_to_the_cpu_at_runtime_and_enter_stands_on_it() {
    let scene = loading(plain());
    let (remedy, is_recommended) = to_cpu(&scene);
    assert!(remedy.is_offered() && is_recommended, "{remedy:?}");
    let command = &scene.state.run().unwrap().command;
    assert_eq!(
        Plan::new(command, &[&remedy]).command.shown(),
        "OOMPH_PATCHES=load=cpu python train.py"
    );
    let said = &remedy.expectation;
    assert_eq!((said.at_least, said.fits), (Some(gib(19.0)), None));
    assert!(
        said.words.contains("the file's 6.00 GiB go to RAM"),
        "{}",
        said.words
    );
    let relief = said.prediction().and_then(|said| said.relief).unwrap();
    assert_eq!(relief.at, ReliefMoment::Loading);
    assert_eq!(relief.allocated, Some(gib(19.0)));
    assert_eq!(relief.to_ram, Some(gib(6.0)));
    assert_eq!(remedy.numerics(), "same numerics");
}

#[test]
fn a_call_that_would_be_left_alone_and_ram_that_is_too_small_are_said() {
    let left = LoadedCheckpoint {
        left: Some("the program itself says where to load to (map_location)".into()),
        ..plain()
    };
    let mut small = loading(plain());
    small.add(
        9.1,
        EventKind::HostMemory(Box::new(HostMemory {
            used: gib(20.0),
            limit: gib(24.0),
            ..HostMemory::default()
        })),
    );
    for (scene, why) in [
        (loading(left), "no runtime patch: the program itself says"),
        (small, "takes 6.00 GiB of RAM, and 4.00 GiB is available"),
    ] {
        match to_cpu(&scene).0.availability {
            Availability::NotOffered(said) => assert!(said.contains(why), "{said}"),
            Availability::Offered => panic!("{why}"),
        }
    }
}

#[test]
fn nothing_that_saves_in_a_step_is_recommended_while_the_model_is_put_on_the_gpu() {
    let modules = format!("{TORCH}/nn/modules/module.py");
    let moved = line(&modules, 965, "_apply");
    let made = line(&format!("{TORCH}/nn/modules/linear.py"), 105, "__init__");
    // A batch that the program itself makes there.
    let data = line("/srv/data.py", 12, "synthetic");
    for (inner, is_model) in [(moved, true), (made, true), (data, false)] {
        let mut scene = StagedSession::default();
        scene
            .add(0.0, started(1, 100, "python train.py --batch-size 8"))
            .add(1.0, hello(1, 100, None));
        scene.add(
            9.0,
            EventKind::Oom(OomRecord {
                phase: Phase::Load,
                step: 0,
                stack: vec![inner, line("/srv/train.py", 31, "main")],
                ..record(100, gib(21.0), gib(21.2), gib(4.0), gib(0.5))
            }),
        );
        let (batch, is_recommended) = remedy_of(&scene, RemedyId::Batch).unwrap();
        assert_eq!(batch.expectation.futile.is_some(), is_model, "{batch:?}");
        assert_eq!(is_recommended, !is_model, "{batch:?}");
    }
}
