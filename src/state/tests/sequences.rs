//! Any sequence of events at all.

use crate::event::*;
use crate::oom;
use crate::state::tests::staged::*;
use crate::state::*;
use crate::units::{Bytes, Moment, Pid};
use proptest::prelude::*;

/// Any event at all, of few processes, runs and devices, so that they meet.
fn anything() -> impl Strategy<Value = Event> {
    let bytes = prop_oneof![Just(0u64), Just(u64::MAX), 0..30u64 << 30, 0..5u64,].prop_map(Bytes);
    let figures = (bytes.clone(), bytes.clone(), bytes.clone(), bytes);
    let small = (1..4u32, 100..104i32, 0..3u32, 0..6u64);
    (0..60_000_000u64, 0..16u32, small, figures, any::<bool>()).prop_map(
        |(at, kind, (run, pid, device, count), (a, b, c, d), flag)| {
            let what = match kind {
                0 => started(run, pid, "python train.py"),
                1 => exited(run, if flag { Exit::Code(0) } else { Exit::Signal(9) }),
                2 => hello(run, pid, flag.then_some(device)),
                3..=5 => EventKind::Sample(sample(pid, device, a, b)),
                6 | 7 => step(pid, count, a, b),
                8 => EventKind::Structure(Structure {
                    pid: Pid(pid),
                    device,
                    parameters: a,
                    gradients: b,
                    optimizer_state: c,
                    whole: None,
                }),
                9 => EventKind::Oom(OomRecord {
                    device,
                    limit: flag.then_some(a),
                    largest_free: flag.then_some(d),
                    step: count,
                    ..record(pid, a, b, c, d)
                }),
                10 => EventKind::OomText(oom::OomReport {
                    total: flag.then_some(c),
                    ..text_of(&record(pid, a, b, c, d))
                }),
                11 => EventKind::ProbeGone(ProbeGone {
                    pid: Pid(pid),
                    reason: flag.then(|| "closed".into()),
                    said_end: false,
                }),
                12 => EventKind::Device(reading(&[(pid, a), (7, b)])),
                13 => EventKind::Nvml(if flag {
                    NvmlState::Stale
                } else {
                    NvmlState::Off
                }),
                14 => EventKind::Epoch(Epoch { number: count }),
                _ => EventKind::StopRequested(StopRequested {
                    signal: 15,
                    from_keyboard: flag,
                }),
            };
            Event {
                at: Moment(at),
                what,
            }
        },
    )
}

/// Cases without a file of regressions: one that fails becomes a row of a table above.
fn cases() -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn no_sequence_of_events_panics(events in proptest::collection::vec(anything(), 0..200)) {
        let mut state = State::default();
        for event in &events {
            state.apply(event);
            for device in &state.devices {
                let parts = device.breakdown(&state);
                device.headroom(&state);
                if let (Some(capacity), Some(reserved)) = (device.capacity, device.reserved.current()) {
                    let outside = [parts.non_pytorch, parts.other_processes].into_iter().flatten();
                    let outside: Bytes = outside.sum();
                    prop_assert!(parts.non_pytorch.zip(parts.other_processes).is_none() || outside <= capacity - reserved);
                }
            }
            state.probe();
        }
        for run in &state.runs {
            run.outcome();
            prop_assert!(run.ooms.len() <= 128 && run.ranks.len() <= 4);
            prop_assert!(run.ooms.is_sorted_by_key(|oom| oom.at));
        }
        for device in &state.devices {
            device.used.columns(Moment::ZERO, state.now, 80);
            device.allocated.columns(Moment(7), state.now, 33);
        }
    }

    #[test]
    fn the_witnesses_order_does_not_matter(
        allocated in 1..24_000u64 << 20,
        unallocated in 0..2_000u64 << 20,
        requested in 1..9_000u64 << 20,
        delay in 0.0..9.0,
    ) {
        let record = record(
            100,
            Bytes(allocated),
            Bytes(allocated + unallocated),
            Bytes(requested),
            Bytes::mib(77),
        );
        let text = text_of(&record);
        let told = [(20.0, EventKind::Oom(record)), (20.0 + delay, EventKind::OomText(text))];
        let states = [[0, 1], [1, 0]].map(|order| {
            let mut scene = StagedSession::training();
            for i in order {
                scene.add(told[i].0, told[i].1.clone());
            }
            scene.state.run().unwrap().ooms.clone()
        });
        prop_assert_eq!(states[0].len(), 1);
        prop_assert_eq!(&states[0], &states[1]);
    }
}
