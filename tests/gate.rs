//! The relaunch gate, end to end: a made-up NVML and a stand-in torch that share a device, the real
//! binary in a real terminal between them.

use crate::fake_nvml::Fake;
use crate::harness::{Stranger, Terminal, wait_until};
use oomph::event::{EventKind, Exit};
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

const TORCH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/probe/torch_stub");
const PATIENCE: Duration = Duration::from_secs(60);
/// The stand-in's first device, as NVML names it.
const DEVICE: &str = "uuid 0 GPU-00000000-1111-2222-3333-444444444444\n";

/// Fills the device in proportion to its batch, once it may: 64 does not fit, 32 does.
const PROGRAM: &str = "\
import os, sys, time, torch
batch = int(sys.argv[sys.argv.index('--batch-size') + 1])
torch.cuda.init()
print('training', flush=True)
may_fill = os.path.join(os.path.dirname(sys.argv[0]), 'may_fill')
while not os.path.exists(may_fill): time.sleep(0.01)
kept = [torch.empty(20 << 20) for _ in range(batch)]
print('finished', flush=True)
";

struct Session {
    directory: TempDir,
    terminal: Terminal,
}

impl Session {
    fn start(nvml: Option<&Fake>) -> Session {
        let directory = TempDir::new().expect("a directory");
        let program = directory.path().join("train.py");
        std::fs::write(&program, PROGRAM).expect("a program");
        let record = format!(
            "--record={}",
            directory.path().join("events.jsonl").display()
        );
        let mut argv = vec![env!("CARGO_BIN_EXE_oomph").to_string(), record];
        let mut env = vec![("PYTHONPATH", TORCH.to_string())];
        match nvml {
            Some(fake) => env.push(("OOMPH_NVML_LIBRARY", fake.library().display().to_string())),
            None => argv.push("--no-nvml".into()),
        }
        let words = [
            "python3",
            program.to_str().expect("text"),
            "--batch-size",
            "64",
        ];
        argv.extend(words.map(String::from));
        let env: Vec<(&str, &str)> = env
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        let terminal = Terminal::spawn(&argv, &env, 40, 120);
        Session {
            directory,
            terminal,
        }
    }

    /// Lets the program fill the device, of which NVML says this from now on. What a device has in use before a rank is known
    /// is taken for what it had at first.
    fn fill(&self, nvml: &Fake, then: &str) {
        wait_until("the rank is known", PATIENCE, || {
            let mut events = oomph::recording::read(&self.recording())
                .into_iter()
                .flatten();
            events.any(|event| event.is_ok_and(|event| matches!(event.what, EventKind::Hello(_))))
        });
        nvml.say(&format!("{DEVICE}{then}"));
        self.may_fill();
    }

    fn may_fill(&self) {
        std::fs::write(self.directory.path().join("may_fill"), "").expect("a file");
    }

    fn recording(&self) -> PathBuf {
        self.directory.path().join("events.jsonl")
    }

    fn runs(&self) -> usize {
        oomph::recording::read(&self.recording())
            .expect("a recording")
            .filter(
                |event| matches!(event, Ok(event) if matches!(event.what, EventKind::Started(_))),
            )
            .count()
    }
}

#[test]
fn the_next_run_waits_until_the_memory_is_back() {
    let nvml = Fake::new();
    nvml.say(&format!("{DEVICE}used 0 100000000\n"));
    let mut session = Session::start(Some(&nvml));
    session.terminal.wait_for("training", PATIENCE);
    // The driver goes on charging what the dead process had, and less is free than the next one may want.
    session.fill(&nvml, "used 0 25100000000\n");
    session.terminal.wait_for("Space combine", PATIENCE);
    session.terminal.press("b");
    session.terminal.wait_for("has 23.4 GiB in use", PATIENCE);
    assert_eq!(session.runs(), 1, "nothing is started meanwhile");

    nvml.say(&format!("{DEVICE}used 0 110000000\n"));
    session.terminal.wait_for("run 2", PATIENCE);
    assert_eq!(session.terminal.exit(PATIENCE), Exit::Code(0));
    assert_eq!(session.runs(), 2);
}

/// A neighbour on a shared device may take what it likes, as long as there is room beside it.
#[test]
fn a_neighbour_that_grew_meanwhile_holds_up_nothing_where_there_is_room() {
    let nvml = Fake::new();
    nvml.say(&format!("{DEVICE}used 0 100000000\n"));
    let mut session = Session::start(Some(&nvml));
    session.terminal.wait_for("training", PATIENCE);
    session.fill(&nvml, "used 0 9000000000\n");
    session.terminal.wait_for("Space combine", PATIENCE);
    session.terminal.press("b");
    session.terminal.wait_for("run 2", PATIENCE);
    assert_eq!(session.terminal.exit(PATIENCE), Exit::Code(0));
    assert_eq!(session.runs(), 2);
}

#[test]
fn a_holder_is_named_and_never_touched() {
    let nvml = Fake::new();
    let mut stranger = Stranger::start();
    let pid = stranger.0.id();
    nvml.say(&format!("{DEVICE}used 0 100000000\n"));
    let mut session = Session::start(Some(&nvml));
    session.terminal.wait_for("training", PATIENCE);
    let held = format!("holds 0 {pid} 24000000000\nused 0 100000000\n");
    session.fill(&nvml, &held);
    session.terminal.wait_for("Space combine", PATIENCE);
    session.terminal.press("b");
    let waiting = session.terminal.wait_for(&pid.to_string()[..], PATIENCE);
    assert!(waiting.contains("uses"), "{waiting}");
    session.terminal.press("q");
    session.terminal.exit(PATIENCE);
    assert_eq!(stranger.0.try_wait().expect("asked"), None, "still alive");
}

#[test]
fn without_nvml_the_gate_says_so_and_opens_after_a_while() {
    let mut session = Session::start(None);
    session.may_fill();
    session.terminal.wait_for("Space combine", PATIENCE);
    session.terminal.press("b");
    session.terminal.wait_for("without NVML: waiting", PATIENCE);
    session.terminal.wait_for("run 2", PATIENCE);
    assert_eq!(session.terminal.exit(PATIENCE), Exit::Code(0));
}
