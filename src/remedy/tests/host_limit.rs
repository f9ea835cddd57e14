//! Limits of the host's memory that the command itself sets: raised to what was needed, or the reason why that is no help.

use super::known_of;
use crate::diagnosis::{Finding, diagnose};
use crate::event::{
    EventKind, Exit, HostKill, HostMemory, LimitedBy, LoaderSettings, ProcessHost, ShmUse,
};
use crate::oom::{OomKind, OomReport, OomSign};
use crate::remedy::{Availability, Plan, Remedy, RemedyId, remedies};
use crate::state::tests::host::{host, killed};
use crate::state::tests::staged::{StagedSession, exited, hello, started};
use crate::units::{Bytes, Pid};

/// What is read of the host: all of it, of 32 GiB.
fn reading(change: impl Fn(&mut HostMemory)) -> EventKind {
    let EventKind::HostMemory(mut memory) = host(31.6, 24.0) else {
        unreachable!("it is one");
    };
    change(&mut memory);
    EventKind::HostMemory(memory)
}

/// A run of this command that the kernel killed.
fn killed_at(words: &str, change: impl Fn(&mut HostMemory)) -> StagedSession {
    let mut scene = StagedSession::default();
    scene
        .add(0.0, started(1, 100, words))
        .add(1.0, hello(1, 100, None))
        .add(69.5, reading(change))
        .add(70.0, killed(1, &[100]))
        .add(70.2, exited(1, Exit::Signal(9)));
    scene
}

/// A run whose text says that the host's memory ran out; the processes that are seen here are these.
fn said(words: &str, sign: Option<OomSign>, change: impl Fn(&mut HostMemory)) -> StagedSession {
    let mut scene = StagedSession::default();
    let report = OomReport {
        kind: OomKind::HostOom,
        sign,
        ..OomReport::default()
    };
    scene
        .add(0.0, started(1, 100, words))
        .add(69.5, reading(change))
        .add(70.0, EventKind::OomText(report))
        .add(70.2, exited(1, Exit::Code(1)));
    scene
}

/// Only what starts the program is seen.
fn only(name: &str) -> impl Fn(&mut HostMemory) {
    move |memory| {
        for process in &mut memory.processes {
            process.name = name.into();
        }
        memory.limited_by = LimitedBy::Machine;
        memory.limit = Bytes::gib(64);
        memory.shm = Some(ShmUse {
            used: Bytes::mib(1),
            size: Bytes::gib(32),
        });
    }
}

fn offered(scene: &StagedSession, job: &[(&str, &str)]) -> Option<Remedy> {
    let findings: Vec<Finding> = diagnose(&scene.state);
    let command = scene.state.run().unwrap().command.clone();
    let environment: Vec<(String, String)> = job
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .collect();
    let mut inputs = known_of(scene, &findings);
    inputs.launch.environment = &environment;
    let mut all = remedies(&command, &inputs).into_iter();
    all.find(|remedy| remedy.id == RemedyId::HostLimit)
}

/// The command with it, or why it is not offered; `None` where it is not in the list.
fn with(scene: &StagedSession, job: &[(&str, &str)]) -> Option<Result<String, String>> {
    let command = scene.state.run().unwrap().command.clone();
    let remedy = offered(scene, job)?;
    Some(match &remedy.availability {
        Availability::NotOffered(why) => Err(why.to_string()),
        Availability::Offered => Ok(Plan::new(&command, &[&remedy]).command.shown()),
    })
}

#[track_caller]
fn assert_offers(scene: &StagedSession, job: &[(&str, &str)], expected: &str) {
    let found = with(scene, job).expect("it is in the list");
    match expected.strip_prefix("! ") {
        None => assert_eq!(found.as_deref(), Ok(expected)),
        Some(part) => {
            let why = found.expect_err("it is not offered");
            assert!(why.contains(part), "{why}");
        }
    }
}

/// 32 GiB were there, nothing is known to have grown, and a quarter more is asked for.
#[test]
fn the_limit_that_was_reached_is_raised_to_what_was_needed() {
    let by = |limited_by| move |memory: &mut HostMemory| memory.limited_by = limited_by;
    for (words, limited_by, expected) in [
        (
            "srun --mem=32G python t.py",
            LimitedBy::Slurm,
            "srun --mem=40G python t.py",
        ),
        (
            "srun --mem 32768 python t.py",
            LimitedBy::Slurm,
            "srun --mem 40960 python t.py",
        ),
        (
            "srun -c8 --mem-per-cpu=4G python t.py",
            LimitedBy::Slurm,
            "srun -c8 --mem-per-cpu=5G python t.py",
        ),
        (
            "salloc --mem-per-gpu=16G srun python t.py",
            LimitedBy::Slurm,
            "salloc --mem-per-gpu=20G srun python t.py",
        ),
        (
            "systemd-run --scope -p MemoryMax=32G python t.py",
            LimitedBy::Systemd,
            "systemd-run --scope -p MemoryMax=40G python t.py",
        ),
        (
            "podman run -m 32g --memory-swap=34g img python t.py",
            LimitedBy::Container,
            "podman run -m 40g --memory-swap=42g img python t.py",
        ),
        // Of several the one that was reached.
        (
            "srun --mem=64G podman run -m32g img python t.py",
            LimitedBy::Container,
            "srun --mem=64G podman run -m40g img python t.py",
        ),
        (
            "srun --mem=16G python t.py",
            LimitedBy::Slurm,
            "! RAM ran out at 32.0 GiB (the SLURM job's limit), not at --mem 16G",
        ),
        (
            "systemd-run --scope -p MemoryMax=48G python t.py",
            LimitedBy::Machine,
            "! RAM ran out at 32.0 GiB (all RAM of this machine), not at -p MemoryMax=48G",
        ),
        (
            "srun --mem=0 python t.py",
            LimitedBy::Slurm,
            "! --mem 0 is no limit that could be raised",
        ),
    ] {
        assert_offers(&killed_at(words, by(limited_by)), &[], expected);
    }
    // Nothing in it sets a limit: there is only advice.
    assert_eq!(with(&killed_at("python t.py", |_| ()), &[]), None);
}

#[test]
fn a_raised_limit_says_what_it_is_to_hold() {
    let scene = killed_at(
        "systemd-run --scope -p MemoryMax=32G python t.py",
        |memory| {
            memory.limited_by = LimitedBy::Systemd;
        },
    );
    let remedy = offered(&scene, &[]).unwrap();
    assert_eq!(remedy.changes, "-p MemoryMax 32G→40G");
    assert_eq!(
        remedy.expectation.words.to_string(),
        "may not fit: needs at least 32.0 GiB of 40.0 GiB of RAM"
    );
}

/// A SLURM step has no more than its job, and nothing more than its machine.
#[test]
fn what_cannot_be_raised_is_said() {
    let slurm = |memory: &mut HostMemory| memory.limited_by = LimitedBy::Slurm;
    let step = killed_at("srun --mem=32G python t.py", slurm);
    let job = [("SLURM_JOB_ID", "771")];
    let within = |memory| [job[0], ("SLURM_MEM_PER_NODE", memory)];
    assert_offers(&step, &within("65536"), "srun --mem=40G python t.py");
    // No room for a margin, but for what was needed.
    assert_offers(&step, &within("35840"), "srun --mem=34G python t.py");
    assert_offers(
        &step,
        &within("32768"),
        "! SLURM job 771 has 32.0 GiB on a node, and 40.0 GiB would be asked for",
    );
    assert_offers(
        &step,
        &job,
        "! whether that has more memory on a node is not known",
    );
    let each = [
        job[0],
        ("SLURM_MEM_PER_CPU", "8192"),
        ("SLURM_CPUS_ON_NODE", "8"),
    ];
    assert_offers(&step, &each, "srun --mem=40G python t.py");
    let unit = |machine| {
        killed_at(
            "systemd-run --scope -p MemoryMax=32G python t.py",
            move |memory| {
                memory.limited_by = LimitedBy::Systemd;
                memory.machine = Some(Bytes::gib(machine));
            },
        )
    };
    assert_offers(
        &unit(64),
        &[],
        "systemd-run --scope -p MemoryMax=40G python t.py",
    );
    assert_offers(
        &unit(36),
        &[],
        "systemd-run --scope -p MemoryMax=34G python t.py",
    );
    assert_offers(&unit(33), &[], "! this machine has 33.0 GiB of RAM");
}

/// The figures are of the machine that starts it, and say nothing of it.
#[test]
fn what_runs_where_oomph_sees_nothing_is_given_twice_as_much_and_no_figures() {
    for (words, name, expected) in [
        (
            "docker run --memory=8g img python t.py",
            "docker",
            "docker run --memory=16g img python t.py",
        ),
        (
            "docker run --memory=40g img python t.py",
            "docker",
            "docker run --memory=50g img python t.py",
        ),
        (
            "docker run --memory=60g img python t.py",
            "docker",
            "! this machine has 64.0 GiB of RAM",
        ),
        // The node has what it has: SLURM says so if it is too much.
        (
            "srun --mem=60G python t.py",
            "srun",
            "srun --mem=120G python t.py",
        ),
        (
            "srun --mem-per-cpu=2G python t.py",
            "srun",
            "srun --mem-per-cpu=4G python t.py",
        ),
    ] {
        let scene = said(words, None, only(name));
        assert_offers(&scene, &[], expected);
        let found = diagnose(&scene.state).remove(0);
        assert!(found.evidence.is_empty(), "{words}: {found:#?}");
        assert!(
            found.explanation.contains("does not see"),
            "{}",
            found.explanation
        );
    }
    let scene = said("docker run -m 8g img python t.py", None, only("docker"));
    let remedy = offered(&scene, &[]).unwrap();
    assert_eq!(
        remedy.expectation.words.to_string(),
        "unknown: -m 8g was not enough, and what it needs cannot be seen from here"
    );
}

#[test]
fn a_container_is_given_a_larger_dev_shm() {
    let full = |words, change: fn(&mut HostMemory)| {
        said(words, Some(OomSign::SharedMemory), move |memory| {
            only("docker")(memory);
            change(memory);
        })
    };
    let nothing: fn(&mut HostMemory) = |_| ();
    for (words, expected) in [
        (
            "docker run --gpus all img python t.py",
            "docker run --shm-size=8g --gpus all img python t.py",
        ),
        (
            "docker run --shm-size=64m img python t.py",
            "docker run --shm-size=8192m img python t.py",
        ),
        (
            "docker run --shm-size 16g img python t.py",
            "docker run --shm-size 32g img python t.py",
        ),
        ("docker run --ipc=host img python t.py", "! --ipc=host"),
        (
            "docker run -v /dev/shm:/dev/shm img python t.py",
            "! /dev/shm is mounted",
        ),
        (
            "docker run -m 4g img python t.py",
            "! 8.00 GiB of /dev/shm would be asked for, which counts against -m 4g",
        ),
    ] {
        assert_offers(&full(words, nothing), &[], expected);
    }
    assert_eq!(with(&full("python t.py", nothing), &[]), None);
    // In sight, and a batch's size is known: 8 workers fetch 4 of 128 MiB each.
    let mut scene = StagedSession::default();
    scene
        .add(
            0.0,
            started(1, 100, "podman run --shm-size=64m img python t.py"),
        )
        .add(1.0, hello(1, 100, None));
    let loader = LoaderSettings {
        workers: 8,
        prefetch: Some(4),
        ..LoaderSettings::default()
    };
    let known = ProcessHost {
        pid: Pid(100),
        loaders: Some(vec![loader]),
        ..ProcessHost::default()
    };
    let report = OomReport {
        kind: OomKind::HostOom,
        sign: Some(OomSign::SharedMemory),
        requested: Some(Bytes::mib(128)),
        ..OomReport::default()
    };
    scene
        .add(2.0, EventKind::ProcessHost(Box::new(known)))
        .add(69.5, reading(|_| ()))
        .add(70.0, EventKind::OomText(report))
        .add(70.2, exited(1, Exit::Code(1)));
    assert_offers(&scene, &[], "podman run --shm-size=5120m img python t.py");
    assert_eq!(
        offered(&scene, &[]).unwrap().expectation.words.to_string(),
        "unknown: at least 4.00 GiB of /dev/shm was needed"
    );
}

/// What the kernel has killed in a container that is in sight is told of it.
#[test]
fn a_kill_that_was_seen_is_of_the_program() {
    let scene = killed_at("podman run -m 32g img python t.py", |_| ());
    let kill = scene.state.oom().and_then(|oom| oom.kill());
    assert!(kill.is_some_and(|kill: &HostKill| !kill.gone.is_empty()));
    let found = diagnose(&scene.state).remove(0);
    assert!(
        found.explanation.contains("4 data loader workers"),
        "{}",
        found.explanation
    );
}
