//! Runs, their processes and their steps.

use super::*;
use crate::command::{Change, Word};
use crate::event::*;
use crate::state::tests::staged::*;
use crate::state::*;
use crate::units::{Pid, RunNumber};

#[test]
fn what_comes_late_of_an_earlier_run_goes_to_that_run() {
    let mut scene = StagedSession::training();
    scene
        .sampled(2.0, 4.0, 5.0)
        .add(9.0, exited(1, Exit::Code(1)))
        .add(10.0, started(2, 200, "python train.py --batch-size 32"))
        .add(11.0, hello(2, 200, None))
        .add(11.5, EventKind::Sample(sample(200, 0, gib(1.0), gib(1.5))))
        .add(8.9, EventKind::Sample(sample(100, 0, gib(7.0), gib(7.5))))
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
fn the_last_step_is_counted_without_another_ones_figures() {
    let mut scene = StagedSession::training();
    scene.add(2.0, step(100, 29, gib(1.5), gib(6.0)));
    let EventKind::Step(read) = step(100, 30, gib(1.5), gib(6.0)) else {
        unreachable!()
    };
    let unread = Step {
        figures_of: Some(29),
        backward: None,
        ..read
    };
    scene.add(2.3, EventKind::Step(unread));
    let steps = &scene.state.run().unwrap().ranks[0].steps;
    assert_eq!((steps.count, steps.last.as_ref().unwrap().0), (30, at(2.3)));
    assert_eq!(steps.read, 29);
    assert_eq!(steps.baselines, [(29, gib(1.5))]);
    assert_eq!(steps.marks.ended.len(), 1);
}

#[test]
fn steps_have_a_rate_that_an_evaluation_does_not_disturb() {
    let mut scene = StagedSession::training();
    for (count, seconds) in [(1, 2.0), (2, 2.5), (3, 3.0), (4, 3.5), (5, 63.5), (6, 64.0)] {
        scene.add(
            seconds,
            step(100, count, gib(1.5), gib(6.0 + count as f64 * 0.001)),
        );
    }
    let rank = &scene.state.run().unwrap().ranks[0];
    assert_eq!(rank.steps.count, 6);
    assert_eq!(rank.steps.rate, Some(2.0));
    assert_eq!(rank.steps.baselines.len(), 6);
    assert_eq!(rank.steps.baselines[1], (2, gib(1.5)));
    assert_eq!(rank.peak_step, Some(6));
    for count in 7..3_000 {
        scene.add(64.0 + count as f64, step(100, count, gib(1.5), gib(6.0)));
    }
    let steps = &scene.state.run().unwrap().ranks[0].steps;
    assert!(steps.baselines.len() <= 512 && steps.recent.len() <= 64);
    assert_eq!(steps.baselines.last().unwrap().0, 2_999);
}

#[test]
fn the_peak_has_its_step() {
    // Each row: samples and steps as (seconds, step or none, peak), and the peak's step.
    type StepCase = (&'static [(f64, Option<u64>, f64)], Option<u64>);
    let rows: [StepCase; 6] = [
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
        // Steps are told of later than the sample that was taken after them, or before they ended.
        (
            &[(1.0, Some(1), 3.0), (4.0, None, 5.0), (3.0, Some(6), 3.0)],
            Some(7),
        ),
        (
            &[(1.0, Some(1), 3.0), (2.0, None, 5.0), (3.0, Some(6), 3.0)],
            Some(2),
        ),
    ];
    for (events, expected) in rows {
        let mut scene = StagedSession::training();
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
fn the_probe_rests_only_where_no_process_is_sampled() {
    let mut scene = StagedSession::training();
    let EventKind::Hello(mut resting) = hello(1, 101, None) else {
        unreachable!()
    };
    resting.resting = Some("a pluggable allocator".into());
    scene.add(2.0, EventKind::Hello(resting));
    assert_eq!(scene.state.probe(), ProbeState::Live(1));
    let gone = ProbeGone {
        pid: Pid(100),
        reason: None,
        said_end: false,
    };
    scene.add(3.0, EventKind::ProbeGone(gone));
    let reason = "a pluggable allocator".to_string();
    assert_eq!(scene.state.probe(), ProbeState::Resting(reason));
}

#[test]
fn a_beginning_that_was_missed_costs_no_figures() {
    let mut scene = StagedSession::default();
    scene.add(1.0, hello(2, 100, None)).sampled(2.0, 4.0, 5.0);
    scene.add(3.0, EventKind::Oom(super::ooms::small_record()));
    let run = scene.state.run().unwrap();
    assert_eq!((run.number, run.ooms.len()), (RunNumber(2), 1));
    assert_eq!(run.peak(), Some(gib(22.1)));
    // Its start is told late.
    scene.add(0.5, started(2, 100, "python train.py"));
    assert_eq!(scene.state.runs.len(), 1);
    assert_eq!(scene.state.run().unwrap().command.argv.len(), 2);
}

#[test]
fn a_hello_of_no_run_of_ours_is_not_believed() {
    let mut scene = StagedSession::training();
    scene.add(2.0, hello(77, 300, None));
    assert_eq!(scene.state.runs.len(), 1);
    let EventKind::Hello(mut endless) = hello(1, 301, None) else {
        unreachable!()
    };
    for ordinal in 0..10_000 {
        let device = ProbeDevice {
            ordinal,
            uuid: Some(uuid(ordinal)),
            name: String::new(),
            total: CAPACITY,
        };
        endless.devices.push(device);
    }
    scene.add(3.0, EventKind::Hello(endless));
    assert_eq!(scene.state.devices.len(), 256);
}

#[test]
fn lines_and_losses_are_bounded_and_counted() {
    let mut scene = StagedSession::default();
    for i in 0..1_000 {
        let note = Note::new(Level::Info, i.to_string());
        scene.add(f64::from(i), EventKind::Note(note));
        let dropped = Dropped {
            samples: 2,
            malformed: 1,
            ..Dropped::default()
        };
        scene.add(f64::from(i), EventKind::Dropped(dropped));
    }
    assert_eq!(scene.state.notes.len(), 200);
    assert_eq!(scene.state.notes.last().unwrap().1.text, "999");
    assert_eq!(scene.state.dropped.samples, 2_000);
    assert_eq!(scene.state.dropped.malformed, 1_000);
}

#[test]
fn a_peak_between_two_samples_does_not_vanish_from_the_chart() {
    let mut scene = StagedSession::training();
    let reading = |now: f64, peak: f64| {
        EventKind::Sample(Sample {
            allocated_peak: gib(peak),
            ..sample(100, 0, gib(now), gib(now))
        })
    };
    scene
        .add(2.0, reading(4.0, 4.0))
        .add(2.1, reading(4.0, 9.0))
        .add(2.2, reading(4.0, 9.0));
    let device = &scene.state.devices[0];
    assert_eq!(
        device.allocated.max_between(at(2.0), at(2.1)),
        Some(gib(9.0))
    );
    assert_eq!(
        device.allocated.max_between(at(2.11), at(2.2)),
        Some(gib(4.0))
    );
    assert_eq!(device.allocated.current(), Some(gib(4.0)));
}

#[test]
fn retries_are_kept_with_their_time() {
    let mut scene = StagedSession::training();
    for (seconds, alloc_retries) in [(2.0, 0), (3.0, 2), (4.0, 2), (5.0, 3)] {
        let sample = Sample {
            alloc_retries,
            ..sample(100, 0, gib(4.0), gib(5.0))
        };
        scene.add(seconds, EventKind::Sample(sample));
    }
    let rank = &scene.state.run().unwrap().ranks[0];
    assert_eq!(rank.retries, [(at(3.0), 2), (at(5.0), 3)]);
    for n in 0..100 {
        let sample = Sample {
            alloc_retries: 4 + n,
            ..sample(100, 0, gib(4.0), gib(5.0))
        };
        scene.add(6.0 + n as f64, EventKind::Sample(sample));
    }
    let retries = &scene.state.run().unwrap().ranks[0].retries;
    assert!(retries.len() <= 64);
    assert_eq!(retries.last(), Some(&(at(105.0), 103)));
}

#[test]
fn epochs_belong_to_the_run_whose_output_named_them() {
    let mut scene = StagedSession::training();
    scene
        .add(5.0, EventKind::Epoch(Epoch { number: 1 }))
        .add(9.0, EventKind::Epoch(Epoch { number: 2 }))
        .add(9.5, EventKind::Epoch(Epoch { number: 2 }))
        .add(10.0, exited(1, Exit::Code(1)))
        .add(11.0, started(2, 200, "python train.py --batch-size 32"))
        .add(15.0, EventKind::Epoch(Epoch { number: 1 }));
    let of = |number| {
        let run = scene.state.run_numbered(RunNumber(number)).unwrap();
        let marks = run.epochs.marks().iter();
        let marks: Vec<(Moment, u64)> = marks.map(|mark| (mark.at, mark.number)).collect();
        marks
    };
    assert_eq!(of(1), [(at(5.0), 1), (at(9.0), 2)]);
    assert_eq!(of(2), [(at(15.0), 1)]);
    // Before any run there is nobody whose they could be.
    let mut none = StagedSession::default();
    none.add(1.0, EventKind::Epoch(Epoch { number: 1 }));
    assert!(none.state.runs.is_empty());
}

/// The median of the latest gaps is the pace of now; an evaluation and a slow start count in the whole.
#[test]
fn the_pace_of_a_run_is_its_steps_over_the_time_that_they_took() {
    let mut scene = StagedSession::training();
    for (at, count) in [
        (10.0, 5),
        (20.0, 6),
        (21.0, 7),
        (22.0, 8),
        (23.0, 9),
        (30.0, 15),
    ] {
        scene.add(at, step(100, count, gib(1.0), gib(8.0)));
    }
    let run = scene.state.run().unwrap();
    assert_eq!(run.ranks[0].steps.rate, Some(1.0));
    assert_eq!(run.steps_per_second(), Some(0.5));
    let one = StagedSession::training();
    assert_eq!(one.state.run().unwrap().steps_per_second(), None);
}
