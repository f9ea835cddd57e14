//! Being told: what the user's own command and the terminal get, and that none of it harms anybody.

use crate::harness::{Marker, PATIENCE, Terminal, processes, wait_until};
use oomph::event::Exit;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Instant;
use tempfile::TempDir;

const OOMPH: &str = env!("CARGO_BIN_EXE_oomph");

/// A program that runs out of memory at once.
const OUT_OF_MEMORY: &str = "echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. \
     GPU 0 has a total capacity of 23.60 GiB of which 1.12 GiB is free.' >&2; exit 3";

/// A user with settings of their own, who works in a project.
struct User(TempDir);

impl User {
    fn new(settings: &str) -> User {
        let user = User(TempDir::new().expect("a directory"));
        for directory in ["config/oomph", "home", "project"] {
            fs::create_dir_all(user.path(directory)).expect("a directory");
        }
        fs::write(user.path("config/oomph/oomph.toml"), settings).expect("settings");
        user
    }

    /// One whose command keeps what it is told in a file.
    fn who_keeps() -> User {
        let user = User::new("");
        let settings = format!(
            "notify = '''cat >> {}'''\n",
            user.path("told.jsonl").display()
        );
        fs::write(user.path("config/oomph/oomph.toml"), settings).expect("settings");
        user
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn environment(&self) -> Vec<(&'static str, String)> {
        let text = |name| self.path(name).display().to_string();
        vec![
            ("HOME", text("home")),
            ("XDG_CONFIG_HOME", text("config")),
            ("XDG_STATE_HOME", text("state")),
        ]
    }

    fn run(&self, arguments: &[&str], marker: &Marker) -> Output {
        Command::new(OOMPH)
            .args(arguments)
            .envs(self.environment())
            .env(processes::VARIABLE, marker.value())
            .current_dir(self.path("project"))
            .stdin(Stdio::null())
            .output()
            .expect("oomph runs")
    }

    /// What was told so far.
    fn told(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.path("told.jsonl")).unwrap_or_default();
        let lines = text.lines().map(serde_json::from_str);
        lines.collect::<Result<_, _>>().expect("lines of JSON")
    }

    /// The only news, once it has come.
    fn told_once(&self) -> Value {
        let is_there = || fs::read(self.path("told.jsonl")).is_ok_and(|told| told.ends_with(b"\n"));
        wait_until("news", PATIENCE, is_there);
        let mut told = self.told();
        assert_eq!(told.len(), 1, "{told:?}");
        told.remove(0)
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn an_oom_without_a_screen_is_told_to_the_users_command() {
    let user = User::who_keeps();
    let done = user.run(
        &["--no-nvml", "TOKEN=hunter2", "sh", "-c", OUT_OF_MEMORY],
        &Marker::unique(),
    );
    assert_eq!(done.status.code(), Some(3));
    let told = user.told_once();
    assert_eq!(told["event"], "oom");
    assert_eq!(
        (&told["next"], &told["exit_status"]),
        (&"ends".into(), &3.into())
    );
    assert_eq!(told["outcome"], "out of memory");
    let recording = told["recording"].as_str().expect("a recording");
    assert!(Path::new(recording).is_file(), "{recording}");
    assert!(told["session"].is_string() && told["host"].is_string());
    let words = told["text"].as_str().expect("text");
    assert!(words.contains("out of memory after 0:0"), "{words}");
    assert!(!told.to_string().contains("hunter2"), "{told}");
}

#[test]
fn short_sessions_that_end_otherwise_are_no_news() {
    let user = User::who_keeps();
    for code in ["0", "1"] {
        let exit = format!("exit {code}");
        let done = user.run(&["--no-nvml", "sh", "-c", &exit], &Marker::unique());
        assert_eq!(
            done.status.code().map(|code| code.to_string()).as_deref(),
            Some(code)
        );
        assert_eq!(
            (text(&done.stdout), text(&done.stderr)),
            ("".into(), "".into())
        );
    }
    assert_eq!(user.told(), [] as [Value; 0]);
}

/// A minute is 60 times shorter here.
#[test]
fn the_end_of_a_longer_session_is_told() {
    let user = User::who_keeps();
    let script = "sleep 1.2; exit 4";
    let done = user.run(
        &["--no-nvml", "--scaled", "60", "sh", "-c", script],
        &Marker::unique(),
    );
    assert_eq!(done.status.code(), Some(4));
    let told = user.told_once();
    assert_eq!(
        (&told["event"], &told["outcome"]),
        (&"end".into(), &"failed".into())
    );
    let words = told["text"].as_str().expect("text");
    // The run began a moment after the session, on a busy machine a long one.
    assert!(words.contains("ended with exit 4 after 0:0"), "{words}");
}

#[test]
fn a_projects_file_never_names_a_program() {
    let user = User::new("");
    let settings = format!("notify = 'touch {}'\n", user.path("harm").display());
    fs::write(user.path("project/oomph.toml"), settings).expect("settings");
    let recording = user.path("events.jsonl");
    let record = format!("--record={}", recording.display());
    let done = user.run(
        &["--no-nvml", &record, "sh", "-c", OUT_OF_MEMORY],
        &Marker::unique(),
    );
    assert_eq!(done.status.code(), Some(3));
    assert!(!user.path("harm").exists());
    let recorded = fs::read_to_string(recording).expect("a recording");
    assert!(
        recorded.contains("notify counts only in your own"),
        "{recorded}"
    );
}

/// It is ended with all that it has started, its output goes nowhere, and the session's own end, status
/// and output are as if it weren't there.
#[test]
fn a_command_that_hangs_or_babbles_harms_nothing() {
    let user = User::new(
        "notify = '''trap \"\" TERM HUP INT; echo babble; echo babble >&2; sleep 600 & sleep 600'''\n",
    );
    let marker = Marker::unique();
    let began = Instant::now();
    let done = user.run(
        &["--no-nvml", "--scaled", "60", "sh", "-c", OUT_OF_MEMORY],
        &marker,
    );
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
    assert_eq!(done.status.code(), Some(3));
    assert!(!text(&done.stdout).contains("babble") && !text(&done.stderr).contains("babble"));
    marker.wait_gone(PATIENCE);
}

#[test]
fn a_command_that_fails_is_named_in_the_events() {
    let user = User::new("notify = 'exit 7'\n");
    let recording = user.path("events.jsonl");
    let record = format!("--record={}", recording.display());
    // The program goes on until the failure is recorded.
    let script = format!(
        "({OUT_OF_MEMORY}); for again in $(seq 1200); do grep -q 'ended with exit 7' \"$0\" && exit 5; sleep 0.05; done"
    );
    let name = recording.display().to_string();
    let arguments = [
        "--no-nvml",
        "--scaled",
        "60",
        &record,
        "sh",
        "-c",
        &script,
        &name,
    ];
    let done = user.run(&arguments, &Marker::unique());
    assert_eq!(done.status.code(), Some(5), "{}", text(&done.stderr));
}

#[test]
fn a_terminal_rings_or_shows_it_only_where_asked() {
    for (arguments, sequence) in [
        (&["--alert=bell"][..], Some("\x07")),
        (&["--alert=osc9"], Some("\x1b]9;oomph on ")),
        (&["--alert=osc777"], Some("\x1b]777;notify;oomph on ")),
        (&[], None),
    ] {
        let user = User::new("");
        let mut words = vec![OOMPH, "--no-nvml", "--on-oom=exit"];
        words.extend(arguments);
        words.extend(["sh", "-c", OUT_OF_MEMORY]);
        let environment = user.environment();
        let environment: Vec<(&str, &str)> = environment
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        let mut terminal = Terminal::spawn(&words, &environment, 40, 120);
        assert_eq!(terminal.exit(PATIENCE), Exit::Code(3));
        let raw = text(&terminal.raw());
        let known = ["\x07", "\x1b]9;", "\x1b]777;"];
        match sequence {
            Some(sequence) => assert!(raw.contains(sequence), "{arguments:?}: {raw:?}"),
            None => assert!(known.iter().all(|known| !raw.contains(known)), "{raw:?}"),
        }
    }
}
