//! Out-of-memories made by hand, and what is said of each: the causes in a table, the words kept
//! as a snapshot.

use super::*;
use crate::event::*;
use crate::oom::{OtherProcess, Report};
use crate::state::scene::*;
use crate::units::{Bytes, Moment, Pid, Rank};
use proptest::prelude::*;
use std::fmt::Write;

/// A text alone: total, free, allocated, unallocated, requested, in GiB.
fn message(total: f64, free: f64, allocated: f64, unallocated: f64, requested: f64) -> Report {
    Report {
        device: Some(0),
        requested: Some(gib(requested)),
        total: Some(gib(total)),
        free: Some(gib(free)),
        allocated: Some(gib(allocated)),
        unallocated: Some(gib(unallocated)),
        ..Report::default()
    }
}

fn with_process(report: Report, used: f64, others: &[(i32, f64)]) -> Report {
    Report {
        process_used: Some(gib(used)),
        others: others
            .iter()
            .map(|(pid, used)| OtherProcess {
                pid: Pid(*pid),
                used: Some(gib(*used)),
            })
            .collect(),
        ..report
    }
}

fn explained(report: &Report) -> Vec<Finding> {
    let incident = OomIncident::of_report(Moment::ZERO, report.clone());
    diagnose_incident(&State::default(), None, &incident)
}

/// Messages with figures of our own, and the first finding of each.
fn messages() -> Vec<(&'static str, Report, Cause, Certainty)> {
    use Cause::*;
    use Certainty::*;
    vec![
        (
            "full, alone on the card",
            with_process(message(23.57, 0.31, 22.41, 0.33, 1.16), 23.26, &[]),
            Capacity,
            Certain,
        ),
        (
            "full, no process listed",
            message(23.57, 0.31, 22.41, 0.33, 1.16),
            Capacity,
            Certain,
        ),
        (
            "the last bit of a full card",
            with_process(message(15.77, 0.01, 14.92, 0.29, 0.02), 15.76, &[]),
            Capacity,
            Likely,
        ),
        (
            "fragmented",
            with_process(message(39.39, 0.62, 27.05, 11.21, 4.5), 38.77, &[]),
            Fragmentation,
            Likely,
        ),
        (
            "fragmented, enough only with what is free",
            with_process(message(39.39, 1.41, 34.06, 3.41, 4.5), 37.98, &[]),
            Fragmentation,
            Likely,
        ),
        (
            "another process",
            with_process(
                message(23.57, 0.14, 6.02, 0.2, 2.0),
                6.74,
                &[(4_021, 16.69)],
            ),
            ForeignProcess,
            Certain,
        ),
        (
            "another process that matters little",
            with_process(message(23.57, 0.1, 22.3, 0.11, 1.5), 22.92, &[(977, 0.55)]),
            Capacity,
            Certain,
        ),
        (
            "two others, without either of which it would not fit",
            with_process(
                message(23.57, 0.1, 20.3, 0.11, 9.5),
                20.92,
                &[(977, 1.5), (978, 1.05)],
            ),
            Capacity,
            Certain,
        ),
        (
            "somebody whom nobody names (torch 1.x)",
            Report {
                unallocated: None,
                reserved: Some(gib(9.1)),
                ..message(15.78, 0.2, 8.9, 0.0, 1.0)
            },
            ForeignProcess,
            Likely,
        ),
        (
            "itself under the host's id, in a container",
            Report {
                others: with_process(Report::default(), 0.0, &[(31_007, 23.26)]).others,
                ..message(23.57, 0.31, 22.41, 0.33, 1.16)
            },
            Capacity,
            Certain,
        ),
        (
            "a cap",
            Report {
                limit: Some(gib(8.0)),
                ..with_process(message(79.1, 70.2, 7.31, 0.25, 1.0), 8.1, &[])
            },
            Limit,
            Certain,
        ),
        (
            "a fraction of 1.0 is no cap",
            Report {
                limit: Some(gib(23.57)),
                ..with_process(message(23.57, 0.31, 22.41, 0.33, 1.16), 23.26, &[])
            },
            Capacity,
            Certain,
        ),
        (
            "memory outside PyTorch",
            with_process(message(23.57, 0.2, 14.0, 0.4, 1.5), 22.9, &[]),
            NonPytorch,
            Likely,
        ),
        (
            "Windows has moved some to the host",
            message(7.99, 0.0, 17.4, 0.5, 0.2),
            Capacity,
            Certain,
        ),
        (
            "cached (torch 1.0), the rest of the line cut off",
            Report {
                total: None,
                free: None,
                ..message(0.0, 0.0, 9.3, 0.4, 0.05)
            },
            Capacity,
            Possible,
        ),
        (
            "no figures but what was asked for",
            Report {
                requested: Some(Bytes::mib(512)),
                ..Report::default()
            },
            Capacity,
            Possible,
        ),
        (
            "no figures at all",
            Report {
                kind: Kind::CudaErrorOom,
                ..Report::default()
            },
            Capacity,
            Possible,
        ),
        (
            "the message itself failed",
            Report {
                kind: Kind::NvmlAssert,
                ..Report::default()
            },
            Capacity,
            Possible,
        ),
        (
            "more than any card",
            Report {
                total: Some(gib(23.57)),
                requested: Some(gib(800.0)),
                kind: Kind::Jax,
                ..Report::default()
            },
            Capacity,
            Certain,
        ),
        (
            "the host",
            Report {
                kind: Kind::HostOom,
                ..Report::default()
            },
            HostMemory,
            Certain,
        ),
        (
            "MPS and its own ceiling",
            Report {
                kind: Kind::MpsOom,
                requested: Some(gib(1.0)),
                allocated: Some(gib(17.6)),
                limit: Some(gib(18.1)),
                ..Report::default()
            },
            Capacity,
            Certain,
        ),
        (
            "more free than asked for when the message was made",
            with_process(message(23.57, 9.0, 12.0, 1.0, 2.0), 13.6, &[]),
            Capacity,
            Possible,
        ),
    ]
}

#[test]
fn each_message_has_its_cause() {
    for (what, report, cause, certainty) in messages() {
        let findings = explained(&report);
        let first = findings.first().map(|f| (f.cause, f.certainty));
        let said: Vec<_> = findings.iter().map(|f| &f.headline).collect();
        assert_eq!(first, Some((cause, certainty)), "{what}: {said:#?}");
        assert!(
            findings.is_sorted_by_key(|f| std::cmp::Reverse(f.certainty)),
            "{what}"
        );
    }
}

#[test]
fn a_message_is_never_given_a_figure_that_it_lacks() {
    for (what, report, ..) in messages() {
        for finding in explained(&report) {
            for Evidence { what: name, .. } in &finding.evidence {
                let known = match name.as_str() {
                    "requested" => report.requested.is_some(),
                    "allocated" => report.allocated.is_some(),
                    "capacity" => report.total.is_some() || report.limit.is_some(),
                    "free" => report.free.is_some(),
                    _ => true,
                };
                assert!(known, "{what}: {name} made up");
            }
        }
    }
}

/// An out-of-memory of a training with a probe.
fn failing(record: OomRecord) -> Scene {
    let mut scene = Scene::training();
    scene.sampled(2.0, 1.0, 1.5);
    scene.add(3.0, What::Device(reading(&[(100, gib(2.0))])));
    scene.add(20.0, What::Oom(record));
    scene
}

fn made_of(parameters: f64, gradients: f64, optimizer_state: f64) -> Option<Structure> {
    Some(Structure {
        pid: Pid(100),
        device: 0,
        parameters: gib(parameters),
        gradients: gib(gradients),
        optimizer_state: gib(optimizer_state),
    })
}

fn full_card() -> OomRecord {
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

fn leaking(per_step: Bytes, steps: u64) -> Scene {
    let mut scene = Scene::training();
    scene.sampled(2.0, 1.0, 1.5);
    for n in 1..=steps {
        // A scatter of some MiB, as varying lengths leave.
        let scatter = Bytes::mib((n * 7) % 5);
        let floor = gib(3.0) + per_step.scale(n as f64) + scatter;
        scene.add(2.0 + n as f64, step(100, n, floor, floor + gib(8.0)));
    }
    let floor = gib(3.0) + per_step.scale(steps as f64);
    scene.add(
        2_000.0,
        What::Oom(OomRecord {
            phase: Phase::Forward,
            step: steps,
            ..record(100, floor + gib(8.0), floor + gib(8.2), gib(0.5), gib(0.1))
        }),
    );
    scene
}

fn scenes() -> Vec<(&'static str, Scene, Cause, Certainty)> {
    use Cause::*;
    use Certainty::*;
    let mut foreign = Scene::training();
    let mut card = reading(&[(100, gib(2.0)), (4_021, gib(15.0))]);
    if let Some(other) = card.processes.as_mut().and_then(|list| list.get_mut(1)) {
        other.name = Some("python".into());
        other.user = Some("ada".into());
    }
    foreign.sampled(2.0, 1.0, 1.5).add(3.0, What::Device(card));
    foreign.add(
        20.0,
        What::Oom(record(100, gib(7.3), gib(7.5), gib(1.0), gib(0.5))),
    );
    foreign.add(21.0, exited(1, Exit::Code(1)));
    // Afterwards the card is empty: that is not what it looked like.
    foreign.add(22.0, What::Device(reading(&[])));

    let mut left_over = Scene::training();
    left_over
        .add(8.0, exited(1, Exit::Code(1)))
        .add(9.0, started(2, 200, "python train.py --batch-size 32"))
        .add(10.0, hello(2, 200, None))
        .add(10.5, What::Sample(sample(200, 0, gib(1.0), gib(1.5))))
        .add(
            11.0,
            What::Device(reading(&[(200, gib(2.0)), (100, gib(20.0))])),
        )
        .add(
            12.0,
            What::Oom(record(200, gib(1.3), gib(1.5), gib(1.9), gib(1.6))),
        );

    let mut same_device = Scene::default();
    same_device
        .add(0.0, started(1, 99, "torchrun train.py"))
        .add(1.0, hello(1, 100, Some(0)))
        .add(1.0, hello(1, 101, Some(1)))
        .add(2.0, What::Sample(sample(100, 0, gib(11.0), gib(11.5))))
        .add(2.0, What::Sample(sample(101, 0, gib(10.0), gib(10.5))));
    let mut text = text_of(&record(100, gib(11.0), gib(11.5), gib(2.0), gib(0.6)));
    text.rank = Some(Rank(0));
    text.process_used = Some(gib(12.0));
    text.others = vec![OtherProcess {
        pid: Pid(101),
        used: Some(gib(11.0)),
    }];
    same_device.add(3.0, What::OomText(text));

    let mut by_sample = Scene::training();
    by_sample.sampled(2.0, 21.0, 22.0).add(
        3.0,
        What::OomText(Report {
            kind: Kind::Cublas,
            ..Report::default()
        }),
    );

    let mut expandable = Scene::default();
    expandable.add(0.0, started(1, 100, "python train.py"));
    if let What::Hello(mut hello) = hello(1, 100, None) {
        hello.expandable_segments = Some(true);
        expandable.add(1.0, What::Hello(hello));
    }
    expandable.add(20.0, What::Oom(fragmented()));

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
        ("fragmented", failing(fragmented()), Fragmentation, Certain),
        ("fragmented, expandable", expandable, Fragmentation, Likely),
        ("another process", foreign, ForeignProcess, Certain),
        ("left over from run 1", left_over, ForeignProcess, Certain),
        (
            "two ranks on one device",
            same_device,
            ForeignProcess,
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
        ("a leak", leaking(Bytes::mib(120), 105), Leak, Likely),
        ("cuBLAS, no figures", by_sample, Capacity, Likely),
    ]
}

#[test]
fn each_training_has_its_cause() {
    for (what, scene, cause, certainty) in scenes() {
        let findings = diagnose(&scene.state);
        let first = findings.first().map(|f| (f.cause, f.certainty));
        let said: Vec<_> = findings.iter().map(|f| &f.headline).collect();
        assert_eq!(first, Some((cause, certainty)), "{what}: {said:#?}");
    }
}

#[test]
fn the_words() {
    let mut words = String::new();
    let cases = messages()
        .into_iter()
        .map(|(what, report, ..)| (format!("text: {what}"), explained(&report)))
        .chain(
            scenes()
                .into_iter()
                .map(|(what, scene, ..)| (format!("probe: {what}"), diagnose(&scene.state))),
        );
    for (what, findings) in cases {
        let _ = writeln!(words, "# {what}");
        for finding in findings {
            let (certainty, cause) = (finding.certainty, finding.cause);
            let _ = writeln!(words, "{certainty:?} {cause:?}: {}", finding.headline);
            let _ = writeln!(words, "    {}", finding.explanation);
            for advice in finding.advice {
                let _ = writeln!(words, "    > {advice}");
            }
        }
        words.push('\n');
    }
    insta::assert_snapshot!(words);
}

#[test]
fn there_is_nothing_to_say_while_nothing_failed() {
    assert_eq!(diagnose(&State::default()), []);
    let mut scene = failing(full_card());
    scene.add(25.0, step(100, 2, gib(3.0), gib(22.0)));
    assert_eq!(diagnose(&scene.state), [], "it was caught");
}

#[test]
fn a_floor_climbs_or_does_not() {
    let card = Some(gib(24.0));
    let floors = |f: &dyn Fn(u64) -> f64, steps: u64| -> Vec<(u64, Bytes)> {
        (1..=steps).map(|n| (n, gib(f(n)))).collect()
    };
    // Half a percent of the card a step, called within 30 steps.
    let leak = floors(&|n| 3.0 + 0.12 * n as f64, 30);
    let found = climb(&leak, card).expect("a climb");
    assert!((found.per_step / gib(0.12).0 as f64 - 1.0).abs() < 0.01);
    assert_eq!(found.steps, 26);
    // One that comes with every tenth step.
    assert!(climb(&floors(&|n| 3.0 + 0.6 * (n / 10) as f64, 200), card).is_some());
    type Floor = &'static dyn Fn(u64) -> f64;
    let steady: [(&str, Floor); 7] = [
        ("level", &|_| 3.0),
        ("the optimizer's state after the first step", &|n| {
            if n < 2 { 1.0 } else { 3.0 }
        }),
        ("a warm-up that levels off", &|n| {
            3.0 + 2.0 * (1.0 - (-(n as f64) / 15.0).exp())
        }),
        ("lengths that vary", &|n| {
            3.0 + ((n * 7919) % 13) as f64 * 0.05
        }),
        ("falling", &|n| 9.0 - 0.01 * n as f64),
        ("one step up, as of a cache", &|n| {
            if n < 60 { 3.0 } else { 4.0 }
        }),
        ("a trifle", &|n| 3.0 + 0.000_1 * n as f64),
    ];
    for (what, floor) in steady {
        assert_eq!(climb(&floors(floor, 120), card), None, "{what}");
    }
    assert_eq!(
        climb(&floors(&|n| 3.0 + n as f64, 12), card),
        None,
        "too few"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the figures: no panic, the words are there, and every finding has its numbers.
    #[test]
    fn any_figures_are_explained(
        total in proptest::option::of(0..100u64 << 30),
        free in proptest::option::of(0..100u64 << 30),
        allocated in proptest::option::of(0..100u64 << 30),
        unallocated in proptest::option::of(0..100u64 << 30),
        requested in proptest::option::of(0..100u64 << 30),
        limit in proptest::option::of(0..100u64 << 30),
        process_used in proptest::option::of(0..100u64 << 30),
        others in proptest::collection::vec(proptest::option::of(0..100u64 << 30), 0..3),
    ) {
        let report = Report {
            total: total.map(Bytes),
            free: free.map(Bytes),
            allocated: allocated.map(Bytes),
            unallocated: unallocated.map(Bytes),
            requested: requested.map(Bytes),
            limit: limit.map(Bytes),
            process_used: process_used.map(Bytes),
            others: others
                .into_iter()
                .map(|used| OtherProcess { pid: Pid(7), used: used.map(Bytes) })
                .collect(),
            ..Report::default()
        };
        for finding in explained(&report) {
            prop_assert!(finding.headline.ends_with('.'), "{}", finding.headline);
            prop_assert!(!finding.explanation.contains("  "), "{}", finding.explanation);
        }
    }
}
