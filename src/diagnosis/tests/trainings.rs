//! Trainings with a probe, and the first finding of each.

use super::attention;
use super::evaluations::{gathering_with_gradients, kept_in_pieces, three_in_a_list};
use super::leaks::{leaking, leaking_among_pieces, leaking_by_name};
use crate::diagnosis::*;
use crate::event::*;
use crate::oom::{self, OomKind, OomReport};
use crate::state::State;
use crate::state::tests::staged::*;
use crate::units::{Bytes, Pid, Rank};

/// An OOM of a training with a probe.
pub(super) fn failing(record: OomRecord) -> StagedSession {
    let mut scene = StagedSession::training();
    scene.sampled(2.0, 1.0, 1.5);
    scene.add(3.0, EventKind::Device(reading(&[(100, gib(2.0))])));
    scene.add(20.0, EventKind::Oom(record));
    scene
}

fn made_of(parameters: f64, gradients: f64, optimizer_state: f64) -> Option<Box<Structure>> {
    Some(Box::new(Structure {
        pid: Pid(100),
        device: 0,
        parameters: gib(parameters),
        gradients: gib(gradients),
        optimizer_state: gib(optimizer_state),
        whole: None,
    }))
}

pub(super) fn call(file: &str, function: &str) -> SourceLine {
    SourceLine {
        file: file.into(),
        line: 7,
        function: function.into(),
    }
}

/// A stack of these calls, innermost first.
pub(super) fn calls(of: &[(&str, &str)]) -> Vec<SourceLine> {
    of.iter()
        .map(|(file, function)| call(file, function))
        .collect()
}

pub(super) fn full_card() -> OomRecord {
    OomRecord {
        phase: Phase::Backward,
        step: 1,
        structure: made_of(0.5, 0.5, 1.0),
        largest_free: Some(Bytes::mib(20)),
        ..record(100, gib(22.2), gib(22.5), gib(1.2), gib(0.2))
    }
}

fn fragmented() -> OomRecord {
    OomRecord {
        phase: Phase::Forward,
        step: 40,
        largest_free: Some(Bytes::mib(1_900)),
        ..record(100, gib(17.0), gib(22.6), gib(2.5), gib(0.3))
    }
}

/// Similar steps, then one that needs more.
fn odd(steps: u64, peak: f64, on_top: f64) -> StagedSession {
    let mut scene = StagedSession::training();
    scene.sampled(2.0, 1.0, 1.5);
    for n in 1..=steps {
        scene.add(2.0 + n as f64, step(100, n, gib(4.0), gib(4.0 + peak)));
    }
    scene.add(
        70.0,
        EventKind::Oom(OomRecord {
            phase: Phase::Forward,
            step: steps,
            structure: made_of(1.0, 1.0, 2.0),
            ..record(
                100,
                gib(4.0 + on_top),
                gib(4.2 + on_top),
                gib(1.5),
                gib(0.2),
            )
        }),
    );
    scene
}

/// A longer sequence, where PyTorch's cache plus free memory would have been enough for the failed request.
fn odd_with_a_cache() -> StagedSession {
    let mut scene = StagedSession::training();
    scene.sampled(2.0, 1.0, 1.5);
    for n in 1..=40 {
        scene.add(2.0 + n as f64, step(100, n, gib(1.0), gib(4.0)));
    }
    let failed = record(100, gib(14.0), gib(18.0), gib(5.0), gib(4.0));
    scene.add(
        70.0,
        EventKind::Oom(OomRecord {
            phase: Phase::Forward,
            step: 40,
            ..failed
        }),
    );
    scene
}

/// Twenty fast steps, then ten slow ones with retries, then the end.
fn thrashing() -> StagedSession {
    let mut scene = StagedSession::training();
    let mut at = 2.0;
    for n in 1..=30 {
        at += if n > 20 { 1.7 } else { 1.0 };
        let mut held = sample(100, 0, gib(20.0), gib(22.6));
        held.alloc_retries = if n > 20 { (n - 20) * 2 } else { 0 };
        scene.add(at - 0.1, EventKind::Sample(held));
        scene.add(at, step(100, n, gib(4.0), gib(22.0)));
    }
    scene
}

/// Out of memory after steps at the edge of it.
fn thrashed() -> StagedSession {
    let mut scene = thrashing();
    scene.add(
        60.0,
        EventKind::Oom(OomRecord {
            phase: Phase::Backward,
            step: 30,
            ..full_card()
        }),
    );
    scene
}

/// The GPU is lost, and then CUDA reports an OOM.
fn lost() -> StagedSession {
    let mut scene = StagedSession::training();
    scene.sampled(2.0, 4.0, 4.5);
    let mut card = reading(&[(100, gib(5.0))]);
    scene.add(3.0, EventKind::Device(card.clone()));
    card.lost = Some("GPU is lost".into());
    card.used = None;
    card.processes = None;
    scene.add(4.0, EventKind::Device(card)).add(
        5.0,
        EventKind::OomText(OomReport {
            kind: OomKind::CudaErrorOom,
            ..OomReport::default()
        }),
    );
    scene
}

/// What it is called, the session, and what its first finding must be.
pub(super) type StagedTraining = (&'static str, StagedSession, Cause, Certainty);

pub(super) fn scenes() -> Vec<StagedTraining> {
    use Cause::*;
    use Certainty::*;
    let mut foreign = StagedSession::training();
    let mut card = reading(&[(100, gib(2.0)), (4_021, gib(15.0))]);
    if let Some(other) = card.processes.as_mut().and_then(|list| list.get_mut(1)) {
        other.name = Some("python".into());
        other.user = Some("ada".into());
    }
    foreign
        .sampled(2.0, 1.0, 1.5)
        .add(3.0, EventKind::Device(card));
    foreign.add(
        20.0,
        EventKind::Oom(record(100, gib(7.3), gib(7.5), gib(1.0), gib(0.5))),
    );
    foreign.add(21.0, exited(1, Exit::Code(1)));
    // Afterwards the GPU is empty, which it wasn't at the OOM.
    foreign.add(22.0, EventKind::Device(reading(&[])));

    let mut left_over = StagedSession::training();
    left_over
        .add(8.0, exited(1, Exit::Code(1)))
        .add(9.0, started(2, 200, "python train.py --batch-size 32"))
        .add(10.0, hello(2, 200, None))
        .add(10.5, EventKind::Sample(sample(200, 0, gib(1.0), gib(1.5))))
        .add(
            11.0,
            EventKind::Device(reading(&[(200, gib(2.0)), (100, gib(20.0))])),
        )
        .add(
            12.0,
            EventKind::Oom(record(200, gib(1.3), gib(1.5), gib(1.9), gib(1.6))),
        );

    // `StagedSession::training` runs `python train.py`.
    let mut orphan = StagedSession::training();
    let mut card = reading(&[(100, gib(2.0)), (4_021, gib(15.0))]);
    if let Some(other) = card.processes.as_mut().and_then(|list| list.get_mut(1)) {
        other.name = Some("python3 train.py".into());
        other.user = Some("ada".into());
        other.orphaned = true;
    }
    orphan
        .sampled(2.0, 1.0, 1.5)
        .add(3.0, EventKind::Device(card.clone()))
        .add(
            20.0,
            EventKind::Oom(record(100, gib(7.3), gib(7.5), gib(1.0), gib(0.5))),
        );
    let mut twin = StagedSession::training();
    if let Some(other) = card.processes.as_mut().and_then(|list| list.get_mut(1)) {
        other.orphaned = false;
    }
    twin.sampled(2.0, 1.0, 1.5)
        .add(3.0, EventKind::Device(card))
        .add(
            20.0,
            EventKind::Oom(record(100, gib(7.3), gib(7.5), gib(1.0), gib(0.5))),
        );

    let mut same_device = StagedSession::default();
    same_device
        .add(0.0, started(1, 99, "torchrun train.py"))
        .add(1.0, hello(1, 100, Some(0)))
        .add(1.0, hello(1, 101, Some(1)))
        .add(2.0, EventKind::Sample(sample(100, 0, gib(11.0), gib(11.5))))
        .add(2.0, EventKind::Sample(sample(101, 0, gib(10.0), gib(10.5))));
    let mut text = text_of(&record(100, gib(11.0), gib(11.5), gib(2.0), gib(0.6)));
    text.rank = Some(Rank(0));
    text.process_used = Some(gib(12.0));
    text.others = vec![oom::OtherProcess {
        pid: Pid(101),
        used: Some(gib(11.0)),
    }];
    same_device.add(3.0, EventKind::OomText(text));

    let mut same_device_by_nvml = StagedSession::default();
    same_device_by_nvml
        .add(0.0, started(1, 99, "torchrun train.py"))
        .add(1.0, hello(1, 100, Some(0)))
        .add(1.0, hello(1, 101, Some(1)))
        .add(2.0, EventKind::Sample(sample(100, 0, gib(11.0), gib(11.5))))
        .add(2.0, EventKind::Sample(sample(101, 0, gib(10.0), gib(10.5))))
        .add(
            2.1,
            EventKind::Device(reading(&[(100, gib(12.0)), (101, gib(11.0))])),
        )
        .add(
            3.0,
            EventKind::Oom(record(100, gib(11.0), gib(11.5), gib(2.0), gib(0.6))),
        );

    let mut by_sample = StagedSession::training();
    by_sample.sampled(2.0, 21.0, 22.0).add(
        3.0,
        EventKind::OomText(OomReport {
            kind: OomKind::Cublas,
            ..OomReport::default()
        }),
    );

    let mut expandable = StagedSession::default();
    expandable.add(0.0, started(1, 100, "python train.py"));
    if let EventKind::Hello(mut hello) = hello(1, 100, None) {
        hello.expandable_segments = Some(true);
        expandable.add(1.0, EventKind::Hello(hello));
    }
    expandable.add(20.0, EventKind::Oom(fragmented()));

    vec![
        (
            "full card, second step",
            failing(full_card()),
            Capacity,
            Certain,
        ),
        (
            "model load",
            failing(OomRecord {
                phase: Phase::Load,
                structure: None,
                step: 0,
                ..full_card()
            }),
            Capacity,
            Certain,
        ),
        (
            "what stays is the most of it",
            failing(OomRecord {
                step: 9,
                structure: made_of(5.0, 5.0, 10.0),
                ..full_card()
            }),
            Capacity,
            Certain,
        ),
        (
            "ZeRO 2 of two ranks",
            failing(OomRecord {
                step: 9,
                structure: made_of(2.5, 0.0, 5.0),
                zero: Some(Box::new(ZeroLedger {
                    stage: 2,
                    world: 2,
                    parameters: gib(3.0),
                    whole: gib(3.0),
                    master: gib(3.0),
                    state: gib(6.0),
                    gradients: gib(1.5),
                    buckets: gib(1.0),
                    bucket_elements: Some(500_000_000),
                    ..ZeroLedger::default()
                })),
                ..full_card()
            }),
            Capacity,
            Certain,
        ),
        ("fragmented", failing(fragmented()), Fragmentation, Certain),
        ("fragmented, expandable", expandable, Fragmentation, Likely),
        ("another process", foreign, ForeignProcess, Certain),
        ("left over from run 1", left_over, LeftoverProcess, Certain),
        (
            "nobody's process of the same program",
            orphan,
            LeftoverProcess,
            Certain,
        ),
        (
            "a second training of the same program",
            twin,
            ForeignProcess,
            Certain,
        ),
        ("two ranks on one device", same_device, OwnRanks, Certain),
        (
            "two ranks on one device, by NVML",
            same_device_by_nvml,
            OwnRanks,
            Certain,
        ),
        (
            "a cap",
            failing(OomRecord {
                total: gib(8.0),
                limit: Some(gib(8.0)),
                ..record(100, gib(7.1), gib(7.4), gib(1.0), gib(15.5))
            }),
            Limit,
            Certain,
        ),
        (
            "first optimizer step",
            failing(OomRecord {
                phase: Phase::Optimizer,
                step: 0,
                structure: made_of(7.0, 7.0, 0.0),
                ..record(100, gib(21.6), gib(21.7), gib(2.0), gib(1.0))
            }),
            OptimizerState,
            Likely,
        ),
        (
            "second step, on top of the state",
            failing(OomRecord {
                structure: made_of(3.0, 3.0, 6.0),
                ..full_card()
            }),
            OptimizerState,
            Likely,
        ),
        (
            "evaluation with gradients",
            failing(OomRecord {
                phase: Phase::Evaluation,
                grad_enabled: Some(true),
                step: 100,
                ..full_card()
            }),
            EvaluationGraph,
            Likely,
        ),
        (
            // As first seen on a GPU: the rest would just about have been enough.
            "evaluation with gradients, tiny pieces",
            failing(OomRecord {
                phase: Phase::Evaluation,
                grad_enabled: Some(true),
                step: 10,
                largest_free: Some(Bytes::mib(13)),
                ..record(100, gib(23.0), gib(23.1), Bytes::mib(78), Bytes::mib(3))
            }),
            EvaluationGraph,
            Likely,
        ),
        (
            "an evaluation keeps its graphs, and what is left lies in pieces",
            kept_in_pieces(),
            EvaluationGraph,
            Likely,
        ),
        (
            "Trainer gathers an evaluation's outputs, in pieces",
            failing(OomRecord {
                phase: Phase::Evaluation,
                grad_enabled: Some(false),
                step: 10,
                largest_free: Some(Bytes::mib(1_900)),
                stack: calls(&[
                    (
                        "/v/site-packages/transformers/trainer_pt_utils.py",
                        "torch_pad_and_concatenate",
                    ),
                    (
                        "/v/site-packages/transformers/trainer_pt_utils.py",
                        "nested_concat",
                    ),
                    (
                        "/v/site-packages/transformers/trainer.py",
                        "evaluation_loop",
                    ),
                ]),
                ..record(100, gib(17.0), gib(22.6), gib(2.5), gib(0.3))
            }),
            EvaluationOutputs,
            Certain,
        ),
        (
            "an evaluation's loop keeps its outputs",
            three_in_a_list("validate"),
            EvaluationOutputs,
            Likely,
        ),
        (
            "a call of the model keeps the states of its layers",
            three_in_a_list("forward"),
            Fragmentation,
            Likely,
        ),
        (
            "Trainer gathers outside of no_grad, as of transformers 5",
            gathering_with_gradients(Bytes::ZERO),
            EvaluationOutputs,
            Certain,
        ),
        (
            "Trainer gathers outputs with their graphs",
            gathering_with_gradients(gib(18.0)),
            EvaluationGraph,
            Likely,
        ),
        (
            "a checkpoint is loaded beside the model",
            failing(OomRecord {
                phase: Phase::Load,
                step: 0,
                stack: calls(&[
                    ("/v/site-packages/torch/serialization.py", "_load"),
                    ("/srv/train.py", "resume"),
                ]),
                ..full_card()
            }),
            CheckpointLoading,
            Likely,
        ),
        (
            "the logits' line has the most",
            failing(OomRecord {
                step: 9,
                lines: vec![LineUsage {
                    line: call("/srv/train.py", "train"),
                    inside: Some(call(
                        "/v/site-packages/torch/nn/functional.py",
                        "cross_entropy",
                    )),
                    bytes: gib(9.5),
                    blocks: 3,
                    kind: None,
                }],
                ..full_card()
            }),
            LargeLogits,
            Likely,
        ),
        (
            "the logits' line has a little",
            failing(OomRecord {
                step: 9,
                lines: vec![LineUsage {
                    line: call("/srv/train.py", "train"),
                    inside: Some(call(
                        "/v/site-packages/torch/nn/functional.py",
                        "cross_entropy",
                    )),
                    bytes: gib(2.5),
                    blocks: 3,
                    kind: None,
                }],
                ..full_card()
            }),
            Capacity,
            Certain,
        ),
        (
            "a block of another stream",
            failing(OomRecord {
                phase: Phase::Forward,
                step: 40,
                largest_free: Some(gib(3.0)),
                ..record(100, gib(17.0), gib(22.6), gib(2.5), gib(0.3))
            }),
            UnusedBlock,
            Likely,
        ),
        (
            "evaluation without gradients",
            failing(OomRecord {
                phase: Phase::Evaluation,
                grad_enabled: Some(false),
                step: 100,
                ..full_card()
            }),
            Capacity,
            Certain,
        ),
        (
            // As left by large convolutions: a fourteenth of the cache, and more than was
            // requested.
            "large pieces in a full card",
            failing(OomRecord {
                phase: Phase::Forward,
                largest_free: Some(Bytes::mib(900)),
                ..record(100, gib(21.2), gib(22.8), gib(1.2), gib(0.3))
            }),
            Capacity,
            Likely,
        ),
        (
            "a third of the forward",
            failing(OomRecord {
                phase: Phase::Forward,
                progress: Some(0.33),
                ..record(100, gib(22.6), gib(22.8), gib(0.6), gib(0.5))
            }),
            Capacity,
            Likely,
        ),
        (
            "evaluation with gradients, large pieces",
            failing(OomRecord {
                phase: Phase::Evaluation,
                grad_enabled: Some(true),
                step: 8,
                largest_free: Some(Bytes::mib(450)),
                ..record(100, gib(21.7), gib(22.8), gib(0.6), gib(0.2))
            }),
            EvaluationGraph,
            Likely,
        ),
        ("a longer sequence", odd(60, 11.0, 18.0), OddBatch, Likely),
        (
            "a far longer sequence, whose last allocation nearly fitted",
            odd_with_a_cache(),
            OddBatch,
            Certain,
        ),
        (
            "a step like the others",
            odd(60, 19.2, 18.3),
            Capacity,
            Certain,
        ),
        (
            "the end of a warm-up, or not",
            odd(6, 5.0, 18.0),
            Capacity,
            Likely,
        ),
        (
            "far more than twenty steps before it",
            odd(20, 5.0, 18.0),
            OddBatch,
            Likely,
        ),
        ("after steps at the edge", thrashed(), Capacity, Certain),
        ("a lost card", lost(), DeviceFault, Certain),
        ("a leak", leaking(Bytes::mib(120), 105), Leak, Likely),
        (
            "a leak that leaves a cache in pieces",
            leaking_among_pieces(Bytes::mib(160), 100),
            Leak,
            Likely,
        ),
        ("a leak by name", leaking_by_name(), Leak, Likely),
        ("cuBLAS, no figures", by_sample, LibraryMemory, Likely),
    ]
}

#[test]
fn each_training_has_its_cause() {
    for (what, scene, cause, certainty) in scenes().into_iter().chain(attention::scenes()) {
        let findings = diagnose(&scene.state);
        let first = findings.first().map(|f| (f.cause, f.certainty));
        let said: Vec<_> = findings.iter().map(|f| &f.headline).collect();
        assert_eq!(first, Some((cause, certainty)), "{what}: {said:#?}");
    }
}

#[test]
fn thrashing_is_a_warning_while_it_runs() {
    let found = warnings(&thrashing().state, &FittedGrowth::default());
    let said: Vec<_> = found
        .iter()
        .map(|f| (f.cause, f.headline.as_str()))
        .collect();
    assert_eq!(
        said,
        [(
            Cause::Thrashing,
            "The allocator ran full, flushed its cache and retried 20 times in the last 10 steps, \
             which now take 1.7× as long."
        )]
    );
    let causes: Vec<_> = diagnose(&thrashed().state)
        .iter()
        .map(|f| f.cause)
        .collect();
    assert_eq!(causes, [Cause::Capacity, Cause::Thrashing]);
}

#[test]
fn retries_that_cost_nothing_are_no_thrashing() {
    let mut scene = StagedSession::training();
    for n in 1..=30 {
        let mut held = sample(100, 0, gib(20.0), gib(22.6));
        // One at the beginning of each epoch.
        held.alloc_retries = n / 10;
        scene.add(1.9 + n as f64, EventKind::Sample(held));
        scene.add(2.0 + n as f64, step(100, n, gib(4.0), gib(22.0)));
    }
    assert_eq!(warnings(&scene.state, &FittedGrowth::default()), []);
}

#[test]
fn a_lost_card_is_a_warning_while_it_runs() {
    let found = warnings(&lost().state, &FittedGrowth::default());
    assert!(matches!(&found[..], [fault] if fault.cause == Cause::DeviceFault));
}

#[test]
fn there_is_nothing_to_say_while_nothing_failed() {
    assert_eq!(diagnose(&State::default()), []);
    let mut scene = failing(full_card());
    scene.add(25.0, step(100, 2, gib(3.0), gib(22.0)));
    assert_eq!(diagnose(&scene.state), [], "it was caught");
}

/// Generation and checkpoints are no passes of a step.
#[test]
fn what_a_program_does_beside_its_steps_is_called_so() {
    for (phase, file, function, place) in [
        (
            Phase::Evaluation,
            "train.py",
            "generate",
            "during generation after step 10",
        ),
        (
            Phase::Load,
            "/lib/torch/serialization.py",
            "load",
            "while a checkpoint was loaded after step 10",
        ),
        (
            Phase::Unknown,
            "train.py",
            "save_checkpoint",
            "while a checkpoint was saved after step 10",
        ),
        // A function of its own with such a name, and a model that generates while it is trained.
        (
            Phase::Load,
            "train.py",
            "load",
            "while the model was being built",
        ),
        (
            Phase::Forward,
            "train.py",
            "generate",
            "in the forward pass of step 11",
        ),
    ] {
        let stack = vec![SourceLine {
            file: file.into(),
            line: 7,
            function: function.into(),
        }];
        let scene = failing(OomRecord {
            phase,
            stack,
            step: 10,
            ..record(100, gib(22.2), gib(22.5), gib(1.2), gib(0.2))
        });
        let said = format!("{:?}", diagnose(&scene.state));
        assert!(said.contains(place), "{function}: {said}");
    }
}

#[test]
fn data_that_is_put_on_the_gpu_before_the_first_step_is_no_model() {
    let line = |file: &str, function: &str| SourceLine {
        file: file.into(),
        line: 7,
        function: function.into(),
    };
    let moved = line("/lib/torch/nn/modules/module.py", "_apply");
    for (inner, is_model) in [
        (line("/srv/data.py", "to_gpu"), false),
        (line("/srv/net.py", "__init__"), true),
        (moved, true),
    ] {
        let scene = failing(OomRecord {
            phase: Phase::Load,
            stack: vec![inner, line("/srv/train.py", "<module>")],
            step: 0,
            ..record(100, gib(22.2), gib(22.5), gib(1.2), gib(0.2))
        });
        let findings = diagnose(&scene.state);
        let headline = findings[0].headline.to_string();
        assert_eq!(
            headline.starts_with("The model itself"),
            is_model,
            "{headline}"
        );
        let said = format!("{findings:?}");
        assert_eq!(said.contains("before the first step"), !is_model, "{said}");
        assert_eq!(said.contains("the data in RAM"), !is_model, "{said}");
    }
}
