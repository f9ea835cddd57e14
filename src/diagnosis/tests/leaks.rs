//! Trainings whose memory grows with every step.

use crate::diagnosis::*;
use crate::event::*;
use crate::state::tests::staged::*;
use crate::units::{Bytes, Pid};

pub(super) fn leaking(per_step: Bytes, steps: u64) -> StagedSession {
    leaking_at(per_step, steps, Vec::new())
}

/// The same, with the lines whose live memory grew.
fn leaking_at(per_step: Bytes, steps: u64, growing: Vec<GrowingLine>) -> StagedSession {
    let mut scene = StagedSession::training();
    scene.sampled(2.0, 1.0, 1.5);
    for n in 1..=steps {
        // A scatter of some MiB, as left by varying lengths.
        let scatter = Bytes::mib((n * 7) % 5);
        let baseline = gib(3.0) + per_step.scale(n as f64) + scatter;
        scene.add(2.0 + n as f64, step(100, n, baseline, baseline + gib(8.0)));
    }
    let baseline = gib(3.0) + per_step.scale(steps as f64);
    scene.add(
        2_000.0,
        EventKind::Oom(OomRecord {
            phase: Phase::Forward,
            step: steps,
            growing,
            ..record(
                100,
                baseline + gib(8.0),
                baseline + gib(8.2),
                gib(0.5),
                gib(0.1),
            )
        }),
    );
    scene
}

/// A leak, at whose end a cache in small pieces is what is left.
pub(super) fn leaking_among_pieces(per_step: Bytes, steps: u64) -> StagedSession {
    let mut scene = StagedSession::training();
    scene.sampled(2.0, 1.0, 1.5);
    let baseline = |n: u64| gib(3.0) + per_step.scale(n as f64);
    for n in 1..=steps {
        scene.add(
            2.0 + n as f64,
            step(100, n, baseline(n), baseline(n) + gib(2.0)),
        );
    }
    let allocated = baseline(steps) + gib(0.8);
    scene.add(3.0, EventKind::Device(reading(&[(100, gib(2.0))])));
    scene.add(
        2_000.0,
        EventKind::Oom(OomRecord {
            phase: Phase::Forward,
            step: steps,
            largest_free: Some(Bytes::mib(12)),
            ..record(100, allocated, gib(23.0), Bytes::mib(30), Bytes::mib(20))
        }),
    );
    scene
}

/// A leak, with a search for who keeps it.
pub(super) fn leaking_by_name() -> StagedSession {
    let mut scene = leaking(Bytes::mib(120), 105);
    scene.add(
        2_000.1,
        EventKind::Retainers(Box::new(Retainers {
            pid: Pid(100),
            step: 105,
            retainers: vec![Retainer {
                name: "history".into(),
                kind: RetainerKind::Attribute,
                of: "Meter".into(),
                class: "list".into(),
                length: Some(105),
                line: Some(SourceLine {
                    file: "/home/ada/meter.py".into(),
                    line: 41,
                    function: "add".into(),
                }),
                bytes: Bytes::mib(120 * 105),
                ..Retainer::default()
            }],
            looked_for: Bytes::gib(20),
            ..Retainers::default()
        })),
    );
    scene
}

#[test]
fn what_was_found_long_before_the_end_is_held_against_what_had_leaked_by_then() {
    let found_after = |step: u64, bytes| {
        let mut scene = leaking(Bytes::mib(120), 105);
        scene.add(
            2_000.1,
            EventKind::Retainers(Box::new(Retainers {
                pid: Pid(100),
                step,
                retainers: vec![Retainer {
                    name: "history".into(),
                    kind: RetainerKind::Attribute,
                    of: "Meter".into(),
                    class: "list".into(),
                    length: Some(step),
                    bytes,
                    ..Retainer::default()
                }],
                looked_for: bytes,
                ..Retainers::default()
            })),
        );
        let finding = diagnose(&scene.state).remove(0);
        (finding.retainer.is_some(), finding.explanation.to_string())
    };
    let (is_named, words) = found_after(30, Bytes::mib(120 * 30));
    assert!(is_named, "{words}");
    let then = "What had leaked by step 30 was kept alive by Meter.history: list of 30.";
    assert!(words.contains(then), "{words}");
    let (is_named, words) = found_after(30, Bytes::mib(120));
    assert!(!is_named, "{words}");
    let (_, words) = found_after(105, Bytes::mib(120 * 105));
    assert!(words.contains("12.3 GiB is kept alive by"), "{words}");
}

#[test]
fn a_search_cut_short_gives_a_lower_bound_and_still_names_the_list() {
    let found = |length: u64, left: Option<&str>| {
        let mut scene = leaking(Bytes::mib(120), 105);
        scene.add(
            2_000.1,
            EventKind::Retainers(Box::new(Retainers {
                pid: Pid(100),
                step: 105,
                retainers: vec![Retainer {
                    name: "history".into(),
                    kind: RetainerKind::Attribute,
                    of: "Meter".into(),
                    class: "list".into(),
                    length: Some(length),
                    line: Some(SourceLine {
                        file: "/home/ada/meter.py".into(),
                        line: 41,
                        function: "add".into(),
                    }),
                    bytes: Bytes::gib(1),
                    ..Retainer::default()
                }],
                looked_for: Bytes::gib(2),
                left: left.map(String::from),
                ..Retainers::default()
            })),
        );
        diagnose(&scene.state).remove(0)
    };
    let cut = Some("the search ran out of time after 9 objects");
    let finding = found(105, cut);
    let words = finding.explanation.to_string();
    assert!(
        words.contains("≥ 1.00 GiB is kept alive by meter.py:41 Meter.history"),
        "{words}"
    );
    assert_eq!(finding.place.as_deref(), Some("meter.py:41"));
    // A sum that is complete says that it is another's, and so does a length that has nothing to do with the steps.
    for other in [found(105, None), found(3, cut)] {
        assert_eq!(other.retainer, None);
        assert_eq!(other.place, None);
    }
}

#[test]
fn where_nobody_was_found_to_keep_it_the_line_that_allocates_it_is_named() {
    let advised = |each: u64| {
        let growing = GrowingLine {
            line: SourceLine {
                file: "/home/ada/models.py".into(),
                line: 32,
                function: "forward".into(),
            },
            from_step: 3,
            to_step: 105,
            bytes: Bytes::mib(each * 102),
            per_step: Bytes::mib(each),
            inside: None,
        };
        let scene = leaking_at(Bytes::mib(120), 105, vec![growing]);
        diagnose(&scene.state).remove(0).advice[0].to_string()
    };
    let words = advised(118);
    assert!(words.contains("models.py:32 forward"), "{words}");
    // What allocates little of it is not where to look.
    let words = advised(8);
    assert!(!words.contains("models.py"), "{words}");
}

#[test]
fn one_leak_has_one_span_whether_its_holder_was_found_or_not() {
    let first = |scene: &StagedSession| diagnose(&scene.state).remove(0);
    let (unnamed, named) = (
        first(&leaking(Bytes::mib(120), 105)),
        first(&leaking_by_name()),
    );
    for finding in [&unnamed, &named] {
        let words = finding.headline.to_string();
        assert!(
            words.contains("+120 MiB × 105 steps = 12.3 GiB."),
            "{words}"
        );
        let words = finding.explanation.to_string();
        assert!(
            words.contains("has grown steadily over all 105 steps."),
            "{words}"
        );
    }
}

#[test]
fn a_leak_is_changed_where_it_is_kept() {
    let scene = leaking_by_name();
    let finding = &diagnose(&scene.state)[0];
    assert_eq!(finding.place.as_deref(), Some("meter.py:41"));
    let kept = finding.retainer.as_ref().map(Retainer::words);
    assert_eq!(
        kept.as_deref(),
        Some("meter.py:41 Meter.history: list of 105")
    );
}
