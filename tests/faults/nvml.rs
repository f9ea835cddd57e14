//! E: a driver's library that is missing, wrong, slow, or out of its mind.

use crate::fake_nvml::{Fake, Lacking};
use crate::faults::staging::{Scene, Training, wait_for_beats};
use crate::harness::{PATIENCE, wait_until};
use oomph::event::{DeviceReading, EventKind, Exit, NvmlState};
use std::path::Path;

const SUCCESS: Exit = Exit::Code(0);

fn scene(library: &Path) -> Scene {
    let scene = Scene::new().without("--no-nvml");
    scene.env("OOMPH_NVML_LIBRARY", library.display().to_string())
}

/// A training on the screen, with this library, that waits.
fn shown(scene: Scene) -> Training {
    let mut training = scene.screen(&["shout", "until:go"]);
    training.terminal().wait_for("<<HERE>>", PATIENCE);
    training
}

fn states(training: &Training) -> Vec<NvmlState> {
    let state = |event: oomph::event::Event| match event.what {
        EventKind::Nvml(state) => Some(state),
        _ => None,
    };
    training.events().into_iter().filter_map(state).collect()
}

/// Waits for a reading that fits.
#[track_caller]
fn wait_reading(training: &Training, what: &str, fits: impl Fn(&DeviceReading) -> bool) {
    wait_until(what, PATIENCE, || {
        training
            .events()
            .iter()
            .any(|event| matches!(&event.what, EventKind::Device(reading) if fits(reading)))
    });
}

#[test]
fn fault_63_a_library_that_is_missing_wrong_or_refuses() {
    let missing = tempfile::tempdir().expect("a directory");
    let missing = missing.path().join("libnvidia-ml.so.1");
    let refusing = |code: u32| {
        let fake = Fake::new();
        fake.say(&format!("error init {code}"));
        fake
    };
    let fakes = [
        refusing(9),
        refusing(18),
        refusing(999),
        Fake::lacking(Lacking::Init),
    ];
    let mut libraries: Vec<_> = fakes.iter().map(Fake::library).collect();
    libraries.extend([missing, "/bin/sh".into(), "/dev/null".into()]);
    for library in libraries {
        let mut training = shown(scene(&library));
        wait_until("a reason", PATIENCE, || {
            states(&training).iter().any(|state| match state {
                NvmlState::Unavailable { reason } => !reason.is_empty() && !reason.contains('\n'),
                NvmlState::Live { .. } | NvmlState::Stale | NvmlState::Off => false,
            })
        });
        training.go();
        training.finish(SUCCESS);
    }
    // An old driver lacks a function: what it would have said is unknown, and all else is there.
    let old = Fake::lacking(Lacking::MemoryV2);
    let mut training = shown(scene(&old.library()));
    wait_reading(&training, "a reading", |reading| {
        reading.used.is_none() && reading.temperature.is_some()
    });
    training.go();
    training.finish(SUCCESS);
}

#[test]
fn fault_64_one_gpu_falls_off_the_bus() {
    let fake = Fake::new();
    fake.say("devices 2\nused 0 1000\nused 1 2000\n");
    let mut training = shown(scene(&fake.library()));
    wait_reading(&training, "both", |reading| {
        reading.index == 1 && reading.lost.is_none()
    });
    fake.say("devices 2\nused 0 5000000\nlost 1\n");
    wait_reading(&training, "the lost one", |reading| {
        reading.index == 1 && reading.lost.is_some()
    });
    let other = |reading: &DeviceReading| {
        reading.index == 0 && reading.used.is_some_and(|used| used.0 == 5_000_000)
    };
    wait_reading(&training, "the other goes on", other);
    training.go();
    training.finish(SUCCESS);
    assert_eq!(training.runs(), 1);
}

#[test]
fn fault_65_a_crash_in_the_driver_is_the_fronts_alone() {
    let fake = Fake::new();
    let mut training = shown(scene(&fake.library()).before("ulimit -c 0"));
    wait_reading(&training, "a reading", |_| true);
    fake.say("crash memory");
    assert_eq!(training.exit(), Exit::Signal(nix::libc::SIGSEGV));
    wait_until("the terminal is as it was", PATIENCE, || {
        training.terminal().left_behind().is_empty()
    });
    wait_for_beats(&training, 100_000);
    training.make("go");
    training.check();
}

#[test]
fn fault_65_a_driver_that_counts_four_thousand_million_processes() {
    let fake = Fake::new();
    fake.say("processes 4000000000\nused 0 1000\n");
    let mut training = shown(scene(&fake.library()));
    wait_reading(&training, "a reading all the same", |reading| {
        reading.used.is_some()
    });
    training.go();
    training.finish(SUCCESS);
}

#[test]
fn fault_66_a_call_that_hangs_holds_up_no_end() {
    for call in ["memory", "init", "shutdown", "processes"] {
        let fake = Fake::new();
        if call == "init" {
            fake.say("hang init");
        }
        let mut training = shown(scene(&fake.library()));
        fake.say(&format!("hang {call}"));
        training.go();
        let began = std::time::Instant::now();
        training.finish(SUCCESS);
        let taken = began.elapsed();
        assert!(taken.as_secs() < 10, "{call}: the end took {taken:?}");
    }
}

#[test]
fn fault_67_devices_that_come_go_and_change_their_names() {
    let fake = Fake::new();
    let mut training = shown(scene(&fake.library()));
    wait_reading(&training, "one", |_| true);
    let steps = [
        (
            "devices 3\nuuid 2 GPU-abcdabcd-0000-0000-0000-000000000001\n",
            "abcdabcd",
        ),
        (
            "devices 1\nuuid 0 GPU-ffffabcd-0000-0000-0000-000000000002\n",
            "ffffabcd",
        ),
        (
            "devices 2\nmig 0 2\nuuid 1 GPU-1234abcd-0000-0000-0000-000000000003\n",
            "1234abcd",
        ),
        ("devices 0\n", ""),
        (
            "devices 1\nuuid 0 GPU-9876abcd-0000-0000-0000-000000000004\n",
            "",
        ),
    ];
    for (words, _seen) in steps {
        fake.say(words);
        wait_for_beats(&training, 250_000);
    }
    training.go();
    training.finish(SUCCESS);
    for visible in [
        "",
        "-1",
        "GPU-00000000-0000-0000-0000-000000000000",
        "0,banana,,7",
        "MIG-nonsense",
    ] {
        let fake = Fake::new();
        let mut training = shown(scene(&fake.library()).env("CUDA_VISIBLE_DEVICES", visible));
        training.make("go");
        training.finish(SUCCESS);
    }
}

#[test]
fn fault_68_numbers_that_make_no_sense() {
    for words in [
        "total 0\nused 0 0\n",
        "total 1000\nreserved 0\nused 0 999999999999\n",
        "total 18446744073709551615\nreserved 18446744073709551615\nused 0 18446744073709551615\n",
        "busy 4000000000\nerror temperature 3\nerror power 3\nerror utilization 3\n",
        "error memory 3\nerror name 3\n",
        "process 0 2147483647\nprocess 0 4294967295 18446744073709551615\n",
    ] {
        let fake = Fake::new();
        fake.say(words);
        let mut training = shown(scene(&fake.library()));
        wait_for_beats(&training, 250_000);
        training.go();
        training.finish(SUCCESS);
    }
}
