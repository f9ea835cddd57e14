//! Tables of events in, state out.

use super::scene::*;
use super::*;
use crate::command::{Change, Word};
use crate::event::*;
use crate::oom;
use crate::units::{Bytes, Moment, Pid, RunNumber};
use proptest::prelude::*;

fn at(seconds: f64) -> Moment {
    Moment::from_secs_f64(seconds)
}

#[test]
fn devices_of_nvml_and_probe_are_joined_by_uuid() {
    let mut scene = Scene::default();
    let mut first = reading(&[]);
    first.index = 3;
    scene
        .add(0.0, started(1, 100, "python train.py"))
        .add(0.1, What::Device(first))
        .add(1.0, hello(1, 100, None))
        .sampled(1.1, 2.0, 3.0);
    let devices = &scene.state.devices;
    assert_eq!(
        devices.len(),
        2,
        "aaaa-0 of both, aaaa-1 of the probe alone"
    );
    assert_eq!((devices[0].index, devices[1].index), (3, 1));
    assert_eq!(devices[0].capacity, Some(CAPACITY));
    assert_eq!(devices[1].capacity, Some(CAPACITY));
    assert_eq!(devices[0].allocated.current(), Some(gib(2.0)));
    assert_eq!(scene.state.probe(), ProbeState::Live(1));
}

#[test]
fn a_torch_that_says_no_uuid_is_joined_by_name_where_that_is_certain() {
    let mut scene = Scene::default();
    scene.add(0.0, started(1, 100, "python train.py"));
    scene.add(0.1, What::Device(reading(&[])));
    let What::Hello(mut old) = hello(1, 100, None) else {
        unreachable!()
    };
    old.devices.truncate(1);
    old.devices[0].uuid = None;
    scene.add(1.0, What::Hello(old)).sampled(1.1, 2.0, 3.0);
    assert_eq!(scene.state.devices.len(), 1);
    assert_eq!(scene.state.devices[0].reserved.current(), Some(gib(3.0)));
}

#[test]
fn a_device_holds_what_its_live_ranks_hold() {
    let mut scene = Scene::default();
    scene
        .add(0.0, started(1, 99, "torchrun train.py"))
        .add(1.0, hello(1, 100, Some(0)))
        .add(1.0, hello(1, 101, Some(1)))
        .add(2.0, What::Sample(sample(100, 0, gib(2.0), gib(3.0))))
        .add(2.0, What::Sample(sample(101, 0, gib(4.0), gib(5.0))))
        .add(2.1, What::Sample(sample(101, 1, gib(0.5), gib(0.6))));
    let device = |scene: &Scene, n: usize| {
        let device = &scene.state.devices[n];
        (device.allocated.current(), device.reserved.current())
    };
    assert_eq!(device(&scene, 0), (Some(gib(6.0)), Some(gib(8.0))));
    assert_eq!(device(&scene, 1), (Some(gib(0.5)), Some(gib(0.6))));
    assert_eq!(
        scene.state.rank_of(Pid(101)).unwrap().device,
        Some(uuid(0)),
        "where it reserved most"
    );
    let gone = |pid| {
        What::ProbeGone(ProbeGone {
            pid: Pid(pid),
            reason: None,
        })
    };
    scene.add(3.0, gone(101));
    assert_eq!(device(&scene, 0), (Some(gib(2.0)), Some(gib(3.0))));
    assert_eq!(device(&scene, 1), (None, None), "a gap, not zero");
    scene.add(4.0, gone(100));
    assert_eq!(device(&scene, 0), (None, None));
    assert_eq!(scene.state.probe(), ProbeState::Lost);
    // It comes back: the front had been away.
    scene.add(5.0, hello(1, 100, Some(0)));
    scene.add(5.1, What::Sample(sample(100, 0, gib(2.0), gib(3.0))));
    assert_eq!(device(&scene, 0), (Some(gib(2.0)), Some(gib(3.0))));
    assert_eq!(scene.state.run().unwrap().ranks.len(), 2);
}

#[test]
fn what_comes_late_of_an_earlier_run_goes_to_that_run() {
    let mut scene = Scene::training();
    scene
        .sampled(2.0, 4.0, 5.0)
        .add(9.0, exited(1, Exit::Code(1)))
        .add(10.0, started(2, 200, "python train.py --batch-size 32"))
        .add(11.0, hello(2, 200, None))
        .add(11.5, What::Sample(sample(200, 0, gib(1.0), gib(1.5))))
        .add(8.9, What::Sample(sample(100, 0, gib(7.0), gib(7.5))))
        .add(8.95, step(100, 3, gib(1.0), gib(8.0)));
    let state = &scene.state;
    let first = state.run_numbered(RunNumber(1)).unwrap();
    assert_eq!(first.peak(), Some(gib(8.0)));
    assert_eq!(first.steps(), 3);
    assert_eq!(state.run().unwrap().peak(), Some(gib(1.0)));
    assert_eq!(state.devices[0].allocated.current(), Some(gib(1.0)));
    assert_eq!(
        state.run().unwrap().changes,
        [Change::Replaced {
            at: 3,
            from: Word::from("64"),
            to: Word::from("32"),
        }]
    );
    assert_eq!(state.now, at(11.5));
}

#[test]
fn a_lost_device_and_a_silent_nvml_are_gaps() {
    let mut scene = Scene::training();
    scene.add(1.0, What::Device(reading(&[(100, gib(3.0))])));
    scene.sampled(1.1, 2.0, 2.5);
    scene.add(2.0, What::Nvml(NvmlState::Stale));
    assert_eq!(scene.state.devices[0].used.current(), None);
    assert_eq!(scene.state.devices[0].make_up(&scene.state).free, None);
    assert_eq!(
        scene.state.devices[0].allocated.current(),
        Some(gib(2.0)),
        "the probe goes on"
    );
    let live = NvmlState::Live {
        driver: "580.1".into(),
        devices: 1,
    };
    scene.add(3.0, What::Nvml(live));
    scene.add(3.0, What::Device(reading(&[(100, gib(3.0))])));
    assert_eq!(scene.state.devices[0].used.current(), Some(gib(3.0)));
    let mut lost = reading(&[]);
    (lost.lost, lost.used, lost.total) = (Some("GPU is lost".into()), None, None);
    lost.name = String::new();
    scene.add(4.0, What::Device(lost));
    let device = &scene.state.devices[0];
    assert_eq!(device.used.current(), None);
    assert_eq!(device.allocated.current(), None);
    assert_eq!(
        (device.name.as_str(), device.capacity),
        ("card", Some(CAPACITY))
    );
    assert_eq!(device.make_up(&scene.state).free, None);
}

#[test]
fn steps_have_a_rate_that_an_evaluation_does_not_disturb() {
    let mut scene = Scene::training();
    for (count, seconds) in [(1, 2.0), (2, 2.5), (3, 3.0), (4, 3.5), (5, 63.5), (6, 64.0)] {
        scene.add(
            seconds,
            step(100, count, gib(1.5), gib(6.0 + count as f64 * 0.001)),
        );
    }
    let rank = &scene.state.run().unwrap().ranks[0];
    assert_eq!(rank.steps.count, 6);
    assert_eq!(rank.steps.rate, Some(2.0));
    assert_eq!(rank.steps.floors.len(), 6);
    assert_eq!(rank.steps.floors[1], (2, gib(1.5)));
    assert_eq!(rank.peak_step, Some(6));
    for count in 7..3_000 {
        scene.add(64.0 + count as f64, step(100, count, gib(1.5), gib(6.0)));
    }
    let steps = &scene.state.run().unwrap().ranks[0].steps;
    assert!(steps.floors.len() <= 512 && steps.recent.len() <= 64);
    assert_eq!(steps.floors.last().unwrap().0, 2_999);
}

#[test]
fn the_peak_has_its_step() {
    // Each row: samples and steps as (seconds, step or none, peak), and the peak's step.
    type Row = (&'static [(f64, Option<u64>, f64)], Option<u64>);
    let rows: [Row; 4] = [
        (&[(1.0, None, 3.0)], None),
        (&[(1.0, None, 3.0), (2.0, Some(1), 3.0)], Some(1)),
        (
            &[(1.0, Some(1), 3.0), (2.0, None, 4.0), (3.0, Some(2), 4.0)],
            Some(2),
        ),
        (
            &[
                (1.0, Some(1), 3.0),
                (2.0, Some(2), 5.0),
                (3.0, Some(3), 5.0),
            ],
            Some(2),
        ),
    ];
    for (events, expected) in rows {
        let mut scene = Scene::training();
        for (seconds, count, peak) in events {
            match count {
                Some(count) => scene.add(*seconds, step(100, *count, gib(1.0), gib(*peak))),
                None => scene.sampled(*seconds, *peak, *peak),
            };
        }
        let rank = &scene.state.run().unwrap().ranks[0];
        assert_eq!(rank.peak_step, expected, "{events:?}");
    }
}

#[test]
fn the_parts_add_up_to_the_capacity() {
    let mut scene = Scene::training();
    scene
        .sampled(2.0, 10.0, 12.0)
        .add(
            2.0,
            What::Structure(Structure {
                pid: Pid(100),
                device: 0,
                parameters: gib(1.0),
                gradients: gib(1.0),
                optimizer_state: gib(2.0),
            }),
        )
        .add(
            2.1,
            What::Device(reading(&[(100, gib(12.5)), (7, gib(3.0))])),
        );
    let made_of = |scene: &Scene| scene.state.devices[0].make_up(&scene.state);
    let parts = made_of(&scene);
    assert_eq!(parts.parameters, Some(gib(1.0)));
    assert_eq!(parts.optimizer_state, Some(gib(2.0)));
    assert_eq!(parts.gradients, Some(gib(1.0)));
    assert_eq!(parts.activations_and_rest, Some(gib(6.0)));
    assert_eq!(parts.unallocated, Some(gib(2.0)));
    assert_eq!(parts.non_pytorch, Some(gib(0.5)));
    assert_eq!(parts.foreign, Some(gib(3.0)));
    assert_eq!(parts.free, Some(CAPACITY - gib(15.5)));
    // The allocator has moved on since NVML was read: the context does not shrink for it.
    scene.sampled(2.2, 13.0, 14.0);
    let parts = made_of(&scene);
    assert_eq!(parts.non_pytorch, Some(gib(0.5)));
    assert_eq!(sum(&parts), CAPACITY);
    // Gradients freed: less is allocated than the structure says.
    scene.sampled(2.3, 3.5, 14.0);
    let parts = made_of(&scene);
    assert_eq!(parts.gradients, Some(gib(0.5)));
    assert_eq!(parts.activations_and_rest, Some(Bytes::ZERO));
    assert_eq!(sum(&parts), CAPACITY);
    let room = scene.state.devices[0].headroom(&scene.state).unwrap();
    assert_eq!((Some(room.bytes), room.at_most), (parts.free, false));
}

fn sum(parts: &MakeUp) -> Bytes {
    let parts = [
        parts.parameters,
        parts.gradients,
        parts.optimizer_state,
        parts.activations_and_rest,
        parts.unallocated,
        parts.non_pytorch,
        parts.foreign,
        parts.free,
    ];
    parts.iter().map(|part| part.expect("known")).sum()
}

#[test]
fn what_nobody_knows_is_not_made_up() {
    // Before anything is known.
    let mut scene = Scene::training();
    assert_eq!(
        scene.state.devices[0].make_up(&scene.state),
        MakeUp::default()
    );
    // The probe alone: nothing outside PyTorch is known, so nothing is known to be free.
    scene.sampled(2.0, 4.0, 5.0);
    let parts = scene.state.devices[0].make_up(&scene.state);
    assert_eq!(parts.activations_and_rest, Some(gib(4.0)));
    assert_eq!((parts.parameters, parts.non_pytorch), (None, None));
    assert_eq!((parts.foreign, parts.free), (None, None));
    let room = scene.state.devices[0].headroom(&scene.state).unwrap();
    assert_eq!((room.bytes, room.at_most), (CAPACITY - gib(5.0), true));
}

#[test]
fn processes_are_ours_or_others_or_not_to_be_told() {
    // NVML's list, whether its figures come with it; non-PyTorch and foreign of a rank (process
    // 100) that reserved 5 GiB.
    type Row = (
        &'static str,
        &'static [(i32, f64)],
        Option<f64>,
        Option<f64>,
    );
    let rows: [Row; 5] = [
        ("ours alone", &[(100, 5.5)], Some(0.5), Some(0.0)),
        (
            "ours and another",
            &[(100, 5.5), (7, 9.0)],
            Some(0.5),
            Some(9.0),
        ),
        (
            "the host's id in a container",
            &[(31_007, 5.5)],
            Some(0.5),
            Some(0.0),
        ),
        (
            "two of the host's ids",
            &[(31_007, 5.5), (31_008, 9.0)],
            None,
            None,
        ),
        ("one that cannot be ours", &[(31_007, 2.0)], None, None),
    ];
    for (what, processes, non_pytorch, foreign) in rows {
        let mut scene = Scene::training();
        let processes: Vec<_> = processes.iter().map(|(p, g)| (*p, gib(*g))).collect();
        scene.sampled(2.0, 4.0, 5.0);
        scene.add(2.1, What::Device(reading(&processes)));
        let parts = scene.state.devices[0].make_up(&scene.state);
        assert_eq!(parts.non_pytorch, non_pytorch.map(gib), "{what}");
        assert_eq!(parts.foreign, foreign.map(gib), "{what}");
        assert!(parts.free.is_some(), "{what}: what is used is known");
    }
    let mut scene = Scene::training();
    let mut silent = reading(&[(100, gib(5.5))]);
    silent.processes = None;
    scene.sampled(2.0, 4.0, 5.0).add(2.1, What::Device(silent));
    let parts = scene.state.devices[0].make_up(&scene.state);
    assert_eq!((parts.non_pytorch, parts.foreign), (None, None));
    assert_eq!(parts.free, Some(CAPACITY - gib(5.5)));
}

#[test]
fn without_a_probe_only_who_was_there_before_is_surely_another() {
    let mut scene = Scene::default();
    scene
        .add(0.0, What::Device(reading(&[(7, gib(3.0))])))
        .add(1.0, started(1, 100, "torchrun train.py"))
        .add(2.0, What::Device(reading(&[(7, gib(3.0))])));
    let foreign = |scene: &Scene| scene.state.devices[0].make_up(&scene.state).foreign;
    assert_eq!(foreign(&scene), Some(gib(3.0)));
    scene.add(
        3.0,
        What::Device(reading(&[(7, gib(3.0)), (104, gib(2.0))])),
    );
    assert_eq!(foreign(&scene), None, "104 may be a rank of torchrun's");
    scene.add(4.0, exited(1, Exit::Code(0)));
    assert_eq!(foreign(&scene), Some(gib(5.0)), "the run is over");
}

fn small_record() -> OomRecord {
    record(
        100,
        gib(22.1),
        gib(22.4),
        Bytes::mib(1_229),
        Bytes::mib(310),
    )
}

#[test]
fn two_witnesses_are_one_incident_in_either_order() {
    let text = text_of(&small_record());
    let told = [
        vec![
            (20.0, What::Oom(small_record())),
            (20.8, What::OomText(text.clone())),
        ],
        vec![
            (20.8, What::OomText(text.clone())),
            (20.0, What::Oom(small_record())),
        ],
        // The traceback is printed once more by the launcher.
        vec![
            (20.0, What::Oom(small_record())),
            (20.8, What::OomText(text.clone())),
            (21.9, What::OomText(text.clone())),
        ],
    ];
    let incidents: Vec<Vec<OomIncident>> = told
        .into_iter()
        .map(|events| {
            let mut scene = Scene::training();
            scene.sampled(2.0, 4.0, 5.0);
            for (seconds, what) in events {
                scene.add(seconds, what);
            }
            scene.state.run().unwrap().ooms.clone()
        })
        .collect();
    assert_eq!(incidents[0].len(), 1);
    assert_eq!(incidents[0], incidents[1]);
    assert_eq!(incidents[0], incidents[2]);
    let incident = &incidents[0][0];
    assert!(incident.record.is_some() && incident.report.is_some());
    assert_eq!((incident.at, incident.pid), (at(20.0), Some(Pid(100))));
    assert_eq!(incident.device, Some(uuid(0)));
}

#[test]
fn a_figure_just_above_a_unit_is_printed_in_that_unit() {
    // 1 GiB and a little is "1.00 GiB", which read back is a figure that MiB would print exactly.
    for requested in [(1 << 30) + 6_992, (1 << 20) + 5, (1 << 10) + 3, 1 << 30, 1] {
        let record = record(100, gib(22.1), gib(22.4), Bytes(requested), Bytes::ZERO);
        let mut scene = Scene::training();
        scene.add(20.0, What::OomText(text_of(&record)));
        scene.add(20.0, What::Oom(record));
        assert_eq!(scene.state.run().unwrap().ooms.len(), 1, "{requested}");
    }
}

#[test]
fn witnesses_that_differ_are_two_incidents() {
    let near = text_of(&small_record());
    let other_request = oom::Report {
        requested: Some(Bytes::mib(1_300)),
        ..near.clone()
    };
    let other_device = oom::Report {
        device: Some(1),
        ..near.clone()
    };
    let other_kind = oom::Report {
        kind: oom::Kind::Cublas,
        ..oom::Report::default()
    };
    for (seconds, text, count) in [
        (21.0, near.clone(), 1),
        (40.0, near, 2),
        (21.0, other_request, 2),
        (21.0, other_device, 2),
        (21.0, other_kind, 2),
    ] {
        let mut scene = Scene::training();
        scene.add(20.0, What::Oom(small_record()));
        scene.add(seconds, What::OomText(text.clone()));
        assert_eq!(scene.state.run().unwrap().ooms.len(), count, "{text:?}");
    }
}

#[test]
fn an_oom_is_survived_by_stepping_on_or_by_ending_well() {
    let mut scene = Scene::training();
    scene
        .add(5.0, step(100, 1, gib(1.0), gib(9.0)))
        .add(6.0, What::Oom(small_record()));
    assert!(scene.state.oom().is_some());
    // A step that ended before it and is told late changes nothing.
    scene.add(5.5, step(100, 2, gib(1.0), gib(9.0)));
    assert!(scene.state.oom().is_some());
    scene.add(8.0, step(100, 3, gib(1.0), gib(9.0)));
    assert!(scene.state.oom().is_none());
    // It fails again, and the program ends well all the same.
    scene.add(9.0, What::Oom(small_record()));
    assert!(scene.state.oom().is_some());
    scene.add(10.0, exited(1, Exit::Code(0)));
    assert!(scene.state.oom().is_none());
    assert_eq!(scene.state.run().unwrap().outcome(), Outcome::Finished);
    // The text was still in the pipe.
    scene.add(10.1, What::OomText(oom::Report::default()));
    assert!(scene.state.oom().is_none());
}

#[test]
fn the_first_rank_to_fail_is_the_cause() {
    let mut scene = Scene::default();
    scene
        .add(0.0, started(1, 99, "torchrun train.py"))
        .add(1.0, hello(1, 100, Some(0)))
        .add(1.0, hello(1, 101, Some(1)));
    let of = |pid| {
        let mut record = small_record();
        (record.pid, record.sample.pid) = (Pid(pid), Pid(pid));
        What::Oom(record)
    };
    // Rank 1 caught one long before; then both fail, rank 1 first.
    scene
        .add(5.0, of(101))
        .add(100.0, step(101, 1, gib(1.0), gib(2.0)))
        .add(201.0, of(100))
        .add(200.0, of(101))
        .add(203.0, exited(1, Exit::Code(1)));
    let run = scene.state.run().unwrap();
    assert_eq!(run.oom().unwrap().rank.unwrap().0, 1);
    assert_eq!(run.oom().unwrap().at, at(200.0));
    assert_eq!(run.outcome(), Outcome::OutOfMemory);
    // A text with a rank in front goes to that rank's record.
    let mut text = text_of(&small_record());
    text.rank = Some(crate::units::Rank(0));
    scene.add(202.0, What::OomText(text));
    let run = scene.state.run().unwrap();
    assert_eq!(run.ooms.len(), 3);
    assert!(run.ooms[2].report.is_some() && run.ooms[1].report.is_none());
}

#[test]
fn of_one_that_tries_again_and_again_the_last_counts() {
    let mut scene = Scene::training();
    for i in 0..5_000u32 {
        let mut record = small_record();
        record.requested = Bytes::mib(u64::from(5_100 - i));
        scene.add(10.0 + f64::from(i), What::Oom(record));
    }
    let run = scene.state.run().unwrap();
    assert_eq!(run.oom().unwrap().requested(), Some(Bytes::mib(101)));
    assert_eq!(run.oom_count, 5_000);
    assert!(run.ooms.len() <= 128);
    assert_eq!(
        run.ooms[0].requested(),
        Some(Bytes::mib(5_100)),
        "the first is kept"
    );
}

#[test]
fn what_follows_without_figures_is_a_consequence() {
    let mut scene = Scene::training();
    let consequence = oom::Report {
        kind: oom::Kind::Cublas,
        ..oom::Report::default()
    };
    scene
        .add(20.0, What::Oom(small_record()))
        .add(21.0, What::OomText(consequence.clone()));
    let run = scene.state.run().unwrap();
    assert_eq!(run.ooms.len(), 2);
    assert!(run.oom().unwrap().record.is_some());
    // Long after, it is one of its own.
    scene.add(90.0, What::OomText(consequence));
    assert!(scene.state.oom().unwrap().record.is_none());
}

#[test]
fn the_probe_rests_only_where_no_process_is_sampled() {
    let mut scene = Scene::training();
    let What::Hello(mut resting) = hello(1, 101, None) else {
        unreachable!()
    };
    resting.resting = Some("a pluggable allocator".into());
    scene.add(2.0, What::Hello(resting));
    assert_eq!(scene.state.probe(), ProbeState::Live(1));
    let gone = ProbeGone {
        pid: Pid(100),
        reason: None,
    };
    scene.add(3.0, What::ProbeGone(gone));
    let reason = "a pluggable allocator".to_string();
    assert_eq!(scene.state.probe(), ProbeState::Resting(reason));
}

#[test]
fn who_stops_a_run_that_has_failed_did_not_end_it() {
    let stop = || {
        What::StopRequested(StopRequested {
            signal: 2,
            from_keyboard: true,
        })
    };
    for (stopped, outcome) in [(19.0, Outcome::Stopped), (21.0, Outcome::OutOfMemory)] {
        let mut scene = Scene::training();
        scene.add(stopped, stop());
        scene.add(20.0, What::Oom(small_record()));
        scene.add(22.0, exited(1, Exit::Signal(2)));
        assert_eq!(scene.state.run().unwrap().outcome(), outcome);
    }
}

#[test]
fn a_beginning_that_was_missed_costs_no_figures() {
    let mut scene = Scene::default();
    scene.add(1.0, hello(2, 100, None)).sampled(2.0, 4.0, 5.0);
    scene.add(3.0, What::Oom(small_record()));
    let run = scene.state.run().unwrap();
    assert_eq!((run.number, run.ooms.len()), (RunNumber(2), 1));
    assert_eq!(run.peak(), Some(gib(22.1)));
    // Its start is told late.
    scene.add(0.5, started(2, 100, "python train.py"));
    assert_eq!(scene.state.runs.len(), 1);
    assert_eq!(scene.state.run().unwrap().command.argv.len(), 2);
}

#[test]
fn lines_and_losses_are_bounded_and_counted() {
    let mut scene = Scene::default();
    for i in 0..1_000 {
        let note = Note {
            level: Level::Info,
            text: i.to_string(),
        };
        scene.add(f64::from(i), What::Note(note));
        let dropped = Dropped {
            samples: 2,
            malformed: 1,
            ..Dropped::default()
        };
        scene.add(f64::from(i), What::Dropped(dropped));
    }
    assert_eq!(scene.state.notes.len(), 200);
    assert_eq!(scene.state.notes.last().unwrap().1.text, "999");
    assert_eq!(scene.state.dropped.samples, 2_000);
    assert_eq!(scene.state.dropped.malformed, 1_000);
}

/// Any event at all, of few processes, runs and devices, so that they meet.
fn anything() -> impl Strategy<Value = Event> {
    let bytes = prop_oneof![Just(0u64), Just(u64::MAX), 0..30u64 << 30, 0..5u64,].prop_map(Bytes);
    let figures = (bytes.clone(), bytes.clone(), bytes.clone(), bytes);
    let small = (1..4u32, 100..104i32, 0..3u32, 0..6u64);
    (0..60_000_000u64, 0..15u32, small, figures, any::<bool>()).prop_map(
        |(at, kind, (run, pid, device, count), (a, b, c, d), flag)| {
            let what = match kind {
                0 => started(run, pid, "python train.py"),
                1 => exited(run, if flag { Exit::Code(0) } else { Exit::Signal(9) }),
                2 => hello(run, pid, flag.then_some(device)),
                3..=5 => What::Sample(sample(pid, device, a, b)),
                6 | 7 => step(pid, count, a, b),
                8 => What::Structure(Structure {
                    pid: Pid(pid),
                    device,
                    parameters: a,
                    gradients: b,
                    optimizer_state: c,
                }),
                9 => What::Oom(OomRecord {
                    device,
                    limit: flag.then_some(a),
                    largest_free: flag.then_some(d),
                    step: count,
                    ..record(pid, a, b, c, d)
                }),
                10 => What::OomText(oom::Report {
                    total: flag.then_some(c),
                    ..text_of(&record(pid, a, b, c, d))
                }),
                11 => What::ProbeGone(ProbeGone {
                    pid: Pid(pid),
                    reason: flag.then(|| "closed".into()),
                }),
                12 => What::Device(reading(&[(pid, a), (7, b)])),
                13 => What::Nvml(if flag {
                    NvmlState::Stale
                } else {
                    NvmlState::Off
                }),
                _ => What::StopRequested(StopRequested {
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
                device.make_up(&state);
                device.headroom(&state);
            }
            crate::diagnosis::diagnose(&state);
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
        let told = [(20.0, What::Oom(record)), (20.0 + delay, What::OomText(text))];
        let states = [[0, 1], [1, 0]].map(|order| {
            let mut scene = Scene::training();
            for i in order {
                scene.add(told[i].0, told[i].1.clone());
            }
            scene.state.run().unwrap().ooms.clone()
        });
        prop_assert_eq!(states[0].len(), 1);
        prop_assert_eq!(&states[0], &states[1]);
    }
}
