//! What a run is given: its standard input, once more for the next run; another oomph above it; places.

use crate::faults::staging::{OOMPH, Scene, Training, trainer};
use crate::harness::processes;
use oomph::event::Exit;
use std::fs;

const SUCCESS: Exit = Exit::Code(0);
const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/demo/train.py");

/// With six bytes in the file `input`, which `before` makes standard input.
fn given(before: &str) -> Scene {
    let scene = Scene::new()
        .option("--on-oom=auto")
        .option("--allow=effective-batch")
        .before(before);
    fs::write(scene.path("input"), "hello\n").expect("a file");
    scene
}

/// A training that counts what it reads, runs out of memory at a batch of 64, and not below.
fn counting(scene: Scene) -> Training {
    let script = scene.path("train.sh");
    let trainer = trainer().display().to_string();
    let text = format!("head -n 1 | wc -c >>seen; : >read; exec '{trainer}' \"$@\"\n");
    fs::write(&script, text).expect("a script");
    let script = script.display().to_string();
    scene.run_headless(&[
        "sh",
        &script,
        "--batch-size",
        "64",
        "beat",
        "oom-from:64",
        "touch:second",
    ])
}

#[test]
fn fault_97_the_next_run_finds_a_file_where_the_first_one_did() {
    for before in [
        "exec <input",
        // A here-document, which has no name any more.
        "exec 3<input; rm input; exec <&3 3<&-",
        // One that fits into a pipe.
        "exec <<END\nhello\nEND",
        // The shell has read the first line itself.
        "cat input input >two; exec <two; read -r first",
    ] {
        let mut training = counting(given(before));
        training.finish(SUCCESS);
        assert_eq!(training.runs(), 2, "{before}");
        let seen = training.file("seen");
        let seen: Vec<&str> = seen.split_whitespace().collect();
        assert_eq!(seen, ["6", "6"], "{before}");
    }
}

/// A pipe whose writer is there until the training has read.
const PIPE: &str =
    "mkfifo pipe; (cat input; while ! [ -e read ]; do sleep 0.01; done) >pipe & exec <pipe";

#[test]
fn fault_97_a_pipe_that_a_run_has_read_is_not_there_for_another() {
    let mut training = counting(given(PIPE));
    training.finish(Exit::Code(1));
    assert_eq!(training.runs(), 1);
    let said = String::from_utf8(training.output().1).expect("text");
    let refused =
        "oomph: not relaunched: another run would find its standard input, a pipe, already read";
    assert!(said.contains(refused), "{said}");
}

#[test]
fn fault_97_a_pipe_that_no_run_has_read_is_no_obstacle() {
    let scene = given(PIPE).words(&["--batch-size", "64", "touch:read"]);
    let mut training = scene.headless(&["oom-from:64", "touch:second"]);
    training.finish(SUCCESS);
    assert_eq!(training.runs(), 2);
}

#[test]
fn fault_97_a_program_from_a_pipe_is_kept_for_the_next_run() {
    for (more, exit, runs) in [(0, SUCCESS, 2), (2_000_000, Exit::Code(1), 1)] {
        let scene = given("mkfifo pipe; (cat program; sleep 0.1) >pipe & exec <pipe");
        let trainer = trainer().display().to_string();
        let program = format!(
            "import os, sys\nos.execv({trainer:?}, [{trainer:?}, *sys.argv[1:]])\n#{}\n",
            "#".repeat(more)
        );
        fs::write(scene.path("program"), program).expect("a program");
        let words = ["python3", "-", "--batch-size", "64", "beat"];
        let steps = ["oom-from:64", "touch:second"];
        let mut training = scene.run_headless(&[&words[..], &steps].concat());
        training.finish(exit);
        assert_eq!(training.runs(), runs);
        let notes = training.notes();
        assert!(notes.contains("is kept in memory, up to 1 MiB"), "{notes}");
        let said = String::from_utf8(training.output().1).expect("text");
        assert_eq!(said.contains("more than the 1 MiB"), runs == 1, "{said}");
    }
}

/// The next run finds nothing to do and says so by no status.
#[test]
fn fault_97_a_run_that_trains_nothing_after_one_that_tried_is_not_finished() {
    let scene = given("")
        .env("OOMPH_SIMULATED_SPEED", "8")
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let program = format!(
        "import os, sys\n\
         if os.path.exists('tried'):\n    sys.exit(0)\n\
         open('tried', 'w').close()\n\
         os.execv(sys.executable, [sys.executable, {DEMO:?}, *sys.argv[1:]])\n"
    );
    let path = scene.path("train.py");
    fs::write(&path, program).expect("a program");
    let path = path.display().to_string();
    let command = [
        "python3",
        &path,
        "--simulated",
        "--batch-size",
        "64",
        "--steps",
        "6",
    ];
    let mut training = scene.run_headless(&command);
    training.finish(SUCCESS);
    assert_eq!(training.runs(), 2);
    let said = String::from_utf8(training.output().1).expect("text");
    let not_finished = "oomph: run 2 ended with exit 0 without a training step";
    assert!(said.contains(not_finished), "{said}");
}

/// The sessions that left a directory.
fn sessions(training: &Training) -> usize {
    let sessions = training.path("state/oomph/sessions");
    fs::read_dir(sessions).map_or(0, |entries| entries.count())
}

#[test]
fn fault_105_below_another_oomph_only_the_outer_one_asks() {
    let trainer = trainer().display().to_string();
    for clean in ["", "env -i PATH=\"$PATH\" "] {
        // It would draw its own dialog, for keys that never come.
        let line =
            format!("{clean}'{OOMPH}' --no-nvml '{trainer}' --batch-size 64 beat oom-from:64");
        let scene = Scene::new().size(40, 160).option("--on-oom=exit");
        let mut training = scene.run_at_terminal(&["sh", "-c", &line]);
        training.finish(Exit::Code(1));
        let screen = training.terminal().screen();
        assert!(screen.contains("started below another oomph"), "{screen}");
        assert!(screen.contains("ran out of memory after"), "{screen}");
        assert_eq!((training.runs(), sessions(&training)), (1, 1), "{screen}");
    }
    // Its status is the command's, with pipes as well.
    let line = format!("'{OOMPH}' --no-nvml --record=inner.jsonl sh -c 'echo out; exit 7'");
    let mut training = Scene::new().run_headless(&["sh", "-c", &line]);
    training.finish(Exit::Code(7));
    let (out, err) = training.output();
    assert_eq!(out, b"out\n");
    let said = String::from_utf8(err).expect("text");
    assert!(said.contains("; not used here: --record"), "{said}");
    assert!(!training.path("inner.jsonl").exists());
}

/// A terminal that isn't the outer one's has its own reader: tmux, a notebook's shell.
#[test]
fn fault_105_on_a_terminal_of_its_own_an_oomph_is_its_own() {
    let inner = format!("'{OOMPH}' --headless --no-nvml true");
    let line = format!("script -qec \"{inner}\" /dev/null");
    let mut training = Scene::new().run_headless(&["sh", "-c", &line]);
    training.finish(SUCCESS);
    assert_eq!(sessions(&training), 2);
}

#[test]
fn fault_110_a_relative_state_directory_and_a_colon_in_the_other() {
    let scene = Scene::new().options(&["--no-nvml"]);
    let colon = scene.path("run:time");
    fs::create_dir(&colon).expect("a directory");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    fs::set_permissions(&colon, mode).expect("a mode");
    let scene = scene
        .env("OOMPH_STATE_DIR", "relative")
        .env("XDG_RUNTIME_DIR", colon.display().to_string());
    let mut training = scene
        .run_headless(&["sh", "-c", "echo \"$PYTHONPATH\" >path"])
        .elsewhere();
    training.finish(SUCCESS);
    let path = training.file("path");
    assert!(!path.trim().is_empty() && !path.contains(':'), "{path}");
    assert!(training.path("relative/oomph/sessions").is_dir());
    assert!(!processes::is_alive(training.front()));
}
