//! The status line: what it says of a run that goes well, that has ended and that ran out.

use super::*;
use crate::event::{EventKind, Retainers};
use crate::state::tests::staged::{StagedSession, gib, reading, started, step};
use crate::units::Pid;

fn shown(pieces: &[HeadroomFigure], room: u16) -> Vec<String> {
    let kept = fitted(pieces.to_vec(), room, 3);
    kept.into_iter().map(|piece| piece.text).collect()
}

/// What is said of the growth of a training after so many steps that each keep so much.
fn growth(steps: u32, gib_a_step: f64) -> String {
    let mut scene = StagedSession::training();
    for n in 1..=steps {
        let floor = 1.0 + gib_a_step * f64::from(n);
        let at = 2.0 + f64::from(n);
        scene.add(at, step(100, u64::from(n), gib(floor), gib(floor + 8.0)));
        scene.sampled(at + 0.1, floor, floor + 8.0);
    }
    let state = &scene.state;
    let (run, device) = (&state.runs[0], &state.devices[0]);
    climb(&Theme::full(), &FittedGrowth::default(), state, run, device)
        .expect("growth")
        .text
}

#[test]
fn growth_is_a_leak_once_it_is_certain_and_fast_growth_is_told_when_it_fills_the_gpu() {
    let fast = growth(20, 0.5);
    assert!(
        fast.starts_with("▲ grows +512 MiB/step: full in ≈ "),
        "{fast}"
    );
    assert!(
        fast.contains(" steps (") && fast.ends_with(')'),
        "the range of it: {fast}"
    );
    assert_eq!(
        growth(25, 0.0625),
        "▲ grows +64 MiB/step",
        "it may still end"
    );
    assert_eq!(
        growth(210, 0.03125),
        "▲ grows +32 MiB/step",
        "a buffer may take as long to fill"
    );
    let certain = growth(200, 0.0625);
    assert!(
        certain.starts_with("▲ leak +64 MiB/step: out of memory in about "),
        "{certain}"
    );
}

#[test]
fn why_no_larger_batch_is_named_is_said_at_the_end() {
    let mut scene = StagedSession::training();
    scene.sampled(2.0, 12.0, 13.0);
    scene.add(
        20.0,
        EventKind::Exited(crate::event::Exited {
            run: crate::units::RunNumber(1),
            exit: crate::event::Exit::Code(0),
            left: Vec::new(),
        }),
    );
    let state = &scene.state;
    let said = |room_for_batch| {
        let scene = Scene {
            room_for_batch,
            ..Scene::of(state)
        };
        let figures = Figures::new(state.devices[0].capacity);
        let (run, device) = (&state.runs[0], &state.devices[0]);
        let (ended, _) = run.ended.expect("an end");
        let pieces = pieces_after(
            run,
            ended,
            device,
            figures,
            &FittedGrowth::default(),
            &scene,
        );
        let last = pieces.into_iter().map(|piece| piece.text).next_back();
        last.expect("words")
    };
    assert_eq!(
        said(RoomForBatch::Without(NoRoom::Shared(2))),
        "10.0 GiB unused, no larger batch: 2 processes share the GPU"
    );
    assert_eq!(
        said(RoomForBatch::Little),
        "10.0 GiB unused, no larger batch: one worth a change would not fit"
    );
    assert!(said(RoomForBatch::Unknown).starts_with("peak 12.0"));
}

#[test]
fn the_peak_of_processes_that_share_a_gpu_is_told_beside_what_they_have_together() {
    let path = format!(
        "{}/tests/replay/two-ranks.jsonl",
        env!("CARGO_MANIFEST_DIR")
    );
    let text = std::fs::read_to_string(path).expect("a recording");
    let mut events: Vec<crate::event::Event> = (text.lines().map(serde_json::from_str))
        .collect::<Result<_, _>>()
        .expect("events");
    events.sort_by_key(|event| event.at);
    let mut state = crate::state::State::default();
    for event in &events {
        state.apply(event);
    }
    let (run, device) = (&state.runs[0], &state.devices[0]);
    let peak = peak(run, device, Figures::new(device.capacity)).expect("a peak");
    assert_eq!(peak.text, "peak 0.4 (rank 0) at step 1, 0.8 together");
}

#[test]
fn why_there_is_no_room_for_a_batch_yet_is_said() {
    let mut scene = StagedSession::training();
    scene.add(2.0, step(100, 1, gib(1.0), gib(3.0)));
    scene.sampled(2.1, 1.5, 3.5);
    let state = &scene.state;
    for (room_for_batch, words) in [
        (RoomForBatch::InSearch, "room for batch: working it out"),
        (RoomForBatch::Little, "room for batch: little or none"),
        (RoomForBatch::Unsettled, "room for batch: not known yet"),
    ] {
        let shown = Scene {
            room_for_batch,
            ..Scene::of(state)
        };
        let pieces = headroom_pieces(
            &Theme::full(),
            &FittedGrowth::default(),
            &shown,
            &state.devices[0],
        );
        let texts: Vec<&str> = pieces.iter().map(|piece| piece.text.as_str()).collect();
        assert!(texts.contains(&words), "{texts:?}");
    }
}

#[test]
fn what_takes_more_than_a_step_is_told_while_it_runs() {
    let mut scene = StagedSession::training();
    for n in 1..=20_u32 {
        let at = 2.0 + f64::from(n) * 0.5;
        scene.add(at, step(100, n.into(), gib(1.0), gib(3.0)));
        scene.sampled(at + 0.1, 1.5, 3.5);
    }
    let told = |scene: &StagedSession| {
        let state = &scene.state;
        let figures = Figures::new(state.devices[0].capacity);
        beside_steps(state, &state.runs[0], &state.devices[0], figures).map(|told| told.text)
    };
    scene.sampled(12.5, 9.0, 9.5);
    assert_eq!(told(&scene), None, "it may be a step");
    scene.sampled(16.0, 2.0, 9.5);
    assert_eq!(told(&scene), None, "it takes no more than a step");
    scene.sampled(16.2, 9.0, 9.5);
    let words = "no step for 4 s: 9.0 GiB, a step has 3.0 (an evaluation?)";
    assert_eq!(told(&scene).as_deref(), Some(words));
    // The training waited for a search of oomph's.
    let found = Retainers {
        pid: Pid(100),
        ..Retainers::default()
    };
    scene.add(16.3, EventKind::Retainers(Box::new(found)));
    scene.sampled(16.4, 9.0, 9.5);
    assert_eq!(told(&scene), None, "it waited for oomph");
    scene.sampled(20.0, 9.0, 9.5);
    assert!(told(&scene).is_some(), "and now for something of its own");
    scene.add(20.5, step(100, 21, gib(1.0), gib(9.0)));
    assert_eq!(told(&scene), None);
}

#[test]
fn a_python_that_keeps_the_probe_out_is_told_as_the_reason() {
    let told = |words: &str| -> Vec<String> {
        let mut scene = StagedSession::default();
        scene.add(0.0, started(1, 100, words));
        scene.add(1.0, EventKind::Device(reading(&[(100, gib(4.0))])));
        let sources = sources(&scene.state, &scene.state.devices[0]);
        sources.map(|figure| figure.text).collect()
    };
    assert_eq!(
        told("python -I train.py"),
        ["python -I keeps the probe out: device memory only"]
    );
    assert_eq!(
        told("python train.py"),
        ["waiting for the program to use the GPU"]
    );
}

#[test]
fn what_warns_takes_the_room_of_what_does_not() {
    let leak = "leak +3.00 GiB/step: out of memory in 4 steps";
    let pieces = [
        HeadroomFigure::new("7.9 GiB free", Tone::Strong),
        HeadroomFigure::new("peak 14.6 at step 812", Tone::Text),
        HeadroomFigure::new(leak, Tone::Warning),
    ];
    assert_eq!(shown(&pieces, 120).len(), 3);
    assert_eq!(shown(&pieces, 64), ["7.9 GiB free", leak]);
    assert_eq!(shown(&pieces, 50), [leak]);
    assert_eq!(shown(&pieces, 10), [leak], "cut, but first");
    // What one would like to see takes no room of what warns.
    let wished = [
        HeadroomFigure::new("7.9 GiB free", Tone::Strong),
        HeadroomFigure::new("steady", Tone::Good).wished(),
        HeadroomFigure::new("cache flushed 3×", Tone::Warning),
    ];
    assert_eq!(shown(&wished, 34), ["7.9 GiB free", "cache flushed 3×"]);
    assert_eq!(shown(&wished, 40).len(), 3);
    // Where both warn, words go before one of them does.
    let leak = "leak +12 MiB/step";
    let both = [
        HeadroomFigure::new("0.7 GiB free of 23.6", Tone::Warning).or("0.7 GiB free"),
        HeadroomFigure::new(leak, Tone::Warning),
    ];
    assert_eq!(shown(&both, 39), ["0.7 GiB free", leak]);
}

#[test]
fn the_inputs_of_a_room_are_named_in_fewer_words_before_steady_goes() {
    let (room, brief) = (
        "room for batch ≈ 106 with inputs of 32×368",
        "room for batch ≈ 106 at 32×368",
    );
    let pieces = [
        HeadroomFigure::new("6.3 GiB free", Tone::Strong),
        HeadroomFigure::new("peak 15.1", Tone::Text),
        HeadroomFigure::new(room, Tone::Good).or(brief).needed(),
        HeadroomFigure::new("steady", Tone::Good).wished(),
    ];
    assert_eq!(
        shown(&pieces, 90),
        ["6.3 GiB free", "peak 15.1", room, "steady"]
    );
    assert_eq!(
        shown(&pieces, 72),
        ["6.3 GiB free", "peak 15.1", brief, "steady"]
    );
}

#[test]
fn words_go_before_figures_where_the_room_for_a_batch_has_no_place() {
    let room = "room for batch ≈ 48";
    let pieces = [
        HeadroomFigure::new("7.9 GiB free of 23.6 (no NVML)", Tone::Strong)
            .or("7.9 GiB free of 23.6")
            .or("7.9 GiB free"),
        HeadroomFigure::new("peak 14.7 at step 463", Tone::Text).or("peak 14.7"),
        HeadroomFigure::new(room, Tone::Good).needed(),
        HeadroomFigure::new("steady: 1.5 GiB after optimizer.step()", Tone::Good)
            .or("steady")
            .wished(),
    ];
    let (free, step) = ("7.9 GiB free of 23.6", "peak 14.7 at step 463");
    for (columns, expected) in [
        (
            108,
            &[free, step, room, "steady: 1.5 GiB after optimizer.step()"][..],
        ),
        (75, &[free, step, room, "steady"]),
        (68, &[free, "peak 14.7", room, "steady"]),
        (58, &["7.9 GiB free", "peak 14.7", room, "steady"]),
        (50, &["7.9 GiB free", "peak 14.7", room]),
        (38, &["7.9 GiB free", room]),
        (20, &[room]),
    ] {
        assert_eq!(
            shown(&pieces, columns)[..expected.len()],
            *expected,
            "{columns}"
        );
    }
}
