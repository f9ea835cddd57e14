//! The host's memory: who filled it.

use crate::diagnosis::*;
use crate::event::*;
use crate::oom::{OomKind, OomReport, OomSign};
use crate::state::RunOutcome;
use crate::state::tests::host::{host, killed};
use crate::state::tests::staged::*;
use crate::units::{Bytes, Pid};

/// A run that the kernel killed half a second after this reading.
fn after(change: impl FnOnce(&mut HostMemory)) -> StagedSession {
    let mut scene = StagedSession::training();
    scene.add(10.0, host(12.0, 6.0));
    let EventKind::HostMemory(mut memory) = host(31.6, 24.0) else {
        unreachable!("it is one");
    };
    change(&mut memory);
    scene.add(69.5, EventKind::HostMemory(memory));
    scene.add(70.0, killed(1, &[100]));
    scene.add(70.2, exited(1, Exit::Signal(9)));
    scene
}

/// /dev/shm is full, and the program says what torch says then.
fn full_shm() -> StagedSession {
    let mut scene = StagedSession::training();
    let EventKind::HostMemory(mut memory) = host(12.0, 6.0) else {
        unreachable!("it is one");
    };
    memory.shm = Some(ShmUse {
        used: Bytes::mib(63),
        size: Bytes::mib(64),
    });
    scene.add(69.5, EventKind::HostMemory(memory));
    let report = OomReport {
        kind: OomKind::HostOom,
        ..OomReport::default()
    };
    scene.add(70.0, EventKind::OomText(report));
    scene.add(70.2, exited(1, Exit::Code(1)));
    scene
}

/// What the training's process says of itself.
fn said(change: impl FnOnce(&mut ProcessHost)) -> EventKind {
    let mut said = ProcessHost {
        pid: Pid(100),
        ..ProcessHost::default()
    };
    change(&mut said);
    EventKind::ProcessHost(Box::new(said))
}

fn grown(doing: Option<HostActivity>, function: &str) -> EventKind {
    said(|said| {
        let line = |file: &str, line, function: &str| {
            Some(SourceLine {
                file: file.into(),
                line,
                function: function.into(),
            })
        };
        said.growth = Some(HostGrowthSpot {
            held: gib(29.0),
            grew: gib(12.0),
            over_ms: 3_100,
            line: line("/w/train.py", 88, function),
            inside: line("/lib/torch/serialization.py", 850, "save"),
            doing,
        });
    })
}

/// The main process held most of it, and had said this two seconds before.
fn main_process(said: EventKind) -> StagedSession {
    let mut scene = StagedSession::training();
    let EventKind::HostMemory(mut memory) = host(31.6, 1.0) else {
        unreachable!("it is one");
    };
    memory.roles.remove(0);
    memory.processes.remove(0);
    scene.add(10.0, EventKind::HostMemory(memory.clone()));
    scene.add(67.5, said);
    scene.add(69.5, EventKind::HostMemory(memory));
    scene.add(70.0, killed(1, &[100]));
    scene.add(70.2, exited(1, Exit::Signal(9)));
    scene
}

/// Batches of eight workers wait in shared memory.
fn queue() -> StagedSession {
    let mut scene = StagedSession::training();
    let loader = LoaderSettings {
        workers: 8,
        prefetch: Some(4),
        batch: Some(64),
        ..LoaderSettings::default()
    };
    scene.add(3.0, said(|said| said.loaders = Some(vec![loader])));
    let EventKind::HostMemory(mut memory) = host(31.6, 2.0) else {
        unreachable!("it is one");
    };
    memory.shared = Some(gib(20.0));
    scene.add(69.5, EventKind::HostMemory(memory));
    scene.add(70.0, killed(1, &[100]));
    scene.add(70.2, exited(1, Exit::Signal(9)));
    scene
}

/// The last reading before a kill in which nobody holds half: what workers held themselves, what the batches took that they had
/// fetched, and what the main process held.
fn nobody_holds_half(workers: f64, shared: f64, main: f64) -> StagedSession {
    let mut scene = StagedSession::training();
    let loader = LoaderSettings {
        workers: 4,
        prefetch: Some(16),
        ..LoaderSettings::default()
    };
    scene.add(3.0, said(|said| said.loaders = Some(vec![loader])));
    let reading = |used: f64, workers: f64, shared: f64, main: f64| {
        let EventKind::HostMemory(mut memory) = host(used, workers) else {
            unreachable!("it is one");
        };
        memory.shared = Some(gib(shared));
        for role in &mut memory.roles {
            let held = if role.role.is_worker() { workers } else { main };
            (role.held, role.exact) = (gib(held), true);
        }
        for process in &mut memory.processes {
            let held = match process.role.is_worker() {
                true => workers / 4.0,
                false => main,
            };
            process.own = Some(gib(held));
        }
        EventKind::HostMemory(memory)
    };
    scene.add(10.0, reading(9.0, 0.1, 0.0, 4.0));
    scene.add(69.5, reading(30.0, workers, shared, main));
    scene.add(70.0, killed(1, &[100]));
    scene.add(70.2, exited(1, Exit::Signal(9)));
    scene
}

#[test]
fn where_nobody_holds_half_whoever_took_most_together_or_grew_most_is_named() {
    for (what, scene, cause, why) in [
        (
            "batches, and the workers that fetched them",
            nobody_holds_half(9.0, 11.0, 9.0),
            Cause::PrefetchQueue,
            "held 20.0 GiB together",
        ),
        (
            "workers, and the batches that they fetched",
            nobody_holds_half(11.0, 9.0, 9.0),
            Cause::HostWorkers,
            "held 20.0 GiB together",
        ),
        (
            "nobody",
            nobody_holds_half(1.0, 1.0, 12.0),
            Cause::HostMemory,
            "The last look",
        ),
    ] {
        let found = diagnose(&scene.state).remove(0);
        assert_eq!(found.cause, cause, "{what}: {found:#?}");
        assert!(
            found.explanation.contains(why),
            "{what}: {}",
            found.explanation
        );
        let is_sure = found.certainty == Certainty::Certain;
        assert_eq!(is_sure, cause == Cause::HostMemory, "{what}");
    }
}

#[test]
fn whoever_grew_most_is_named_where_others_hold_the_rest() {
    // Another program in the same group has 15 GiB all along.
    let EventKind::HostMemory(mut memory) = host(18.0, 0.0) else {
        unreachable!("it is one");
    };
    let held = |memory: &mut HostMemory, main: f64| {
        memory.roles.retain(|role| !role.role.is_worker());
        memory.processes.retain(|process| !process.role.is_worker());
        (memory.roles[0].held, memory.roles[0].exact) = (gib(main), true);
        memory.processes[0].own = Some(gib(main));
        memory.shared = None;
    };
    held(&mut memory, 3.0);
    let mut scene = StagedSession::training();
    scene.add(10.0, EventKind::HostMemory(memory.clone()));
    held(&mut memory, 14.0);
    memory.used = gib(29.5);
    scene.add(69.5, EventKind::HostMemory(memory));
    scene.add(70.0, killed(1, &[100]));
    scene.add(70.2, exited(1, Exit::Signal(9)));
    let found = diagnose(&scene.state).remove(0);
    assert_eq!(
        (found.cause, found.certainty),
        (Cause::HostProcess, Certainty::Likely)
    );
    let why = "Nobody held half of it; this one grew most.";
    assert!(found.explanation.contains(why), "{}", found.explanation);
}

/// Four forked workers touch what they share with their parent: more is used, and nobody is larger.
fn copies() -> StagedSession {
    let mut scene = StagedSession::training();
    for (at, used) in [(10.0, 9.0), (40.0, 20.0), (69.5, 31.6)] {
        let EventKind::HostMemory(mut memory) = host(used, 6.0) else {
            unreachable!("it is one");
        };
        for role in &mut memory.roles {
            let each = if role.count == 4 { 28.0 } else { 7.0 };
            (role.held, role.mapped, role.exact) = (gib(each), gib(each), false);
        }
        scene.add(at, EventKind::HostMemory(memory));
    }
    scene.add(70.0, killed(1, &[100]));
    scene.add(70.2, exited(1, Exit::Signal(9)));
    scene
}

/// Causes that a hint leads to, and how certain that makes them.
pub(super) fn further() -> Vec<(&'static str, StagedSession, Cause, Certainty)> {
    use Certainty::{Certain, Likely};
    use HostActivity::{Checkpoint, Evaluation};
    vec![
        ("batches in advance", queue(), Cause::PrefetchQueue, Likely),
        ("copies of workers", copies(), Cause::WorkerCopies, Certain),
        ("a leak", killed_leaking(), Cause::HostLeak, Certain),
        (
            "a recording that breaks off",
            broken_off(),
            Cause::HostWorkers,
            Likely,
        ),
        (
            "a checkpoint",
            main_process(grown(Some(Checkpoint), "save_checkpoint")),
            Cause::CheckpointInRam,
            Likely,
        ),
        (
            "an evaluation",
            main_process(grown(Some(Evaluation), "evaluate")),
            Cause::EvaluationInRam,
            Likely,
        ),
        (
            "a line of the program that is neither",
            main_process(grown(None, "build")),
            Cause::HostProcess,
            Certain,
        ),
        (
            "pinned memory, by torch's own figure",
            main_process(said(|said| said.pinned = Some(gib(25.0)))),
            Cause::PinnedMemory,
            Certain,
        ),
        (
            "a job's limit, and nobody with most of it",
            after(|memory| {
                memory.limited_by = LimitedBy::Slurm;
                memory.roles[0].held = gib(4.0);
                memory.processes.clear();
            }),
            Cause::SlurmLimit,
            Certain,
        ),
    ]
}

pub(super) fn scenes() -> Vec<(&'static str, StagedSession, Cause)> {
    use Cause::{HostMemory, HostProcess, HostWorkers, PinnedMemory, SharedMemory};
    vec![
        ("four workers", after(|_| ()), HostWorkers),
        (
            "the main process, at a job's limit",
            after(|memory| {
                memory.limited_by = LimitedBy::Slurm;
                memory.roles.remove(0);
                memory.roles[0].held = gib(30.0);
                memory.processes.remove(0);
                memory.processes[0].own = Some(gib(30.0));
            }),
            HostProcess,
        ),
        (
            "shared memory, within the limit",
            after(|memory| {
                memory.shared = Some(gib(20.0));
                memory.roles[0].held = gib(2.0);
            }),
            SharedMemory,
        ),
        ("a full /dev/shm", full_shm(), SharedMemory),
        (
            "pinned memory",
            after(|memory| memory.processes[1].locked = Some(gib(20.0))),
            PinnedMemory,
        ),
        (
            "what workers share counts in each of them",
            after(|memory| {
                memory.roles[0].held = gib(60.0);
                memory.roles[0].exact = false;
            }),
            HostMemory,
        ),
        (
            "a machine on which others hold most",
            after(|memory| {
                memory.limited_by = LimitedBy::Machine;
                memory.roles[0].held = gib(4.0);
                memory.processes[1].own = Some(gib(3.0));
                memory.roles[1].held = gib(3.0);
            }),
            HostMemory,
        ),
    ]
}

#[test]
fn each_killed_run_has_its_cause_and_the_figures_of_the_last_second() {
    for (what, scene, cause) in scenes() {
        let findings = diagnose(&scene.state);
        let [finding] = &findings[..] else {
            panic!("{what}: {findings:#?}");
        };
        assert_eq!(
            (finding.cause, finding.certainty),
            (cause, Certainty::Certain),
            "{what}"
        );
        assert!(
            finding
                .explanation
                .contains("The last look was 0.5 s before"),
            "{what}"
        );
        let names: Vec<&str> = finding
            .evidence
            .iter()
            .map(|known| known.what.as_str())
            .collect();
        assert!(
            names.contains(&"RAM used") && names.contains(&"RAM limit"),
            "{what}: {names:?}"
        );
        assert!(
            !names.contains(&"allocated"),
            "{what}: the GPU's are no matter"
        );
    }
}

#[test]
fn what_the_processes_say_leads_to_the_cause() {
    for (what, scene, cause, certainty) in further() {
        let findings = diagnose(&scene.state);
        let found = (findings[0].cause, findings[0].certainty);
        assert_eq!(found, (cause, certainty), "{what}: {findings:#?}");
        let words = &findings[0].explanation;
        assert!(words.contains("The last look was 0.5 s before"), "{words}");
    }
}

#[test]
fn the_line_that_grew_is_named_unless_it_is_of_long_ago() {
    let scene = main_process(grown(Some(HostActivity::Checkpoint), "save_checkpoint"));
    let found = diagnose(&scene.state).remove(0);
    assert_eq!(found.place.as_deref(), Some("train.py:88"));
    let grew =
        "It grew by 12.0 GiB in 3.1 s at train.py:88 save_checkpoint → serialization.py:850 save.";
    assert!(found.explanation.contains(grew), "{}", found.explanation);
    let mut scene = StagedSession::training();
    scene.add(
        20.0,
        grown(Some(HostActivity::Checkpoint), "save_checkpoint"),
    );
    let EventKind::HostMemory(mut memory) = host(31.6, 1.0) else {
        unreachable!("it is one");
    };
    memory.roles.remove(0);
    scene.add(69.5, EventKind::HostMemory(memory));
    scene.add(70.0, killed(1, &[100]));
    scene.add(70.2, exited(1, Exit::Signal(9)));
    assert_eq!(diagnose(&scene.state)[0].cause, Cause::HostProcess);
}

#[test]
fn what_is_to_be_asked_for_is_more_than_was_needed() {
    let asked = |scene: StagedSession| diagnose(&scene.state).remove(0).advice.concat_words();
    let slurm = asked(after(|memory| memory.limited_by = LimitedBy::Slurm));
    // 32 GiB, of which the workers took 18 more in the last minute, and a quarter.
    assert!(slurm.contains("sbatch --mem=63G"), "{slurm}");
    let container = asked(after(|_| ()));
    assert!(container.contains("docker run --memory=63g"), "{container}");
    let unit = asked(after(|memory| memory.limited_by = LimitedBy::Systemd));
    assert!(unit.contains("MemoryMax=63G"), "{unit}");
    let shm = asked(full_shm());
    assert!(shm.contains("--shm-size=1g"), "{shm}");
}

trait ConcatWords {
    fn concat_words(&self) -> String;
}

impl ConcatWords for Vec<Phrase> {
    fn concat_words(&self) -> String {
        self.iter().map(|one| format!("{one}\n")).collect()
    }
}

#[test]
fn a_reading_of_long_ago_names_nobody() {
    let mut scene = StagedSession::training();
    scene.add(10.0, host(31.6, 24.0));
    scene.add(270.0, killed(1, &[100]));
    scene.add(270.2, exited(1, Exit::Signal(9)));
    let findings = diagnose(&scene.state);
    assert_eq!(findings[0].cause, Cause::HostMemory);
    assert!(findings[0].evidence.is_empty());
}

#[test]
fn growth_is_a_warning_while_the_run_goes_on() {
    let mut scene = StagedSession::training();
    for n in 0..120 {
        let used = 10.0 + f64::from(n) / 10.0;
        scene.add(2.0 + 5.0 * f64::from(n), host(used, used - 6.0));
    }
    let found = warnings(&scene.state, &FittedGrowth::default());
    let [warning] = &found[..] else {
        panic!("{found:#?}");
    };
    assert_eq!(warning.cause, Cause::HostMemory);
    assert_eq!(
        warning.headline.as_str(),
        "RAM is filling up: 21.9 GiB of 32.0 GiB, growing 1.20 GiB a minute: 4 data loader workers; full in about 8 minutes."
    );
    let mut once = LiveWarnings::default();
    assert_eq!(once.look(&scene.state).len(), 1);
    scene.add(620.0, host(22.0, 16.0));
    assert_eq!(once.look(&scene.state), []);
}

#[test]
fn a_recording_that_stops_where_the_memory_was_nearly_gone_names_who_filled_it() {
    let mut scene = StagedSession::training();
    scene.add(10.0, host(12.0, 6.0));
    scene.add(69.5, host(31.6, 24.0));
    assert!(
        diagnose(&scene.state).is_empty(),
        "the session may be running"
    );
    let mut over = scene.state.clone();
    assert!(over.breaks_off());
    assert_eq!(
        over.run().map(|run| run.outcome()),
        Some(RunOutcome::OutOfMemory)
    );
    let found = diagnose(&over);
    let [finding] = &found[..] else {
        panic!("{found:#?}");
    };
    assert_eq!(
        (finding.cause, finding.certainty),
        (Cause::HostWorkers, Certainty::Likely)
    );
    assert!(
        finding.explanation.contains("memory.oom.group"),
        "{finding:#?}"
    );
    assert!(over.breaks_off(), "a second time it is the same");
    assert_eq!(over.run().map(|run| run.ooms.len()), Some(1));

    scene.add(80.0, host(12.0, 6.0));
    assert!(!scene.state.breaks_off(), "there is room again");
    scene.add(81.0, host(31.6, 24.0));
    scene.add(81.5, exited(1, Exit::Signal(9)));
    assert!(!scene.state.breaks_off(), "it has an end");
}

#[test]
fn a_bus_error_with_a_full_shm_is_told_by_both_and_not_without_either() {
    let with = |used: u64, exit: Exit| {
        let mut scene = StagedSession::training();
        let EventKind::HostMemory(mut memory) = host(12.0, 6.0) else {
            unreachable!("it is one");
        };
        memory.shm = Some(ShmUse {
            used: Bytes::mib(used),
            size: Bytes::mib(64),
        });
        scene.add(30.0, EventKind::HostMemory(memory));
        scene.add(70.2, exited(1, exit));
        let found = diagnose(&scene.state);
        found.first().map(|finding| finding.cause)
    };
    assert_eq!(with(63, Exit::Signal(7)), Some(Cause::SharedMemory));
    assert_eq!(with(63, Exit::Code(135)), Some(Cause::SharedMemory));
    assert_eq!(with(30, Exit::Signal(7)), None);
    assert_eq!(with(63, Exit::Signal(11)), None);
}

/// Workers that grow at one rate for ten minutes; with an epoch that begins after this many seconds.
fn leaking_workers(epoch: Option<f64>) -> StagedSession {
    let mut scene = StagedSession::training();
    for n in 0..120 {
        let (at, used) = (2.0 + 5.0 * f64::from(n), 10.0 + f64::from(n) / 6.0);
        if let Some(begins) = epoch.filter(|begins| (*begins - at).abs() < 2.5) {
            let number = 2;
            scene.add(begins, EventKind::Epoch(Epoch { number }));
        }
        scene.add(at, host(used, used - 6.0));
    }
    scene
}

fn killed_leaking() -> StagedSession {
    let mut scene = leaking_workers(Some(400.0));
    scene.add(600.0, host(31.8, 25.8));
    scene.add(600.5, killed(1, &[100]));
    scene.add(600.7, exited(1, Exit::Signal(9)));
    scene
}

fn broken_off() -> StagedSession {
    let mut scene = StagedSession::training();
    scene.add(10.0, host(12.0, 6.0));
    scene.add(69.5, host(31.6, 24.0));
    scene.add(70.0, EventKind::Epoch(Epoch { number: 3 }));
    scene.state.breaks_off();
    scene
}

#[test]
fn a_leak_of_ram_is_certain_once_an_epoch_has_not_ended_it_or_not_told() {
    let warned = |scene: &StagedSession| {
        let found = warnings(&scene.state, &FittedGrowth::default());
        let first = found.first().expect("a warning");
        (first.cause, first.certainty, first.headline.to_string())
    };
    let (cause, certainty, headline) = warned(&leaking_workers(Some(400.0)));
    assert_eq!((cause, certainty), (Cause::HostLeak, Certainty::Certain));
    assert!(
        headline.contains("RAM leak: 4 data loader workers grow by 2."),
        "{headline}"
    );
    let (cause, certainty, _) = warned(&leaking_workers(None));
    // It may be a cache of the data set, which ends with the first epoch.
    assert_eq!((cause, certainty), (Cause::HostMemory, Certainty::Likely));

    let mut scene = leaking_workers(None);
    scene.add(600.5, killed(1, &[100]));
    scene.add(600.7, exited(1, Exit::Signal(9)));
    assert_eq!(diagnose(&scene.state)[0].cause, Cause::HostWorkers);
}

#[test]
fn growth_that_slows_down_is_no_leak() {
    let mut scene = StagedSession::training();
    for n in 0..120 {
        let used = 10.0 + 18.0 * (1.0 - (-f64::from(n) / 40.0).exp());
        if n == 80 {
            scene.add(402.0, EventKind::Epoch(Epoch { number: 2 }));
        }
        scene.add(2.0 + 5.0 * f64::from(n), host(used, used - 6.0));
    }
    assert_eq!(scene.state.host_leak(), None);
}

/// 9 of 32 GiB are in use: what was refused was too large by itself, and nobody has filled the RAM.
#[test]
fn who_holds_little_is_not_named_for_an_allocation_that_was_refused() {
    let refused = |used| {
        let mut scene = StagedSession::training();
        let report = OomReport {
            kind: OomKind::HostOom,
            sign: Some(OomSign::Refused),
            requested: Some(gib(59.6)),
            ..OomReport::default()
        };
        scene
            .add(69.5, host(used, 1.0))
            .add(70.0, EventKind::OomText(report))
            .add(70.2, exited(1, Exit::Code(1)));
        diagnose(&scene.state).remove(0)
    };
    let early = refused(9.0);
    assert_eq!(early.cause, Cause::HostMemory);
    assert!(
        early.explanation.contains("Nothing was killed"),
        "{early:#?}"
    );
    assert_eq!(refused(31.0).cause, Cause::HostProcess);
}
