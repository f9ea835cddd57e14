//! Remedies where the host's memory ran out: by the program's flags, by their numbers, and in DataLoader itself.

use super::known_of;
use crate::command::CommandLine;
use crate::diagnosis::{Cause, Finding, diagnose};
use crate::event::{EventKind, Exit, HostMemory, LoaderSettings, ProcessHost};
use crate::oom::{OomKind, OomReport, OomSign};
use crate::recognize::text::{ProgramSource, ProgramText, SourceRole};
use crate::remedy::{Availability, Plan, Remedy, RemedyId, in_loaders, remedies};
use crate::state::tests::host::{host, killed};
use crate::state::tests::staged::{StagedSession, exited, hello, started};
use crate::units::{Bytes, Pid};

fn loader() -> LoaderSettings {
    LoaderSettings {
        workers: 8,
        prefetch: Some(4),
        batch: Some(64),
        pin_memory: true,
        persistent: true,
        ..LoaderSettings::default()
    }
}

/// A run of this command that the kernel killed, with workers that held most; `loader` as its probe had seen it.
fn ran(words: &str, loader: Option<LoaderSettings>) -> StagedSession {
    let mut scene = StagedSession::default();
    scene
        .add(0.0, started(1, 100, words))
        .add(1.0, hello(1, 100, None));
    if let Some(loader) = loader {
        let said = ProcessHost {
            pid: Pid(100),
            loaders: Some(vec![loader]),
            ..ProcessHost::default()
        };
        scene.add(2.0, EventKind::ProcessHost(Box::new(said)));
    }
    scene.add(69.5, host(31.6, 24.0));
    scene.add(70.0, killed(1, &[100]));
    scene.add(70.2, exited(1, Exit::Signal(9)));
    scene
}

fn offers(scene: &StagedSession, findings: &[Finding]) -> (CommandLine, Vec<Remedy>) {
    let command = scene.state.run().unwrap().command.clone();
    let inputs = known_of(scene, findings);
    let remedies = remedies(&command, &inputs);
    (command, remedies)
}

/// The command with one remedy, or why it is not offered.
#[track_caller]
fn with(scene: &StagedSession, id: RemedyId) -> Result<String, String> {
    let (command, remedies) = offers(scene, &diagnose(&scene.state));
    let remedy = remedies.iter().find(|remedy| remedy.id == id).unwrap();
    match &remedy.availability {
        Availability::NotOffered(why) => Err(why.to_string()),
        Availability::Offered => Ok(Plan::new(&command, &[remedy]).command.shown()),
    }
}

use RemedyId::{DataloaderWorkers, PersistentWorkers, PinMemory, PrefetchFactor, SharingStrategy};

#[test]
fn a_flag_is_changed_where_the_program_has_it() {
    for (words, id, changed) in [
        (
            "python t.py --num-workers 8",
            DataloaderWorkers,
            "python t.py --num-workers 4",
        ),
        (
            "python t.py --prefetch_factor=4",
            PrefetchFactor,
            "python t.py --prefetch_factor=2",
        ),
        (
            "python t.py --dataloader_prefetch_factor 2",
            PrefetchFactor,
            "python t.py --dataloader_prefetch_factor 1",
        ),
        (
            "python t.py --pin-mem --lr 1",
            PinMemory,
            "python t.py --lr 1",
        ),
        (
            "python t.py --dataloader_pin_memory True",
            PinMemory,
            "python t.py --dataloader_pin_memory False",
        ),
        (
            "python t.py data.persistent_workers=true",
            PersistentWorkers,
            "python t.py data.persistent_workers=false",
        ),
    ] {
        assert_eq!(
            with(&ran(words, None), id).as_deref(),
            Ok(changed),
            "{words}"
        );
    }
}

/// `--workers` may be of anything, unless a DataLoader was seen with its number.
#[test]
fn a_flag_without_a_known_name_is_found_by_its_number() {
    let scene = ran("python t.py --workers 8 --threads 2", Some(loader()));
    assert_eq!(
        with(&scene, DataloaderWorkers).as_deref(),
        Ok("python t.py --workers 4 --threads 2")
    );
    let scene = ran("python t.py --workers 6", Some(loader()));
    let patched = with(&scene, DataloaderWorkers).unwrap();
    assert!(patched.contains("OOMPH_PATCHES=workers=4"), "{patched}");
    let why = with(&ran("python t.py --workers 8", None), DataloaderWorkers).unwrap_err();
    assert!(why.contains("does not set"), "{why}");
}

#[test]
fn without_a_flag_dataloader_itself_is_given_other_arguments() {
    let scene = ran("python t.py", Some(loader()));
    for (id, patch) in [
        (DataloaderWorkers, "workers=4"),
        (PrefetchFactor, "prefetch=2"),
        (PinMemory, "pin_memory=off"),
        (PersistentWorkers, "persistent_workers=off"),
    ] {
        let command = with(&scene, id).unwrap();
        assert_eq!(command, format!("OOMPH_PATCHES={patch} python t.py"));
    }
    let (command, remedies) = offers(&scene, &diagnose(&scene.state));
    let chosen: Vec<&Remedy> = remedies
        .iter()
        .filter(|remedy| remedy.is_offered() && remedy.id.is_of_host())
        .collect();
    let together = Plan::new(&command, &chosen).command.shown();
    assert_eq!(
        together,
        "OOMPH_PATCHES=workers=4,prefetch=2,pin_memory=off,persistent_workers=off python t.py"
    );
}

#[test]
fn what_a_loader_does_not_do_is_not_switched_off() {
    let plain = LoaderSettings {
        workers: 2,
        prefetch: Some(1),
        iterable: true,
        ..LoaderSettings::default()
    };
    let scene = ran("python t.py", Some(plain));
    for (id, why) in [
        (DataloaderWorkers, "IterableDataset"),
        (PrefetchFactor, "fetches one"),
        (PinMemory, "no DataLoader pins memory"),
        (PersistentWorkers, "no DataLoader keeps its workers"),
        (SharingStrategy, "named files take as much of /dev/shm"),
    ] {
        let said = with(&scene, id).unwrap_err();
        assert!(said.contains(why), "{id:?}: {said}");
    }
}

#[test]
fn named_files_help_where_descriptors_ran_out_and_nowhere_else() {
    let failed = |sign| {
        let mut scene = StagedSession::default();
        scene
            .add(0.0, started(1, 100, "python t.py"))
            .add(1.0, hello(1, 100, None));
        let report = OomReport {
            kind: OomKind::HostOom,
            sign: Some(sign),
            ..OomReport::default()
        };
        scene.add(9.0, EventKind::OomText(report));
        scene.add(9.5, exited(1, Exit::Code(1)));
        scene
    };
    let scene = failed(OomSign::Descriptors);
    assert_eq!(diagnose(&scene.state)[0].cause, Cause::OpenFiles);
    let (_, remedies) = offers(&scene, &diagnose(&scene.state));
    assert_eq!(remedies[0].id, SharingStrategy, "the first of all");
    assert_eq!(
        with(&scene, SharingStrategy).as_deref(),
        Ok("OOMPH_PATCHES=sharing=file_system python t.py")
    );
    assert!(with(&failed(OomSign::SharedMemory), SharingStrategy).is_err());
}

#[test]
fn a_relaunched_loader_shows_whether_it_has_what_was_chosen() {
    let scene = ran("python t.py", Some(loader()));
    let (_, all) = offers(&scene, &diagnose(&scene.state));
    let applied: Vec<Remedy> = all.into_iter().filter(Remedy::is_offered).collect();
    let now = |workers, pin_memory| LoaderSettings {
        workers,
        pin_memory,
        prefetch: Some(2),
        persistent: false,
        ..loader()
    };
    let said = in_loaders(&applied, &[loader()], &[now(4, true)]);
    let words: Vec<&str> = said
        .iter()
        .map(|words| words.as_deref().unwrap_or_else(|why| why))
        .collect();
    assert_eq!(
        words,
        [
            "DataLoader workers: 4, before 8",
            "prefetch_factor: 2, before 4",
            "DataLoaders that pin memory: still 1",
            "DataLoaders that keep their workers: 0, before 1",
        ]
    );
    assert_eq!(said.iter().filter(|words| words.is_err()).count(), 1);
    assert!(in_loaders(&applied, &[], &[now(4, true)]).is_empty());
}

/// What is changed on the GPU leaves the RAM as it is; a smaller batch makes what waits in it smaller.
#[test]
fn no_remedy_of_the_gpu_is_offered_for_the_hosts_memory() {
    let ids = |scene: &StagedSession| -> Vec<RemedyId> {
        let (_, remedies) = offers(scene, &diagnose(&scene.state));
        remedies.iter().map(|remedy| remedy.id).collect()
    };
    let words = "python t.py --batch-size 64 --num-workers 8";
    let by_workers = ids(&ran(words, Some(loader())));
    for id in [
        RemedyId::Batch,
        RemedyId::ExpandableSegments,
        RemedyId::Amp,
        RemedyId::Recompute,
    ] {
        assert!(!by_workers.contains(&id), "{id:?}");
    }
    assert_eq!(by_workers.first(), Some(&DataloaderWorkers));
    let mut queue = StagedSession::default();
    queue
        .add(0.0, started(1, 100, words))
        .add(1.0, hello(1, 100, None));
    let said = ProcessHost {
        pid: Pid(100),
        loaders: Some(vec![loader()]),
        ..ProcessHost::default()
    };
    queue.add(2.0, EventKind::ProcessHost(Box::new(said)));
    let EventKind::HostMemory(memory) = host(31.6, 2.0) else {
        panic!("a reading");
    };
    let memory = HostMemory {
        shared: Some(Bytes::gib(24)),
        ..*memory
    };
    queue.add(69.5, EventKind::HostMemory(Box::new(memory)));
    queue.add(70.0, killed(1, &[100]));
    queue.add(70.2, exited(1, Exit::Signal(9)));
    let findings = diagnose(&queue.state);
    assert_eq!(findings[0].cause, Cause::PrefetchQueue);
    let (_, remedies) = offers(&queue, &findings);
    let batch = remedies.iter().find(|remedy| remedy.id == RemedyId::Batch);
    let expectation = &batch.expect("it makes each batch smaller").expectation;
    assert_eq!(expectation.fits, None);
    assert!(
        expectation
            .words
            .to_string()
            .contains("24.0 GiB of shared memory was in use"),
        "{}",
        expectation.words
    );
}

/// Batches of this size wait; 16 GiB of 32 are used besides them.
fn waits(scene: &mut StagedSession, prefetch: u32, batch: Option<Bytes>) {
    let said = ProcessHost {
        pid: Pid(100),
        loaders: Some(vec![LoaderSettings {
            prefetch: Some(prefetch),
            ..loader()
        }]),
        ..ProcessHost::default()
    };
    let from = scene.state.now.as_secs_f64() + 1.0;
    scene.add(from, EventKind::ProcessHost(Box::new(said)));
    let EventKind::HostMemory(memory) = host(31.6, 2.0) else {
        panic!("a reading");
    };
    let memory = HostMemory {
        shared: Some(Bytes(memory.used.0 - Bytes::gib(16).0)),
        batch,
        ..*memory
    };
    scene.add(from + 60.0, EventKind::HostMemory(Box::new(memory)));
}

#[test]
fn as_many_batches_are_fetched_in_advance_as_fit_by_the_figures() {
    let command = |prefetch| format!("python t.py --prefetch-factor {prefetch}");
    let queue = |prefetch: u32, batch| {
        let mut scene = StagedSession::default();
        scene
            .add(0.0, started(1, 100, &command(prefetch)))
            .add(1.0, hello(1, 100, None));
        waits(&mut scene, prefetch, batch);
        let at = scene.state.now.as_secs_f64();
        scene.add(at + 0.5, killed(1, &[100]));
        scene.add(at + 0.7, exited(1, Exit::Signal(9)));
        scene
    };
    // 12.8 GiB are left for 8 workers' batches.
    for (prefetch, batch, fits) in [
        (16, Some(Bytes::mib(128)), 12),
        (16, Some(Bytes::mib(512)), 3),
        (4, Some(Bytes::mib(1)), 3),
        (16, Some(Bytes::gib(2)), 1),
        (16, None, 8),
    ] {
        let scene = queue(prefetch, batch);
        assert_eq!(with(&scene, PrefetchFactor), Ok(command(fits)), "{batch:?}");
    }
    let scene = queue(16, Some(Bytes::mib(128)));
    let (_, remedies) = offers(&scene, &diagnose(&scene.state));
    let words = remedies.iter().find(|remedy| remedy.id == PrefetchFactor);
    assert_eq!(
        words.unwrap().expectation.words.to_string(),
        "likely fits: needs 28.0 GiB of RAM, 4.00 GiB to spare; 8 workers × 12 batches of 128 MiB"
    );
}

/// The figures were wrong once: what is left is halved.
#[test]
fn a_second_kill_halves_what_the_figures_allow() {
    let mut scene = StagedSession::default();
    for (run, prefetch) in [(1, 16), (2, 12)] {
        let at = scene.state.now.as_secs_f64() + 1.0;
        let command = format!("python t.py --prefetch-factor {prefetch}");
        scene
            .add(at, started(run, 100, &command))
            .add(at + 1.0, hello(run, 100, None));
        waits(&mut scene, prefetch, Some(Bytes::mib(128)));
        let at = scene.state.now.as_secs_f64();
        scene.add(at + 0.5, killed(u64::from(run), &[100]));
        scene.add(at + 0.7, exited(run, Exit::Signal(9)));
    }
    assert_eq!(
        with(&scene, PrefetchFactor).as_deref(),
        Ok("python t.py --prefetch-factor 6")
    );
}

/// A killed process tells nothing of its arguments; the program's text says which one has the number.
#[test]
fn a_default_becomes_an_added_argument() {
    let source = |declared: &str| ProgramSource {
        path: "/t.py".into(),
        text: format!(
            "import argparse\np = argparse.ArgumentParser()\n{declared}\na = p.parse_args()\n"
        ),
        role: SourceRole::Script,
    };
    let with_text = |declared: &str, words: &str| {
        let text = ProgramText::read(&[source(declared)], &[]);
        let scene = ran(words, Some(loader()));
        let findings = diagnose(&scene.state);
        let command = scene.state.run().unwrap().command.clone();
        let mut inputs = known_of(&scene, &findings);
        inputs.launch.text = Some(&text);
        let remedies = remedies(&command, &inputs);
        let remedy = remedies
            .iter()
            .find(|remedy| remedy.id == DataloaderWorkers);
        Plan::new(&command, &[remedy.unwrap()]).command.shown()
    };
    let one = "p.add_argument('--workers', type=int, default=8)";
    assert_eq!(with_text(one, "python t.py"), "python t.py --workers 4");
    let named = "p.add_argument('--num-workers', type=int, default=8)";
    assert_eq!(
        with_text(named, "python t.py --lr 1"),
        "python t.py --lr 1 --num-workers 4"
    );
    // Another number than the loader had, or two that have it: DataLoader's own argument is changed.
    let patched = "OOMPH_PATCHES=workers=4 python t.py";
    let other = "p.add_argument('--workers', type=int, default=16)";
    assert_eq!(with_text(other, "python t.py"), patched);
    let two = format!("{one}\np.add_argument('--threads', type=int, default=8)");
    assert_eq!(with_text(&two, "python t.py"), patched);
}

/// What half of the workers need, by what all of them held: a bound where they still grew, a figure where they copy what one
/// parent has.
#[test]
fn fewer_workers_say_what_they_need_of_ram() {
    let words = |scene: &StagedSession| {
        let (_, remedies) = offers(scene, &diagnose(&scene.state));
        let remedy = remedies
            .iter()
            .find(|remedy| remedy.id == DataloaderWorkers);
        let remedy = remedy.expect("it is there").clone();
        (remedy.expectation.words.to_string(), remedy.expectation)
    };
    let (said, expectation) = words(&ran("python t.py --num-workers 8", Some(loader())));
    // 7.6 GiB of others, and half of 24.0 GiB.
    assert_eq!(
        said,
        "may not fit: needs at least 19.6 GiB of 32.0 GiB of RAM; each worker has room for 2.0 times what it held"
    );
    let ram = expectation.prediction().and_then(|said| said.ram);
    assert!(ram.is_some_and(|ram| ram.at_least), "{ram:?}");

    // Workers that share nothing of what they hold, of which nothing is known but a bound.
    let EventKind::HostMemory(mut memory) = host(31.6, 24.0) else {
        unreachable!("it is one");
    };
    for role in &mut memory.roles {
        role.exact = false;
    }
    let mut scene = StagedSession::default();
    scene
        .add(0.0, started(1, 100, "python t.py --num-workers 8"))
        .add(1.0, hello(1, 100, None))
        .add(69.5, EventKind::HostMemory(memory))
        .add(70.0, killed(1, &[100]))
        .add(70.2, exited(1, Exit::Signal(9)));
    assert_eq!(words(&scene).0, "unknown: each worker uses host memory");
}

/// What each worker copied of its parent is not in what it is seen to hold, and half of it goes with half of them.
#[test]
fn fewer_workers_that_copy_are_a_bound_and_never_said_not_to_fit() {
    let mut scene = StagedSession::default();
    scene
        .add(0.0, started(1, 100, "python t.py --num-workers 8"))
        .add(1.0, hello(1, 100, None));
    for (at, used) in [(10.0, 8.0), (69.5, 31.0)] {
        let EventKind::HostMemory(mut memory) = host(used, 1.0) else {
            unreachable!("it is one");
        };
        for role in &mut memory.roles {
            let is_worker = role.role.is_worker();
            role.held = Bytes::gib(if is_worker { 1 } else { 7 });
            role.mapped = Bytes::gib(if is_worker { 28 } else { 7 });
        }
        scene.add(at, EventKind::HostMemory(memory));
    }
    scene
        .add(70.0, killed(1, &[100]))
        .add(70.2, exited(1, Exit::Signal(9)));
    let findings = diagnose(&scene.state);
    assert_eq!(findings[0].cause, Cause::WorkerCopies, "{findings:#?}");
    let (_, remedies) = offers(&scene, &findings);
    let remedy = remedies
        .iter()
        .find(|remedy| remedy.id == DataloaderWorkers);
    // 7 GiB of others, and half of the 23 GiB that were copied and of the 1 GiB that they held before.
    assert_eq!(
        remedy.expect("it is there").expectation.words.to_string(),
        "may not fit: needs at least 19.0 GiB of 32.0 GiB of RAM; each worker has room for 2.1 times what it held"
    );
}
