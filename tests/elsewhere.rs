//! Sessions of another machine that shares the state directory: they are listed, watched and read by
//! their files, and nothing acts on them. Two machines are two runtime directories here, and another
//! name in what the session tells of itself; `tests/cluster` has real nodes.

use crate::harness::{Marker, PATIENCE, Terminal, processes, wait_until};
use nix::sys::signal::Signal;
use oomph::event::Exit;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

const OOMPH: &str = env!("CARGO_BIN_EXE_oomph");
const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/demo/train.py");

/// A training of some seconds on a machine with other things to do.
const A_RUN: Duration = Duration::from_secs(120);

const NODE: &str = "run-node";
const LOGIN: &str = "run-login";

struct Cluster {
    home: TempDir,
    marker: Marker,
}

impl Cluster {
    fn new() -> Cluster {
        let home = TempDir::new().expect("a directory");
        for name in ["state", NODE, LOGIN] {
            fs::create_dir(home.path().join(name)).expect("a directory");
        }
        Cluster {
            home,
            marker: Marker::unique(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn environment(&self, runtime: &str) -> Vec<(&'static str, String)> {
        let path = |name| self.path(name).display().to_string();
        vec![
            ("OOMPH_STATE_DIR", path("state")),
            ("OOMPH_RUNTIME_DIR", path(runtime)),
            ("HOME", path("")),
            ("TZ", "UTC".into()),
            (processes::VARIABLE, self.marker.value().into()),
        ]
    }

    fn command(&self, runtime: &str, words: &[&str]) -> Command {
        let mut command = Command::new(OOMPH);
        command
            .args(words)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .envs(self.environment(runtime))
            .current_dir(self.home.path())
            .stdin(Stdio::null());
        command
    }

    fn ask(&self, words: &[&str]) -> Output {
        let output = self.command(LOGIN, words).output();
        output.expect("oomph runs")
    }

    fn said(&self, words: &[&str]) -> String {
        let output = self.ask(words);
        assert!(output.status.success(), "{words:?}: {output:?}");
        text(&output.stdout)
    }

    fn refusal(&self, words: &[&str]) -> String {
        let output = self.ask(words);
        assert_eq!(output.status.code(), Some(125), "{words:?}: {output:?}");
        text(&output.stderr)
    }

    fn ls(&self) -> Vec<Value> {
        serde_json::from_str(&self.said(&["ls", "--json"])).expect("a list")
    }

    /// Starts a session with this job in the environment, and gives it to the machine `gpu-7`; returns its
    /// ID.
    fn start(&self, job: &[(&str, &str)], words: &[&str]) -> String {
        let begun = self
            .command(NODE, &["--headless", "--no-nvml"])
            .args(words)
            .envs(job.iter().copied())
            // Of what goes to /dev/null no log is kept.
            .stdout(fs::File::create(self.path("slurm.out")).expect("a file"))
            .stderr(Stdio::null())
            .spawn();
        // Its end is waited for by its files.
        drop(begun.expect("oomph runs"));
        let mut told = None;
        wait_until("the session tells where it runs", PATIENCE, || {
            let sessions = fs::read_dir(self.path("state/oomph/sessions"));
            let mut sessions = sessions.into_iter().flatten().flatten();
            told = sessions.find(|session| session.path().join("session.json").exists());
            told.is_some()
        });
        let directory = told.expect("a session").path();
        self.change(&directory.join("session.json"), |file| {
            file["world"]["host"] = "gpu-7".into();
            file["world"]["boot"] = "of another machine".into();
        });
        directory
            .file_name()
            .expect("an ID")
            .to_string_lossy()
            .into_owned()
    }

    fn told(&self, id: &str) -> PathBuf {
        self.path(&format!("state/oomph/sessions/{id}/session.json"))
    }

    /// In its place whole, as the session writes it.
    fn change(&self, path: &PathBuf, change: impl FnOnce(&mut Value)) {
        let read = || serde_json::from_slice(&fs::read(path).ok()?).ok();
        let mut file: Value = read().expect("a session's file");
        change(&mut file);
        let fresh = self.path("fresh.json");
        fs::write(&fresh, file.to_string()).expect("a file");
        fs::set_permissions(&fresh, fs::Permissions::from_mode(0o600)).expect("a mode");
        fs::rename(&fresh, path).expect("a file");
    }

    fn terminal(&self, words: &[&str]) -> Terminal {
        let environment = self.environment(LOGIN);
        let environment: Vec<(&str, &str)> = (environment.iter())
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        let argv: Vec<&str> = std::iter::once(OOMPH)
            .chain(words.iter().copied())
            .collect();
        Terminal::spawn(&argv, &environment, 45, 160)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.marker.kill_all();
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_session_of_another_machine_is_watched_and_nothing_acts_on_it() {
    let cluster = Cluster::new();
    let job = [("SLURM_JOB_ID", "1234"), ("PYTHONUNBUFFERED", "1")];
    let demo = [
        "python3",
        DEMO,
        "--simulated",
        "--scenario",
        "none",
        "--steps",
        "1000000",
    ];
    let id = cluster.start(&job, &demo);
    let mut only = Value::Null;
    wait_until("it is listed with what it does", A_RUN, || {
        let sessions = cluster.ls();
        assert_eq!(sessions.len(), 1, "{sessions:?}");
        only = sessions[0].clone();
        only["state"] == "running" && only["peak"].is_u64()
    });
    assert_eq!(
        (
            only["id"].as_str(),
            only["host"].as_str(),
            only["job"].as_str()
        ),
        (Some(id.as_str()), Some("gpu-7"), Some("1234"))
    );
    let table = cluster.said(&["ls"]);
    assert!(table.contains("running on gpu-7, heard "), "{table}");

    let refused = cluster.refusal(&["stop"]);
    let there = format!("srun --jobid=1234 --overlap -N1 -n1 -w gpu-7 oomph stop {id}");
    assert!(refused.contains(&there), "{refused}");
    assert!(cluster.refusal(&["attach"]).contains("oomph logs -f"));
    wait_until("its output can be read", A_RUN, || {
        cluster.said(&["logs"]).contains("step ")
    });
    let report = cluster.said(&["report", "1234", "-o", "-"]);
    assert!(
        report.contains("1234 of SLURM"),
        "the report says whose job"
    );

    let mut screen = cluster.terminal(&["attach", "1234"]);
    let shown = screen.wait_for("allocated", A_RUN);
    assert!(
        shown.contains("read-only: it runs on gpu-7 (heard "),
        "{shown}"
    );
    assert!(shown.contains("--pty oomph attach"), "{shown}");
    screen.wait_for("loss", A_RUN);
    // None of these does anything: the training is ended, typed to, or started again by them elsewhere.
    for key in ['K', 'y', 'i', 'x', 'r', 'e'] {
        screen.press(key);
    }
    let steps = |screen: &str| -> u64 {
        let before = screen.split(" steps").next().unwrap_or_default();
        let digits = before.rsplit(' ').next().unwrap_or_default();
        digits.replace(',', "").parse().unwrap_or(0)
    };
    let first = steps(&screen.screen());
    screen.wait_for(|shown: &str| steps(shown) > first + 3, A_RUN);
    screen.press('q');
    assert_eq!(screen.exit(PATIENCE), Exit::Code(0));
    assert_eq!(screen.left_behind(), [""; 0]);
    assert_eq!(cluster.ls().len(), 1, "it runs on");

    let mut screen = cluster.terminal(&["attach", &id]);
    screen.wait_for("allocated", A_RUN);
    let mut follower = cluster
        .command(LOGIN, &["logs", "-f"])
        .stdout(Stdio::null())
        .spawn()
        .expect("oomph runs");
    let stopped = cluster.command(NODE, &["stop", &id]).output();
    assert!(stopped.expect("oomph runs").status.success());
    screen.wait_for("read-only: it ran on gpu-7 and has ended", A_RUN);
    screen.press('4');
    screen.wait_for("SIGTERM", A_RUN);
    screen.press('q');
    screen.exit(PATIENCE);
    assert!(
        follower.wait().expect("its end").success(),
        "the log has ended"
    );
    assert_eq!(cluster.ls(), [] as [Value; 0]);
    assert!(!cluster.told(&id).exists());
}

#[test]
fn what_another_user_could_have_written_is_not_believed() {
    let cluster = Cluster::new();
    let id = cluster.start(&[], &["sleep", "1000"]);
    assert_eq!(cluster.ls().len(), 1);
    let set = |mode| {
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(cluster.told(&id), mode).expect("a mode");
    };
    set(0o622);
    assert_eq!(cluster.ls(), [] as [Value; 0]);
    set(0o600);
    // A recording of somebody else is not read: here one that is a link.
    let recording = cluster.told(&id).with_file_name("events.jsonl");
    let moved = cluster.path("moved.jsonl");
    fs::rename(&recording, &moved).expect("a file");
    std::os::unix::fs::symlink(&moved, &recording).expect("a link");
    let sessions = cluster.ls();
    assert_eq!(sessions[0]["command"], Value::Null);
    let mut screen = cluster.terminal(&["attach"]);
    screen.wait_for("cannot read", A_RUN);
    screen.press('q');
    screen.exit(PATIENCE);
    // What a terminal would obey is spelled out.
    cluster.change(&cluster.told(&id), |file| {
        file["world"]["host"] = "gpu\u{1b}[2J".into();
    });
    let table = cluster.said(&["ls"]);
    assert!(table.contains("gpu\\u001b[2J"), "{table}");
}

#[test]
fn one_that_is_not_heard_is_silent_and_then_over() {
    let cluster = Cluster::new();
    let id = cluster.start(&[], &["sleep", "1000"]);
    // Its machine dies: nothing is written any more.
    let processes = cluster.marker.processes();
    assert!(!processes.is_empty());
    for process in processes {
        processes::signal(process, Signal::SIGKILL);
    }
    let files = || {
        let entries = fs::read_dir(cluster.told(&id).parent().expect("a directory"));
        let entries = entries.expect("a directory").flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let age = |hours: u64| {
        for path in files() {
            let file = fs::File::options().write(true).open(path);
            let at = SystemTime::now() - Duration::from_secs(3_600 * hours);
            file.and_then(|file| file.set_modified(at)).expect("a time");
        }
    };
    age(3);
    let table = cluster.said(&["ls"]);
    assert!(
        table.contains("silent on gpu-7, silent for 3:00:0"),
        "{table}"
    );
    age(30);
    assert_eq!(cluster.ls(), [] as [Value; 0]);
    let all = cluster.said(&["ls", "--all"]);
    assert!(all.contains("interrupted"), "{all}");
    assert!(!cluster.told(&id).exists(), "cleared away");
}

#[test]
fn jobs_of_an_array_and_requeues_are_told_apart() {
    let cluster = Cluster::new();
    for (job, task, restart) in [("1237", "7", "0"), ("1237", "7", "1"), ("1238", "8", "0")] {
        let ended = cluster
            .command(NODE, &["--headless", "--no-nvml", "--record=named.jsonl"])
            .args(["sh", "-c", "exit 0"])
            .env("SLURM_JOB_ID", job)
            .env("SLURM_ARRAY_JOB_ID", "1230")
            .env("SLURM_ARRAY_TASK_ID", task)
            .env("SLURM_RESTART_COUNT", restart)
            .output();
        assert!(ended.expect("oomph runs").status.success());
        let ended = cluster
            .command(NODE, &["--headless", "--no-nvml", "sh", "-c", "exit 0"])
            .env("SLURM_JOB_ID", job)
            .env("SLURM_ARRAY_JOB_ID", "1230")
            .env("SLURM_ARRAY_TASK_ID", task)
            .env("SLURM_RESTART_COUNT", restart)
            .output();
        assert!(ended.expect("oomph runs").status.success());
    }
    for name in ["named.jsonl", "named-2.jsonl", "named-3.jsonl"] {
        assert!(cluster.path(name).exists(), "{name}: a name of its own");
    }
    let all: Vec<Value> =
        serde_json::from_str(&cluster.said(&["ls", "--all", "--json"])).expect("a list");
    let jobs: Vec<&str> = all.iter().filter_map(|row| row["job"].as_str()).collect();
    assert_eq!(jobs, ["1230_8", "1230_7-r1", "1230_7"]);
    let table = cluster.said(&["ls", "--all"]);
    assert!(
        table.contains("JOB") && table.contains("1230_7-r1"),
        "{table}"
    );
    let report = |name: &str| cluster.said(&["report", name, "-o", "-"]);
    let requeued = report("1230_7");
    assert!(requeued.contains("1230_7 of SLURM (job 1237), requeued once"));
    assert!(!report("1230_7-r0").contains("requeued"));
    assert!(report("1238").contains("1230_8 of SLURM"));
    let several = cluster.refusal(&["report", "1230"]);
    assert!(several.contains("matches several sessions"), "{several}");
    let none = cluster.refusal(&["report", "1230_9"]);
    assert!(
        none.contains("`oomph ls --all` lists the sessions"),
        "{none}"
    );
    let ended = cluster.refusal(&["attach", "1230_8"]);
    assert!(ended.contains("has ended"), "{ended}");
}
