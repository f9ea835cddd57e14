//! The host's memory: who grew, what the kernel killed, and whether that ended a run.

use crate::event::*;
use crate::oom::{ConsequenceKind, OomKind, OomReport, OomSign};
use crate::state::tests::staged::*;
use crate::state::*;
use crate::units::{Bytes, Pid};
use std::time::Duration;

/// So much is used of 32 GiB, of which four workers hold this.
pub(crate) fn host(used: f64, workers: f64) -> EventKind {
    let of = |role, count, held| RoleUse {
        role,
        count,
        held: gib(held),
        exact: true,
        mapped: gib(held),
    };
    let process = |pid, role, own| HostProcess {
        pid: Pid(pid),
        role,
        name: "python3".into(),
        resident: gib(own),
        own: Some(gib(own)),
        ..HostProcess::default()
    };
    EventKind::HostMemory(Box::new(HostMemory {
        used: gib(used),
        limit: Bytes::gib(32),
        limited_by: LimitedBy::Container,
        roles: vec![
            of(HostRole::LoaderWorker, 4, workers),
            of(HostRole::Main, 1, used - workers),
        ],
        processes: vec![
            process(201, HostRole::LoaderWorker, workers / 4.0),
            process(100, HostRole::Main, used - workers),
        ],
        ..HostMemory::default()
    }))
}

pub(crate) fn killed(total: u64, pids: &[i32]) -> EventKind {
    let gone = pids.iter().map(|pid| HostProcess {
        pid: Pid(*pid),
        role: HostRole::Main,
        name: "python3".into(),
        resident: gib(9.0),
        ..HostProcess::default()
    });
    EventKind::HostKill(Box::new(HostKill {
        count: 1,
        total,
        of_machine: false,
        gone: gone.collect(),
    }))
}

fn silent(kill: Option<EventKind>, exit: Exit) -> StagedSession {
    let mut scene = StagedSession::training();
    scene.add(69.5, host(31.5, 22.0));
    if let Some(kill) = kill {
        scene.add(70.0, kill);
    }
    scene.add(70.2, exited(1, exit));
    scene
}

#[test]
fn a_run_that_the_kernel_kills_without_a_word_ran_out_of_memory() {
    for exit in [Exit::Signal(9), Exit::Code(137), Exit::Code(1)] {
        let scene = silent(Some(killed(1, &[100])), exit);
        let run = scene.state.run().unwrap();
        assert_eq!(run.outcome(), RunOutcome::OutOfMemory, "{exit}");
        let oom = run.oom().unwrap();
        assert_eq!((oom.kind(), oom.pid), (OomKind::HostOom, Some(Pid(100))));
        let host = oom.host.as_ref().unwrap();
        assert_eq!(host.memory.as_ref().unwrap().1.used, gib(31.5));
    }
}

#[test]
fn the_count_may_come_after_the_end_and_is_one_kill_however_often_it_is_told() {
    let mut scene = silent(None, Exit::Signal(9));
    assert_eq!(
        scene.state.run().unwrap().outcome(),
        RunOutcome::Failed(Exit::Signal(9))
    );
    scene.add(70.4, killed(1, &[100]));
    scene.add(70.9, killed(1, &[100, 201]));
    let run = scene.state.run().unwrap();
    assert_eq!(
        (run.outcome(), run.ooms.len()),
        (RunOutcome::OutOfMemory, 1)
    );
    assert_eq!(run.ooms[0].kill().unwrap().gone.len(), 2);
}

#[test]
fn a_kill_that_ended_nothing_is_no_out_of_memory() {
    let nobody = silent(Some(killed(1, &[])), Exit::Signal(9));
    let success = silent(Some(killed(1, &[201])), Exit::Code(0));
    let mut other = silent(None, Exit::Code(1));
    // Of the whole machine, and the run failed by itself.
    let EventKind::HostKill(mut kill) = killed(1, &[201]) else {
        unreachable!("it is one");
    };
    kill.of_machine = true;
    other.add(70.3, EventKind::HostKill(kill));
    let mut later = StagedSession::training();
    later.add(10.0, killed(1, &[201]));
    later.add(90.0, exited(1, Exit::Code(1)));
    for scene in [nobody, success, other, later] {
        assert_eq!(scene.state.oom(), None);
    }
    let mut stopped = StagedSession::training();
    stopped.add(
        60.0,
        EventKind::StopRequested(StopRequested {
            signal: 9,
            from_keyboard: true,
        }),
    );
    stopped.add(70.0, killed(1, &[100]));
    stopped.add(70.2, exited(1, Exit::Signal(9)));
    assert_eq!(stopped.state.run().unwrap().outcome(), RunOutcome::Stopped);
}

#[test]
fn a_message_and_the_kernels_count_are_one_incident() {
    let text = EventKind::OomText(OomReport {
        kind: OomKind::HostOom,
        ..OomReport::default()
    });
    for order in [[0, 1], [1, 0]] {
        let mut scene = StagedSession::training();
        scene.add(69.5, host(31.5, 22.0));
        let told = [(70.0, killed(1, &[201])), (70.3, text.clone())];
        for n in order {
            let (at, what) = told[n].clone();
            scene.add(at, what);
        }
        scene.add(71.0, exited(1, Exit::Code(1)));
        let run = scene.state.run().unwrap();
        assert_eq!(
            (run.outcome(), run.ooms.len()),
            (RunOutcome::OutOfMemory, 1)
        );
        assert!(run.ooms[0].kill().is_some(), "{order:?}");
        assert!(run.ooms[0].host.as_ref().unwrap().memory.is_some());
    }
}

/// Readings every five seconds for ten minutes.
fn over(used: impl Fn(f64) -> f64) -> HostState {
    let mut scene = StagedSession::training();
    for n in 0..=120 {
        let seconds = 5.0 * f64::from(n);
        let used = used(seconds);
        scene.add(2.0 + seconds, host(used, used - 4.0));
    }
    scene.state.host.clone()
}

#[test]
fn steady_growth_says_when_and_who_and_anything_else_says_nothing() {
    // A GiB a minute, and a cache that comes and goes on top of it.
    let growing = over(|at| 8.0 + at / 60.0 + (at / 20.0).sin());
    let growth = growing.growth().expect("it grows");
    assert_eq!(growth.role, Some(HostRole::LoaderWorker));
    let per_minute = growth.per_minute.as_gib();
    assert!((0.8..1.2).contains(&per_minute), "{per_minute}");
    assert!(
        (600..1_200).contains(&growth.full_in.as_secs()),
        "{:?}",
        growth.full_in
    );
    assert!(growing.matters());
    let steady = over(|_| 8.0);
    let filled = over(|at| if at < 300.0 { 8.0 } else { 16.0 });
    let saw = over(|at| 8.0 + (at % 200.0) / 25.0);
    let slow = over(|at| 8.0 + at / 1_200.0);
    for other in [steady, filled, saw, slow] {
        assert_eq!(other.growth(), None);
        assert!(!other.matters());
    }
    assert!(over(|_| 30.0).matters(), "nearly full");
}

#[test]
fn a_run_begins_with_nothing_of_the_one_before() {
    let mut scene = silent(Some(killed(1, &[100])), Exit::Signal(9));
    scene.add(80.0, started(2, 300, "python train.py"));
    scene.add(81.0, exited(2, Exit::Signal(9)));
    assert_eq!(scene.state.oom(), None, "the kill was of the run before");
    assert!(scene.state.host.latest().is_none());
}

#[test]
fn a_day_of_readings_is_kept_in_bounded_memory() {
    let mut scene = StagedSession::training();
    for n in 0..20_000 {
        scene.add(2.0 + f64::from(n), host(8.0 + f64::from(n % 10), 4.0));
    }
    let kept: Vec<_> = scene.state.host.history().collect();
    assert!((64..=256).contains(&kept.len()), "{}", kept.len());
    let span = kept.last().unwrap().0.since(kept[0].0);
    assert!(span > Duration::from_secs(19_000), "{span:?}");
}

/// What is loaded before CUDA is initialised may be what fills the RAM.
#[test]
fn loaders_of_a_process_without_cuda_are_known() {
    let said = |pid, workers| {
        let loader = LoaderSettings {
            workers,
            ..LoaderSettings::default()
        };
        EventKind::ProcessHost(Box::new(ProcessHost {
            pid: Pid(pid),
            loaders: Some(vec![loader]),
            ..ProcessHost::default()
        }))
    };
    let workers = |scene: &StagedSession| -> Vec<u32> {
        let run = scene.state.run().unwrap();
        run.loaders().map(|loader| loader.workers).collect()
    };
    let mut scene = StagedSession::default();
    scene.add(0.0, started(1, 100, "python t.py"));
    scene.add(1.0, said(100, 12)).add(1.5, said(101, 2));
    assert_eq!(workers(&scene), [12, 2]);
    assert!(scene.state.run().unwrap().ranks.is_empty());
    scene.add(2.0, said(100, 6));
    assert_eq!(workers(&scene), [2, 6], "the latest word of each");
    // Once it has initialised CUDA it says so itself, and counts once.
    scene.add(3.0, hello(1, 100, None)).add(3.1, said(100, 6));
    assert_eq!(workers(&scene), [6, 2]);
    scene.add(9.0, exited(1, Exit::Signal(9)));
    scene.add(10.0, started(2, 200, "python t.py"));
    assert_eq!(workers(&scene), [0; 0]);
}

/// A front that the kernel has killed is followed by one that reads the recording.
#[test]
fn what_the_kernel_had_killed_before_stays_known() {
    let count = |total| {
        Some(KillCount {
            total,
            of_machine: false,
        })
    };
    let mut scene = StagedSession::default();
    scene.add(0.0, started(1, 100, "python t.py"));
    assert_eq!(scene.state.host.kills(), None);
    let EventKind::HostMemory(first) = host(4.0, 1.0) else {
        panic!("a reading");
    };
    let first = HostMemory {
        kills: count(3),
        ..*first
    };
    scene.add(1.0, EventKind::HostMemory(Box::new(first)));
    scene.add(2.0, host(8.0, 4.0));
    assert_eq!(scene.state.host.kills(), count(3), "told once");
    scene.add(3.0, killed(5, &[201]));
    scene.add(4.0, exited(1, Exit::Signal(9)));
    scene.add(5.0, started(2, 200, "python t.py"));
    assert_eq!(scene.state.host.kills(), count(5));
}

/// A look may come between the program's start and the word of it.
#[test]
fn a_reading_of_the_run_that_comes_before_its_start_is_told_counts() {
    let mut scene = StagedSession::default();
    scene.add(0.0, host(4.0, 1.0));
    scene.add(0.1, started(1, 100, "python t.py"));
    assert!(scene.state.host.latest().is_some(), "process 100 is in it");
    scene.add(5.0, exited(1, Exit::Code(1)));
    scene.add(6.0, started(2, 300, "python t.py"));
    assert_eq!(scene.state.host.latest(), None, "that was the run before");
}

/// "No space left on device" is of /dev/shm where nothing more fitted into that, and else of a disk, which is no fault of memory.
#[test]
fn no_space_is_of_dev_shm_where_that_is_full_and_else_of_a_disk() {
    let failed = |shm_used: u64| {
        let mut scene = StagedSession::training();
        let EventKind::HostMemory(mut memory) = host(9.0, 1.0) else {
            unreachable!("it is one");
        };
        memory.shm = Some(ShmUse {
            used: Bytes::mib(shm_used),
            size: Bytes::mib(64),
        });
        let consequence = Consequence {
            kind: ConsequenceKind::NoSpace,
            rank: None,
        };
        scene
            .add(69.5, EventKind::HostMemory(memory))
            .add(70.0, EventKind::Consequence(consequence))
            .add(70.2, exited(1, Exit::Code(1)));
        scene
    };
    let of_shm = failed(63);
    let run = of_shm.state.run().unwrap();
    assert_eq!(run.outcome(), RunOutcome::OutOfMemory);
    let told_by = run.oom().and_then(|oom| Some(oom.host.as_ref()?.told_by));
    assert_eq!(told_by, Some(HostOomSource::NoSpace));
    let of_disk = failed(1);
    let run = of_disk.state.run().unwrap();
    assert_eq!(run.outcome(), RunOutcome::Failed(Exit::Code(1)));
    let notes: Vec<&str> = of_disk
        .state
        .notes
        .iter()
        .map(|(_, note)| note.text.as_str())
        .collect();
    assert!(
        notes.iter().any(|note| note.contains("a disk is full")),
        "{notes:?}"
    );
}

#[test]
fn file_descriptors_are_not_called_memory() {
    let mut scene = StagedSession::training();
    let report = OomReport {
        kind: OomKind::HostOom,
        sign: Some(OomSign::Descriptors),
        ..OomReport::default()
    };
    scene
        .add(70.0, EventKind::OomText(report))
        .add(70.2, exited(1, Exit::Code(1)));
    let run = scene.state.run().unwrap();
    assert_eq!(run.outcome_words(), "out of file descriptors");
}
