//! Out-of-memories: two witnesses, survival, which one counts.

use super::*;
use crate::event::*;
use crate::oom;
use crate::state::tests::staged::*;
use crate::state::*;
use crate::units::{Bytes, Pid};

pub(super) fn small_record() -> OomRecord {
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
            (20.0, EventKind::Oom(small_record())),
            (20.8, EventKind::OomText(text.clone())),
        ],
        vec![
            (20.8, EventKind::OomText(text.clone())),
            (20.0, EventKind::Oom(small_record())),
        ],
        // The traceback is printed once more by the launcher.
        vec![
            (20.0, EventKind::Oom(small_record())),
            (20.8, EventKind::OomText(text.clone())),
            (21.9, EventKind::OomText(text.clone())),
        ],
    ];
    let incidents: Vec<Vec<OomIncident>> = told
        .into_iter()
        .map(|events| {
            let mut scene = StagedSession::training();
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
        let mut scene = StagedSession::training();
        scene.add(20.0, EventKind::OomText(text_of(&record)));
        scene.add(20.0, EventKind::Oom(record));
        assert_eq!(scene.state.run().unwrap().ooms.len(), 1, "{requested}");
    }
}

#[test]
fn witnesses_that_differ_are_two_incidents() {
    let near = text_of(&small_record());
    let other_request = oom::OomReport {
        requested: Some(Bytes::mib(1_300)),
        ..near.clone()
    };
    let other_device = oom::OomReport {
        device: Some(1),
        ..near.clone()
    };
    let without_figures = oom::OomReport {
        allocated: None,
        ..near.clone()
    };
    let other_kind = oom::OomReport {
        kind: oom::OomKind::Cublas,
        ..oom::OomReport::default()
    };
    for (seconds, text, count) in [
        (21.0, near.clone(), 1),
        (40.0, near.clone(), 1),
        (400.0, near.clone(), 2),
        (40.0, without_figures, 2),
        (21.0, other_request, 2),
        (21.0, other_device, 2),
        (21.0, other_kind, 2),
    ] {
        let mut scene = StagedSession::training();
        scene.add(20.0, EventKind::Oom(small_record()));
        scene.add(seconds, EventKind::OomText(text.clone()));
        assert_eq!(scene.state.run().unwrap().ooms.len(), count, "{text:?}");
    }
}

#[test]
fn an_oom_is_survived_by_stepping_on_or_by_ending_well() {
    let mut scene = StagedSession::training();
    scene
        .add(5.0, step(100, 1, gib(1.0), gib(9.0)))
        .add(6.0, EventKind::Oom(small_record()));
    assert!(scene.state.oom().is_some());
    // A step that ended before it and is told late changes nothing.
    scene.add(5.5, step(100, 2, gib(1.0), gib(9.0)));
    assert!(scene.state.oom().is_some());
    scene.add(8.0, step(100, 3, gib(1.0), gib(9.0)));
    assert!(scene.state.oom().is_none());
    // It fails again, and the program ends well all the same.
    scene.add(9.0, EventKind::Oom(small_record()));
    assert!(scene.state.oom().is_some());
    scene.add(10.0, exited(1, Exit::Code(0)));
    assert!(scene.state.oom().is_none());
    assert_eq!(scene.state.run().unwrap().outcome(), RunOutcome::Finished);
    // The text was still in the pipe.
    scene.add(10.1, EventKind::OomText(oom::OomReport::default()));
    assert!(scene.state.oom().is_none());
}

/// What became of a run that ended with exit 1.
fn outcome_of(scene: &mut StagedSession, seconds: f64, exit: Exit) -> (RunOutcome, Option<Doubt>) {
    scene.add(seconds, exited(1, exit));
    let run = scene.state.run().unwrap();
    let doubt = match run.hidden_oom() {
        Some(HiddenOom::Doubtful(_, doubt)) => Some(doubt),
        Some(HiddenOom::Fatal(_) | HiddenOom::Possible(_)) | None => None,
    };
    (run.outcome(), doubt)
}

const FAILED: Exit = Exit::Code(1);

fn quoted() -> EventKind {
    EventKind::OomText(text_of(&small_record()))
}

#[test]
fn one_that_is_quoted_before_good_steps_is_not_this_runs() {
    let mut scene = StagedSession::default();
    scene
        .add(0.0, started(1, 99, "sh -c train"))
        .add(0.5, quoted());
    scene.add(3.0, hello(1, 100, None));
    for n in 1..=12 {
        scene.add(3.0 + n as f64, step(100, n, gib(1.0), gib(2.0)));
    }
    let (outcome, doubt) = outcome_of(&mut scene, 16.0, FAILED);
    assert_eq!(outcome, RunOutcome::Failed(FAILED));
    assert_eq!(doubt, Some(Doubt::WentOn));
    assert!(scene.state.oom().is_none());
}

#[test]
fn one_that_only_the_output_has_is_not_of_a_process_that_is_watched() {
    // The line was in the program's buffer until it ended.
    let mut scene = StagedSession::training();
    scene
        .add(5.0, step(100, 1, gib(1.0), gib(2.0)))
        .add(6.0, quoted());
    let seen = outcome_of(&mut scene, 6.1, FAILED);
    assert_eq!(seen, (RunOutcome::Failed(FAILED), Some(Doubt::Unseen)));
    // An allocator that the probe does not see, a process that says so itself, no probe.
    let mut other = StagedSession::training();
    let outside = oom::OomReport {
        kind: oom::OomKind::Cublas,
        ..text_of(&small_record())
    };
    other.add(6.0, EventKind::OomText(outside));
    let mut said = StagedSession::training();
    said.add(6.0, quoted())
        .add(6.0, EventKind::UncaughtOom(UncaughtOom { pid: Pid(100) }));
    let mut bare = StagedSession::default();
    bare.add(0.0, started(1, 99, "python train.py"))
        .add(6.0, quoted());
    for mut scene in [other, said, bare] {
        let seen = outcome_of(&mut scene, 6.1, FAILED);
        assert_eq!(seen, (RunOutcome::OutOfMemory, None));
    }
}

/// Another program's log, shown in the same output.
#[test]
fn one_that_only_the_output_has_needs_a_status_that_goes_with_it() {
    let of = |exit, events: &[(f64, EventKind)]| {
        let mut scene = StagedSession::default();
        scene
            .add(0.0, started(1, 99, "docker run trainer"))
            .add(6.0, quoted());
        for (seconds, event) in events {
            scene.add(*seconds, event.clone());
        }
        outcome_of(&mut scene, 7.0, exit)
    };
    for exit in [
        Exit::Code(1),
        Exit::Code(2),
        Exit::Code(134),
        Exit::Signal(6),
        Exit::Signal(9),
    ] {
        assert_eq!(of(exit, &[]), (RunOutcome::OutOfMemory, None), "{exit:?}");
    }
    let other = [
        Exit::Code(127),
        Exit::Code(124),
        Exit::Signal(15),
        Exit::Code(130),
        Exit::Signal(1),
    ];
    let gave_up = Consequence {
        kind: oom::ConsequenceKind::LauncherGaveUp,
        rank: None,
    };
    for exit in other {
        let doubted = (RunOutcome::Failed(exit), Some(Doubt::AnotherStatus));
        assert_eq!(of(exit, &[]), doubted, "{exit:?}");
        // What others print where a rank fails bears it out, and so does the probe.
        let followed = (6.5, EventKind::Consequence(gave_up));
        assert_eq!(of(exit, &[followed]).0, RunOutcome::OutOfMemory, "{exit:?}");
        let seen = [
            (1.0, hello(1, 100, None)),
            (6.0, EventKind::Oom(small_record())),
        ];
        assert_eq!(of(exit, &seen).0, RunOutcome::OutOfMemory, "{exit:?}");
    }
}

#[test]
fn what_nobody_is_asked_about_is_borne_out() {
    let is_borne_out = |text: oom::OomReport, ended| {
        let mut scene = StagedSession::default();
        scene
            .add(0.0, started(1, 99, "docker run trainer"))
            .add(6.0, EventKind::OomText(text));
        outcome_of(&mut scene, ended, FAILED);
        let run = scene.state.run().unwrap();
        run.is_borne_out(run.oom().expect("memory ran out"))
    };
    let text = text_of(&small_record());
    assert!(is_borne_out(text.clone(), 9.0));
    assert!(!is_borne_out(text, 60.0), "a neighbour's, long before");
    let hearsay = oom::OomReport {
        kind: oom::OomKind::HostOom,
        hearsay: true,
        ..oom::OomReport::default()
    };
    assert!(!is_borne_out(hearsay, 6.1), "a shell says Killed");
    let mut watched = StagedSession::training();
    watched.add(6.0, EventKind::Oom(small_record()));
    outcome_of(&mut watched, 60.0, FAILED);
    let run = watched.state.run().unwrap();
    assert!(run.is_borne_out(run.oom().expect("memory ran out")));
}

#[test]
fn where_a_later_process_trains_it_was_made_good() {
    let mut scene = StagedSession::training();
    scene
        .add(6.0, EventKind::Oom(small_record()))
        .add(6.1, EventKind::UncaughtOom(UncaughtOom { pid: Pid(100) }))
        .add(8.0, hello(1, 200, None))
        .add(9.0, step(200, 1, gib(1.0), gib(2.0)));
    let killed = Exit::Signal(9);
    let seen = outcome_of(&mut scene, 60.0, killed);
    assert_eq!(seen, (RunOutcome::Failed(killed), Some(Doubt::WentOn)));
    // It runs out again.
    let mut record = small_record();
    record.pid = Pid(200);
    scene.add(59.0, EventKind::Oom(record));
    assert_eq!(
        scene.state.run().unwrap().outcome(),
        RunOutcome::OutOfMemory
    );
}

#[test]
fn of_a_process_that_lives_on_and_is_killed_it_was_not_the_end() {
    let killed = Exit::Signal(9);
    let of = |seconds| {
        let mut scene = StagedSession::training();
        scene.add(6.0, EventKind::Oom(small_record()));
        outcome_of(&mut scene, seconds, killed)
    };
    assert_eq!(of(7.0), (RunOutcome::OutOfMemory, None));
    let later = (RunOutcome::Failed(killed), Some(Doubt::KilledLater));
    assert_eq!(of(60.0), later);
}

#[test]
fn a_step_of_another_rank_that_was_under_way_is_no_progress() {
    let mut scene = StagedSession::default();
    scene
        .add(0.0, started(1, 99, "torchrun train.py"))
        .add(1.0, hello(1, 100, Some(0)))
        .add(1.0, hello(1, 101, Some(1)))
        .add(6.0, EventKind::Oom(small_record()))
        .add(6.2, step(101, 1, gib(1.0), gib(2.0)));
    let seen = outcome_of(&mut scene, 7.0, FAILED);
    assert_eq!(seen, (RunOutcome::OutOfMemory, None));
}

#[test]
fn the_first_rank_to_fail_is_the_cause() {
    let mut scene = StagedSession::default();
    scene
        .add(0.0, started(1, 99, "torchrun train.py"))
        .add(1.0, hello(1, 100, Some(0)))
        .add(1.0, hello(1, 101, Some(1)));
    let of = |pid| {
        let mut record = small_record();
        (record.pid, record.sample.pid) = (Pid(pid), Pid(pid));
        EventKind::Oom(record)
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
    assert_eq!(run.outcome(), RunOutcome::OutOfMemory);
    // A text with a rank in front goes to that rank's record.
    let mut text = text_of(&small_record());
    text.rank = Some(crate::units::Rank(0));
    scene.add(202.0, EventKind::OomText(text));
    let run = scene.state.run().unwrap();
    assert_eq!(run.ooms.len(), 3);
    assert!(run.ooms[2].report.is_some() && run.ooms[1].report.is_none());
}

#[test]
fn of_one_that_tries_again_and_again_the_last_counts() {
    let mut scene = StagedSession::training();
    for i in 0..5_000u32 {
        let mut record = small_record();
        record.requested = Bytes::mib(u64::from(5_100 - i));
        scene.add(10.0 + f64::from(i), EventKind::Oom(record));
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
    let mut scene = StagedSession::training();
    let consequence = oom::OomReport {
        kind: oom::OomKind::Cublas,
        ..oom::OomReport::default()
    };
    scene
        .add(20.0, EventKind::Oom(small_record()))
        .add(21.0, EventKind::OomText(consequence.clone()));
    let run = scene.state.run().unwrap();
    assert_eq!(run.ooms.len(), 2);
    assert!(run.oom().unwrap().record.is_some());
    // Long after, it is one of its own.
    scene.add(90.0, EventKind::OomText(consequence));
    assert!(scene.state.oom().unwrap().record.is_none());
}

#[test]
fn who_stops_a_run_that_has_failed_did_not_end_it() {
    let stop = || {
        EventKind::StopRequested(StopRequested {
            signal: 2,
            from_keyboard: true,
        })
    };
    for (stopped, outcome) in [(19.0, RunOutcome::Stopped), (21.0, RunOutcome::OutOfMemory)] {
        let mut scene = StagedSession::training();
        scene.add(stopped, stop());
        scene.add(20.0, EventKind::Oom(small_record()));
        scene.add(22.0, exited(1, Exit::Signal(2)));
        assert_eq!(scene.state.run().unwrap().outcome(), outcome);
    }
}

/// A target network's call has no gradients, as an evaluation's has; the lines behind it lead to a backward.
#[test]
fn a_call_without_gradients_is_of_a_step_where_its_rehearsal_is() {
    let evaluated = OomRecord {
        phase: Phase::Evaluation,
        ..small_record()
    };
    let phase_after = |rehearsed: Phase| {
        let mut scene = StagedSession::training();
        scene.add(20.0, EventKind::Oom(evaluated.clone()));
        let rehearsal = Rehearsal {
            pid: Pid(100),
            phase: rehearsed,
            ..Rehearsal::default()
        };
        scene.add(20.5, EventKind::Rehearsal(Box::new(rehearsal)));
        let incident = &scene.state.run().unwrap().ooms[0];
        incident.record.as_ref().unwrap().phase
    };
    assert_eq!(phase_after(Phase::Forward), Phase::Forward);
    assert_eq!(phase_after(Phase::Evaluation), Phase::Evaluation);
}

/// The search at an OOM has little time: one that came to nothing does not take away the name that an earlier one had found.
#[test]
fn a_search_without_a_name_does_not_replace_one_with() {
    let search = |step, name: &str, left: Option<&str>| {
        let retainer = Retainer {
            name: name.into(),
            kind: RetainerKind::Attribute,
            ..Retainer::default()
        };
        let named = !name.is_empty();
        EventKind::Retainers(Box::new(Retainers {
            pid: Pid(100),
            step,
            retainers: named.then_some(retainer).into_iter().collect(),
            left: left.map(String::from),
            ..Retainers::default()
        }))
    };
    let kept = |second: EventKind| {
        let mut scene = StagedSession::training();
        scene.add(10.0, search(140, "history", None));
        scene.add(20.0, second);
        scene.state.runs[0].ranks[0]
            .retainers
            .as_ref()
            .unwrap()
            .1
            .step
    };
    assert_eq!(kept(search(230, "", Some("no time"))), 140);
    assert_eq!(kept(search(230, "", None)), 230, "it is gone");
    assert_eq!(kept(search(230, "other", Some("no time"))), 230);
}
