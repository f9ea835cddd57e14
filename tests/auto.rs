//! `--on-oom auto`, end to end: the real binary without a screen, the real probe in a real python3, a
//! simulated GPU, and each cause that memory runs out of.

use crate::harness::at_home;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use oomph::event::{Event, EventKind};
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/demo/train.py");

/// A state directory, and the recordings in it.
struct Place(TempDir);

/// How a session ended and what it recorded.
struct Session {
    output: Output,
    events: Vec<Event>,
}

impl Place {
    fn new() -> Place {
        Place(TempDir::new().expect("a directory"))
    }

    fn recording(&self) -> PathBuf {
        self.0.path().join("events.jsonl")
    }

    /// The demo under a name that nobody knows, so that no argument for accumulation is known.
    fn unknown_program(&self) -> PathBuf {
        let program = self.0.path().join("trainer.py");
        let text = format!("import runpy\nrunpy.run_path({DEMO:?}, run_name='__main__')\n");
        std::fs::write(&program, text).expect("a program");
        program
    }

    /// The same without an argument for accumulation.
    fn program_without_accumulation(&self) -> PathBuf {
        let program = self.unknown_program();
        let text = std::fs::read_to_string(&program).expect("a program");
        let without = "import argparse
declare = argparse.ArgumentParser.add_argument
def declare_others(self, *words, **more):
    return self.set_defaults(grad_accum=1) if '--grad-accum' in words else declare(self, *words, **more)
argparse.ArgumentParser.add_argument = declare_others
";
        std::fs::write(&program, format!("{without}{text}")).expect("a program");
        program
    }

    fn command(&self, options: &[&str], demo: &[&str]) -> Command {
        self.command_of(DEMO.as_ref(), options, demo)
    }

    fn command_of(&self, program: &Path, options: &[&str], demo: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_oomph"));
        command
            .args(["--headless", "--no-nvml", "--on-oom", "auto", "--record"])
            .arg(self.recording())
            .args(options)
            .arg("python3")
            .arg(program)
            .arg("--simulated")
            .args(demo)
            .env("OOMPH_SIMULATED_SPEED", "4")
            .stdin(Stdio::null());
        at_home(&mut command, self.0.path());
        command
    }

    fn events(&self) -> Vec<Event> {
        oomph::recording::read(&self.recording())
            .expect("a recording")
            .collect::<Result<_, _>>()
            .expect("only events")
    }
}

fn session(options: &[&str], demo: &[&str]) -> Session {
    let place = Place::new();
    let output = place.command(options, demo).output().expect("oomph runs");
    let events = place.events();
    Session { output, events }
}

impl Session {
    fn commands(&self) -> Vec<String> {
        let started = self.events.iter().filter_map(|event| match &event.what {
            EventKind::Started(started) => Some(started.command.shown()),
            _ => None,
        });
        started.collect()
    }

    fn notes(&self) -> Vec<&str> {
        let notes = self.events.iter().filter_map(|event| match &event.what {
            EventKind::Note(note) => Some(note.text.as_str()),
            _ => None,
        });
        notes.collect()
    }

    fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    /// What was refused and why, and that it stands in the recording as well.
    fn is_refused(&self, why: &str) {
        let stderr = self.stderr();
        assert!(!self.output.status.success(), "{stderr}");
        assert!(stderr.contains("not relaunched: "), "{stderr}");
        assert!(stderr.contains(why), "{stderr}");
        let noted = |note: &&str| {
            note.starts_with("auto: ") && note.contains("not relaunched") && note.contains(why)
        };
        assert!(self.notes().iter().any(noted), "{:?}", self.notes());
    }
}

#[test]
fn what_does_not_fit_is_relaunched_with_a_smaller_batch() {
    let session = session(
        &[],
        &["--batch-size", "64", "--grad-accum", "1", "--steps", "6"],
    );
    let (commands, stderr) = (session.commands(), session.stderr());
    assert!(session.output.status.success(), "{stderr}");
    assert_eq!(commands.len(), 2, "{commands:?}");
    assert!(commands[1].contains("--batch-size 32 --grad-accum 2"));
    assert!(
        stderr.contains("oomph: run 1 ran out of memory"),
        "{stderr}"
    );
    let told = |note: &&str| note.contains("relaunching with smaller batch");
    assert!(session.notes().iter().any(told), "{:?}", session.notes());
}

#[test]
fn fragmentation_is_relaunched_with_expandable_segments_and_held_to_its_prediction() {
    let session = session(
        &[],
        &[
            "--batch-size",
            "64",
            "--grad-accum",
            "1",
            "--steps",
            "60",
            "--scenario",
            "fragmentation",
        ],
    );
    let (commands, stderr) = (session.commands(), session.stderr());
    assert!(session.output.status.success(), "{stderr}");
    assert_eq!(commands.len(), 2, "{commands:?}");
    assert!(commands[1].contains("expandable_segments:True"));
    let predicted = session.events.iter().find_map(|event| match &event.what {
        EventKind::Started(started) => started.predicted_peak,
        _ => None,
    });
    assert!(predicted.is_some());
    let told = |note: &&str| note.starts_with("auto: run 2: peak ");
    assert!(session.notes().iter().any(told), "{:?}", session.notes());
}

#[test]
fn a_leak_is_not_relaunched() {
    let demo = [
        "--batch-size",
        "64",
        "--grad-accum",
        "1",
        "--scenario",
        "leak",
    ];
    let session = session(&[], &demo);
    session.is_refused("memory leaks");
    assert_eq!(session.commands().len(), 1);
    assert_eq!(session.output.status.code(), Some(1));
}

#[test]
fn an_evaluation_that_keeps_its_graphs_is_refused_in_the_end() {
    let demo = [
        "--batch-size",
        "64",
        "--grad-accum",
        "1",
        "--scenario",
        "eval",
    ];
    let session = session(&[], &demo);
    session.is_refused("evaluation keeps its graphs");
    assert!(session.commands().len() <= 2, "{:?}", session.commands());
}

/// A training that goes on from a checkpoint which does not fit beside its model, on the simulated GPU.
const RESUMES: &str = "\
import os, sys
sys.path.insert(0, SIMULATED)
import torch
from torch import nn

def resume(model, path):
    state = torch.load(path)
    model.load_state_dict(state['model'])
    return state

model = nn.Sequential(*(nn.Linear(4096, 4096) for _ in range(4))).to('cuda')
if not os.path.exists('state.pt'):
    torch.save({'model': model.state_dict(), 'step': 4}, 'state.pt')
state = resume(model, 'state.pt')
if '--uses-it' in sys.argv and state['model']['0.weight'].device.type != 'cuda':
    raise RuntimeError('Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!')
print('resumed')
";

fn resumed(words: &[&str]) -> Session {
    let place = Place::new();
    let simulated = concat!(env!("CARGO_MANIFEST_DIR"), "/demo/simulated");
    let text = RESUMES.replace("SIMULATED", &format!("{simulated:?}"));
    std::fs::write(place.0.path().join("resume.py"), text).expect("a program");
    let mut command = Command::new(env!("CARGO_BIN_EXE_oomph"));
    command
        .args(["--headless", "--no-nvml", "--on-oom", "auto", "--record"])
        .arg(place.recording())
        .args(["python3", "resume.py"])
        .args(words)
        .current_dir(place.0.path())
        .env("OOMPH_SIMULATED_CARD_GIB", "0.9")
        .stdin(Stdio::null());
    let output = at_home(&mut command, place.0.path()).output();
    Session {
        output: output.expect("oomph runs"),
        events: place.events(),
    }
}

#[test]
fn a_checkpoint_goes_to_the_cpu_and_what_that_saves_is_held_against_what_was_predicted() {
    let session = resumed(&[]);
    let (commands, stderr) = (session.commands(), session.stderr());
    assert!(session.output.status.success(), "{stderr}");
    assert_eq!(commands.len(), 2, "{commands:?}");
    assert!(commands[1].starts_with("OOMPH_PATCHES=load=cpu "));
    let met =
        "loading the checkpoint came to 256 MiB, as predicted; 256 MiB went to RAM, as predicted";
    assert!(stderr.contains(&format!("oomph: run 2: {met}")), "{stderr}");
    assert!(session.notes().contains(&&*format!("as chosen, {met}")));
    let outcome = session.events.iter().find_map(|event| match &event.what {
        EventKind::PredictionOutcome(outcome) => outcome.relief,
        _ => None,
    });
    assert!(outcome.is_some_and(|relief| relief.allocated.is_some()));
}

#[test]
fn a_device_error_behind_a_checkpoint_on_the_cpu_undoes_that_and_is_said() {
    let session = resumed(&["--uses-it"]);
    let commands = session.commands();
    assert_eq!(commands.len(), 2, "{commands:?}");
    session.is_refused("no remedy is predicted to fit");
    let undone = |note: &&str| {
        note.starts_with("torch.load to the CPU was undone; the program said: RuntimeError")
    };
    assert!(session.notes().iter().any(undone), "{:?}", session.notes());
}

#[test]
fn in_wsl2_nothing_is_relaunched_by_itself() {
    let place = Place::new();
    let mut command = place.command(
        &[],
        &["--batch-size", "64", "--grad-accum", "1", "--steps", "6"],
    );
    let output = command.env("WSL_DISTRO_NAME", "Ubuntu").output();
    let session = Session {
        output: output.expect("oomph runs"),
        events: place.events(),
    };
    assert_eq!(session.commands().len(), 1);
    session.is_refused("this is WSL2");
}

#[test]
fn what_changes_the_training_needs_a_word() {
    // Without an argument for accumulation the effective batch would change.
    let session = |options: &[&str]| {
        let place = Place::new();
        let program = place.program_without_accumulation();
        let demo = ["--batch-size", "64", "--steps", "6"];
        let mut command = place.command_of(&program, options, &demo);
        let output = command.output().expect("oomph runs");
        let events = place.events();
        Session { output, events }
    };
    session(&[]).is_refused("--allow effective-batch");
    let allowed = session(&["--allow", "effective-batch"]);
    assert!(allowed.output.status.success(), "{}", allowed.stderr());
    assert!(allowed.commands()[1].contains("--batch-size 32"));
}

#[test]
fn an_argument_for_accumulation_that_nobody_typed_keeps_the_effective_batch() {
    let place = Place::new();
    let program = place.unknown_program();
    let demo = ["--batch-size", "64", "--steps", "6"];
    let mut command = place.command_of(&program, &[], &demo);
    let output = command.output().expect("oomph runs");
    let session = Session {
        output,
        events: place.events(),
    };
    assert!(session.output.status.success(), "{}", session.stderr());
    assert!(session.commands()[1].contains("--batch-size 32 --steps 6 --grad-accum 2"));
}

#[test]
fn a_run_that_ends_well_hears_nothing() {
    let session = session(
        &[],
        &["--batch-size", "8", "--steps", "3", "--scenario", "none"],
    );
    assert!(session.output.status.success());
    assert_eq!(session.stderr(), "");
    assert_eq!(session.commands().len(), 1);
}

#[test]
fn the_number_of_relaunches_is_bounded() {
    let demo = ["--batch-size", "64", "--grad-accum", "1", "--steps", "6"];
    let session = session(&["--max-relaunches", "0"], &demo);
    session.is_refused("relaunched 0 times already");
    assert_eq!(session.commands().len(), 1);
}

#[test]
fn a_run_that_was_stopped_stays_stopped() {
    let place = Place::new();
    let mut command = place.command(
        &[],
        &[
            "--batch-size",
            "8",
            "--steps",
            "100000",
            "--scenario",
            "none",
        ],
    );
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("oomph runs");
    // The second line comes when the model is made: then the run is under way.
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    lines.next().expect("a line").expect("text");
    lines.next().expect("a line").expect("text");
    kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).expect("sent");
    for line in lines {
        line.expect("text");
    }
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.signal(), Some(15));
    let events = place.events();
    let session = Session { output, events };
    assert_eq!(session.commands().len(), 1);
}

/// A message of an older log.
const QUOTED: &str = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.20 GiB. GPU 0 has a total capacity of \
    23.60 GiB of which 312.00 MiB is free. Including non-PyTorch memory, this process has 23.29 GiB memory in use. Of the \
    allocated memory 22.60 GiB is allocated by PyTorch, and 190.00 MiB is reserved by PyTorch but unallocated.";

impl Session {
    /// It failed as itself: nothing was relaunched, and the OOM is told as one that may have been.
    #[track_caller]
    fn is_no_oom(&self, why: &str) {
        let stderr = self.stderr();
        assert_eq!(self.commands().len(), 1, "{stderr}");
        assert!(!stderr.contains("ran out of memory"), "{stderr}");
        assert!(!stderr.contains("not relaunched"), "{stderr}");
        let mut told = stderr
            .lines()
            .filter(|line| line.starts_with("oomph: possibly memory ran out"));
        let line = told.next().unwrap_or_else(|| panic!("{stderr}"));
        assert!(line.contains(why), "{stderr}");
        assert_eq!(told.next(), None, "{stderr}");
    }
}

#[test]
fn a_quoted_oom_is_not_this_runs() {
    let trains = format!(
        "import runpy, sys\nquoted = {QUOTED:?}\nrunpy.run_path({DEMO:?}, run_name='__main__')\n"
    );
    let fails = "raise ValueError('of its own')\n";
    let before = trains.replace(
        "runpy.run_path",
        "print(quoted, flush=True)\nrunpy.run_path",
    );
    // A buffer that is written at the end comes after the steps, as does a log that is shown then.
    let after = format!("{trains}print(quoted, flush=True)\n");
    let demo = ["--batch-size", "16", "--grad-accum", "1", "--steps", "12"];
    for (program, why) in [
        (before, "training went on after it"),
        (after, "the probe saw none"),
    ] {
        let place = Place::new();
        let path = place.0.path().join("trainer.py");
        std::fs::write(&path, format!("{program}{fails}")).expect("a program");
        let mut command = place.command_of(&path, &["--allow", "effective-batch"], &demo);
        let output = command.output().expect("oomph runs");
        let events = place.events();
        assert_eq!(output.status.code(), Some(1));
        let session = Session { output, events };
        assert!(session.stderr().contains("ValueError: of its own"));
        session.is_no_oom(why);
    }
}

/// A hint, or an older log, in the output of a program that fails before it has a step, on the same stream or the other.
#[test]
fn a_hint_of_one_before_another_error_is_not_this_runs() {
    let hint = "hint: on 'CUDA out of memory. Tried to allocate 2.00 GiB' lower --batch-size";
    let log = "Traceback (most recent call last):\n  File \"old.py\", line 1, in <module>\n\
               torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.";
    for (quoted, stream, error) in [
        (hint, "stdout", "raise KeyError('val')"),
        (hint, "stderr", "raise KeyError('val')"),
        (log, "stderr", "open('/nowhere/at/all')"),
    ] {
        let place = Place::new();
        let path = place.0.path().join("trainer.py");
        let program = format!("import sys\nprint({quoted:?}, file=sys.{stream})\n{error}\n");
        std::fs::write(&path, program).expect("a program");
        let mut command = place.command_of(
            &path,
            &["--allow", "effective-batch"],
            &["--batch-size", "64"],
        );
        let output = command.output().expect("oomph runs");
        let events = place.events();
        assert_eq!(output.status.code(), Some(1));
        let session = Session { output, events };
        session.is_no_oom("the program's last error is another one");
    }
}

/// A shell says "Killed" of it, which is no word of memory.
#[test]
fn a_child_that_somebody_killed_is_no_oom() {
    let killed = script("timeout -s KILL 0.2 sleep 60; echo $?; sh -c 'kill -9 $$'; echo $?");
    assert_eq!(killed.output.status.code(), Some(0));
    let stderr = killed.stderr();
    assert!(stderr.contains("Killed"), "{stderr}");
    assert!(!stderr.contains("memory"), "{stderr}");
    assert_eq!(killed.commands().len(), 1, "{stderr}");
}

/// A session of a shell script.
fn script(script: &str) -> Session {
    let place = Place::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_oomph"));
    command
        .args([
            "--headless",
            "--no-nvml",
            "--on-oom",
            "auto",
            "--allow",
            "effective-batch",
            "--record",
        ])
        .arg(place.recording())
        .args(["sh", "-c", script])
        .env("OOMPH_SIMULATED_SPEED", "4")
        .stdin(Stdio::null());
    at_home(&mut command, place.0.path());
    let output = command.output().expect("oomph runs");
    let events = place.events();
    Session { output, events }
}

#[test]
fn an_oom_that_a_script_shows_or_makes_good_is_not_its_end() {
    let train = |batch: u32| format!("python3 {DEMO} --simulated --batch-size {batch} --steps 15");
    let shown = script(&format!("echo '{QUOTED}'; {}; exit 3", train(16)));
    assert_eq!(shown.output.status.code(), Some(3));
    shown.is_no_oom("training went on after it");
    let again = script(&format!(
        "{} 2>/dev/null || {}; kill -9 $$",
        train(64),
        train(16)
    ));
    assert_eq!(again.output.status.signal(), Some(9));
    again.is_no_oom("training went on after it");
}

/// The file of `--summary`, a value a line.
fn summaries(place: &Place) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(place.0.path().join("summary.jsonl")).unwrap_or_default();
    let lines = text.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().expect("a line is JSON")
}

#[test]
fn a_sweeps_driver_reads_one_line_of_what_was_done() {
    let place = Place::new();
    let file = place.0.path().join("summary.jsonl");
    let options = ["--summary", file.to_str().expect("text")];
    for batch in ["64", "8"] {
        let demo = ["--batch-size", batch, "--grad-accum", "1", "--steps", "6"];
        let output = place.command(&options, &demo).output().expect("oomph runs");
        assert!(output.status.success(), "{output:?}");
    }
    let lines = summaries(&place);
    assert_eq!(lines.len(), 2, "a line a session");
    let [relaunched, plain] = [&lines[0], &lines[1]];
    assert_eq!(relaunched["outcome"], "finished");
    assert_eq!(
        (&relaunched["status"], &relaunched["relaunches"]),
        (&0.into(), &1.into())
    );
    assert_eq!(
        (&relaunched["batch"], &relaunched["accumulation"]),
        (&32.into(), &2.into())
    );
    let runs = relaunched["runs"].as_array().expect("runs");
    assert_eq!(runs[0]["outcome"], "out_of_memory");
    assert_eq!(runs[1]["remedies"], serde_json::json!(["smaller batch"]));
    // By an estimate.
    assert_eq!(runs[1]["predicted"]["fits"], serde_json::Value::Null);
    assert!(runs[1]["peak"].as_u64() > Some(1 << 30), "{relaunched}");
    assert_eq!(
        (&plain["batch"], &plain["relaunches"]),
        (&8.into(), &0.into())
    );
}

/// `scontrol` is a stand-in that writes down what it was asked: no SLURM is here.
#[test]
fn a_job_whose_time_is_too_short_is_requeued_and_goes_on_with_the_remedy() {
    let place = Place::new();
    let bin = place.0.path().join("bin");
    std::fs::create_dir(&bin).expect("a directory");
    let asked = place.0.path().join("asked");
    let script = format!("#!/bin/sh\necho \"$@\" >> {}\n", asked.display());
    let scontrol = bin.join("scontrol");
    std::fs::write(&scontrol, script).expect("a script");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&scontrol, mode).expect("a mode");
    let path = format!(
        "{}:{}",
        bin.display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let summary = place.0.path().join("summary.jsonl");
    let ends = std::time::SystemTime::now() + std::time::Duration::from_secs(600);
    let ends = ends
        .duration_since(std::time::UNIX_EPOCH)
        .expect("a time")
        .as_secs();
    let start = |restart: u32, options: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_oomph"));
        command
            .args([
                "--headless",
                "--no-nvml",
                "--on-oom",
                "auto",
                "--min-time",
                "1h",
                "--summary",
            ])
            .arg(&summary)
            .args(options)
            .args([
                "python3",
                DEMO,
                "--simulated",
                "--batch-size",
                "64",
                "--grad-accum",
                "1",
                "--steps",
                "6",
            ])
            .env("OOMPH_SIMULATED_SPEED", "4")
            .env("PATH", &path)
            .env("SLURM_JOB_ID", "4711")
            .env("SLURM_RESTART_COUNT", restart.to_string())
            .env("SLURM_JOB_END_TIME", ends.to_string())
            .stdin(Stdio::null());
        at_home(&mut command, place.0.path());
        command.output().expect("oomph runs")
    };
    let told = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let calls = || std::fs::read_to_string(&asked).unwrap_or_default();
    // Without the word for it, nothing is begun and nothing requeued.
    let refused = start(0, &[]);
    assert!(!refused.status.success());
    assert!(
        told(&refused).contains("not relaunched: the job ends in "),
        "{}",
        told(&refused)
    );
    assert_eq!(calls(), "");
    let requeued = start(0, &["--requeue"]);
    assert!(
        told(&requeued).contains("it is requeued with the remedy"),
        "{}",
        told(&requeued)
    );
    assert_eq!(calls(), "requeue 4711\n");
    // As SLURM starts the script again.
    let went_on = start(1, &["--requeue"]);
    assert!(went_on.status.success(), "{}", told(&went_on));
    assert!(
        told(&went_on).contains("starting with smaller batch"),
        "{}",
        told(&went_on)
    );
    let lines = summaries(&place);
    assert_eq!(
        (&lines[1]["requeued"], &lines[1]["outcome"]),
        (&true.into(), &"out_of_memory".into())
    );
    assert_eq!(
        (&lines[2]["outcome"], &lines[2]["batch"]),
        (&"finished".into(), &32.into())
    );
    assert_eq!(
        lines[2]["runs"].as_array().map(Vec::len),
        Some(1),
        "no run was wasted"
    );
    // Twice is enough.
    let enough = start(2, &["--requeue"]);
    assert!(
        told(&enough).contains("not relaunched: the job ends in "),
        "{}",
        told(&enough)
    );
    assert_eq!(calls(), "requeue 4711\n");
}
