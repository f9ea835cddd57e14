//! Traced steps of made-up trainings, and how far their batch could go.

use super::*;
use crate::event::{BlockOrigin, PhaseStart};

const MIB: u64 = 1 << 20;
/// Layers of a model; each has a weight of 64 MiB and keeps 8 MiB a sample.
const LAYERS: u64 = 8;

/// A steady step at a batch: gradients of the step before are freed, forward keeps, backward makes a
/// gradient for each layer, the optimizer makes and frees a temporary.
pub(in crate::forecast) fn step(batch: u64) -> StepTrace {
    let mut words: Vec<String> = Vec::new();
    let mut kinds: Vec<u32> = Vec::new();
    let mut made: u64 = 0;
    // Weights, two states for each, and the gradients of the step before.
    for (of, kind) in [(1, 1), (2, 3), (1, 0)] {
        for _ in 0..of * LAYERS {
            words.push((64 * MIB).to_string());
            kinds.push(kind);
            made += 1;
        }
    }
    words.push("|".into());
    let mut events = 0;
    let mut say = |word: String, words: &mut Vec<String>| {
        words.push(word);
        events += 1;
        events - 1
    };
    for gradient in 0..LAYERS {
        say(format!("-{}", LAYERS - gradient), &mut words);
    }
    let mut kept = Vec::new();
    for _ in 0..LAYERS {
        for size in [8 * MIB * batch, 3 * MIB * batch] {
            say(size.to_string(), &mut words);
            kinds.push(0);
            kept.push(made);
            made += 1;
        }
        // The second is only for a moment.
        say(format!("-{}", made - kept.pop().unwrap()), &mut words);
    }
    let mut backward = None;
    while let Some(number) = kept.pop() {
        let at = say((64 * MIB).to_string(), &mut words);
        backward.get_or_insert(at);
        kinds.push(2);
        made += 1;
        say(format!("-{}", made - number), &mut words);
    }
    let optimizer = say((512 * MIB).to_string(), &mut words);
    kinds.push(0);
    say("-1".into(), &mut words);
    let start = |phase, from| PhaseStart { phase, from };
    let origin = |kind| BlockOrigin {
        kind: Some(kind),
        ..BlockOrigin::default()
    };
    let kinds: Vec<String> = kinds.iter().map(u32::to_string).collect();
    StepTrace {
        step: 3,
        trace: words.join(" "),
        phases: vec![
            start(Phase::Forward, 0),
            start(Phase::Backward, backward.unwrap()),
            start(Phase::Optimizer, optimizer),
        ],
        origins: vec![
            origin(MemoryKind::Parameters),
            origin(MemoryKind::Gradients),
            origin(MemoryKind::OptimizerState),
        ],
        blocks: kinds.join(" "),
        ..StepTrace::default()
    }
}

fn played(step: &StepTrace, settings: &AllocatorSettings, room: Option<Bytes>) -> Replayed {
    let trace: Trace = step.trace.parse().unwrap();
    let room = ReplayRoom {
        device: room.map(|room| room.0),
        cap: None,
    };
    replay_until_steady(&trace, STEPS, settings, room)
}

fn search(batch: u64, settings: &AllocatorSettings, room: Bytes) -> TracedSearch {
    let step = step(batch);
    let own = played(&step, settings, None);
    TracedSearch {
        step,
        batch,
        settings: settings.clone(),
        peak: Bytes(own.allocated_peak),
        reserved: Bytes(own.reserved_peak),
        peak_step: Some(1),
        room,
        is_alone: false,
        parts: 1,
        margin: 0.02,
    }
}

#[test]
fn it_is_near_the_largest_that_really_fits_and_never_above() {
    for settings in ["", "expandable_segments:True", "max_split_size_mb:128"] {
        let settings = AllocatorSettings::parse(settings);
        for room in [Bytes::gib(16), Bytes::gib(24), Bytes::gib(80)] {
            let runs = |batch| {
                played(&step(batch), &settings, Some(room))
                    .ran_out
                    .is_none()
            };
            let most = edge(16 * AT_MOST_TIMES, runs);
            let found = search(16, &settings, room).run().unwrap();
            let share = found.batch as f64 / most as f64;
            assert!(
                runs(found.batch) && share > 0.9,
                "{found:?} of {most} in {room}"
            );
            assert_eq!((found.step, found.as_large_as), (3, None));
        }
    }
}

#[test]
fn the_largest_step_of_the_run_is_what_counts() {
    let settings = AllocatorSettings::default();
    let plain = search(16, &settings, Bytes::gib(40));
    let larger = played(&step(20), &settings, None);
    let varied = TracedSearch {
        peak: Bytes(larger.allocated_peak),
        reserved: Bytes(larger.reserved_peak),
        peak_step: Some(57),
        ..plain.clone()
    };
    let (plain, varied) = (plain.run().unwrap(), varied.run().unwrap());
    assert_eq!(varied.as_large_as, Some(57));
    let share = varied.batch as f64 / plain.batch as f64;
    assert!((0.76..0.83).contains(&share), "{varied:?} of {plain:?}");
}

/// A first step has no optimizer's state, which later steps have: one as large as it needs more by that. What it reserved is held
/// against a replay that has none either.
#[test]
fn the_first_step_had_no_optimizer_state() {
    let settings = AllocatorSettings::default();
    let room = Bytes::gib(40);
    let later = played(&step(32), &settings, None);
    let first = played(&without_state(step(32)), &settings, None);
    assert!(first.reserved_peak * 10 < later.reserved_peak * 9);
    let of = |peak_step, of: &Replayed| TracedSearch {
        peak: Bytes(of.allocated_peak),
        reserved: Bytes(of.reserved_peak),
        peak_step: Some(peak_step),
        ..search(16, &settings, room)
    };
    let found = of(1, &first).run().unwrap();
    assert_eq!(found.batch, of(57, &later).run().unwrap().batch);
    let runs = played(&step(2 * found.batch), &settings, Some(room));
    assert!(runs.ran_out.is_none(), "{found:?}");
}

/// The step as a first one: the optimizer's states, which come after the weights, take nothing.
fn without_state(mut step: StepTrace) -> StepTrace {
    let mut words: Vec<&str> = step.trace.split(' ').collect();
    let states = LAYERS as usize..3 * LAYERS as usize;
    words[states].fill("0");
    step.trace = words.join(" ");
    step
}

#[test]
fn nothing_is_said_where_the_replay_does_not_give_what_the_run_showed() {
    let settings = AllocatorSettings::default();
    let plain = search(16, &settings, Bytes::gib(40));
    let says = |search: TracedSearch| search.run().is_some();
    assert!(says(plain.clone()));
    for times in [0.9, 1.2] {
        assert!(!says(TracedSearch {
            reserved: plain.reserved.scale(times),
            ..plain.clone()
        }));
    }
    // An evaluation ten times as large is no step.
    assert!(!says(TracedSearch {
        peak: plain.peak.scale(10.0),
        ..plain.clone()
    }));
    let failed = StepTrace {
        failed: true,
        ..step(16)
    };
    let leaks = StepTrace {
        trace: format!("{} {}", step(16).trace, 512 * MIB),
        blocks: format!("{} 0", step(16).blocks),
        ..step(16)
    };
    let torn = StepTrace {
        blocks: "1 2".into(),
        ..step(16)
    };
    for step in [failed, leaks, torn, StepTrace::default()] {
        assert!(!says(TracedSearch {
            step,
            ..plain.clone()
        }));
    }
}
