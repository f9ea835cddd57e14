//! What is said beside the cause, and who is beside the training: checkpointing without effect, an inference engine.

use super::trainings::{failing, full_card};
use crate::diagnosis::*;
use crate::event::*;
use crate::state::tests::staged::*;
use crate::units::Pid;

#[test]
fn checkpointing_that_is_switched_on_and_saves_nothing_is_said() {
    let blocks = |held, idle: Option<&str>| {
        let mut scene = failing(full_card());
        scene.add(
            20.1,
            EventKind::Patchable(Patchable {
                pid: Pid(100),
                models: vec!["GPT2LMHeadModel".into()],
                blocks: vec![Blocks {
                    class: "GPT2Block".into(),
                    count: 24,
                    held: Some(gib(held)),
                    left: Some("they are already checkpointed".into()),
                    idle: idle.map(str::to_string),
                }],
                ..Patchable::default()
            }),
        );
        let finding = diagnose(&scene.state).remove(0);
        let first = finding.advice[0].to_string();
        (finding.cause, finding.explanation.to_string(), first)
    };
    let why = "they are in eval mode, in which nothing is checkpointed: model.train()";
    let (cause, said, first) = blocks(12.0, Some(why));
    assert_eq!(cause, Cause::Capacity);
    let words = "Activation checkpointing is switched on and saves nothing: the 24 GPT2Block keep 12.0 GiB; they are in eval mode";
    assert!(said.contains(words), "{said}");
    assert!(first.contains("model.train()"), "{first}");
    // It does what it should, or what they keep is next to nothing.
    for (held, idle) in [(12.0, None), (1.0, Some(why))] {
        let (_, said, _) = blocks(held, idle);
        assert!(!said.contains("saves nothing"), "{said}");
    }
}

#[test]
fn an_inference_engine_beside_the_training_is_no_stranger() {
    let found = |name: &str| {
        let mut scene = StagedSession::training();
        scene.sampled(2.0, 1.0, 1.5);
        let mut seen = reading(&[(100, gib(9.0)), (777, gib(14.0))]);
        for process in seen.processes.iter_mut().flatten() {
            process.name = (process.pid == Pid(777)).then(|| name.into());
        }
        scene.add(19.0, EventKind::Device(seen));
        let record = record(100, gib(8.0), gib(8.4), gib(2.0), gib(0.6));
        scene.add(20.0, EventKind::Oom(record));
        let found = diagnose(&scene.state);
        let causes: Vec<Cause> = found.iter().map(|finding| finding.cause).collect();
        (causes, found[0].certainty, found[0].advice[0].to_string())
    };
    let (causes, certainty, advice) = found("python3 vllm_engine.py");
    assert_eq!(
        (causes[0], certainty),
        (Cause::InferenceEngine, Certainty::Certain)
    );
    assert!(!causes.contains(&Cause::ForeignProcess), "{causes:?}");
    assert!(
        advice.contains("a smaller share for the engine"),
        "{advice}"
    );
    let (causes, ..) = found("python3 train.py");
    assert_eq!(causes[0], Cause::ForeignProcess);
}

#[test]
fn workers_of_the_dataloader_on_the_gpu_are_no_strangers() {
    let mut scene = StagedSession::training();
    scene.sampled(2.0, 1.0, 1.5);
    let loader = LoaderSettings {
        workers: 4,
        pids: vec![Pid(201), Pid(202), Pid(203), Pid(204)],
        ..LoaderSettings::default()
    };
    scene.add(
        3.0,
        EventKind::ProcessHost(Box::new(ProcessHost {
            pid: Pid(100),
            loaders: Some(vec![loader]),
            ..ProcessHost::default()
        })),
    );
    let workers = [201, 202, 203, 204].map(|pid| (pid, gib(0.5)));
    let on_gpu: Vec<_> = [(100, gib(21.0))].into_iter().chain(workers).collect();
    scene.add(19.0, EventKind::Device(reading(&on_gpu)));
    let record = record(100, gib(20.0), gib(20.4), gib(2.0), gib(0.6));
    scene.add(20.0, EventKind::Oom(record));
    let found = diagnose(&scene.state);
    let of_workers = found
        .iter()
        .find(|finding| finding.cause == Cause::GpuInWorkers);
    let of_workers = of_workers.unwrap_or_else(|| panic!("{found:?}"));
    let headline = of_workers.headline.to_string();
    assert!(
        headline.contains("4 workers of the DataLoader use 2.0"),
        "{headline}"
    );
    let advice = of_workers.advice[0].to_string();
    assert!(advice.contains("CPU tensors from the dataset"), "{advice}");
    let other = [Cause::OwnRanks, Cause::ForeignProcess];
    assert!(
        found.iter().all(|finding| !other.contains(&finding.cause)),
        "{found:?}"
    );
}

#[test]
fn three_quarters_of_the_gpu_are_what_jax_takes() {
    let said = |theirs: f64| {
        let mut scene = StagedSession::training();
        scene.sampled(2.0, 1.0, 1.5);
        let theirs = reading(&[]).total.unwrap().scale(theirs);
        scene.add(
            19.0,
            EventKind::Device(reading(&[(100, gib(5.0)), (777, theirs)])),
        );
        scene.add(
            20.0,
            EventKind::Oom(record(100, gib(4.0), gib(4.4), gib(2.0), gib(0.6))),
        );
        let first = diagnose(&scene.state).remove(0);
        (
            first.cause,
            first.advice[0]
                .to_string()
                .contains("XLA_PYTHON_CLIENT_PREALLOCATE"),
        )
    };
    assert_eq!(said(0.76), (Cause::ForeignProcess, true));
    assert_eq!(said(0.70), (Cause::ForeignProcess, false));
}
