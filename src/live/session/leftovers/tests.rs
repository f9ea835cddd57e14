//! What is a leftover and what only looks like one, with real processes.

use super::*;
use crate::command::CommandLine;
use crate::event::{Event, SessionStarted, Started};
use crate::units::{Moment, RunNumber};
use std::fs;
use std::process::{Child, Command};
use std::time::SystemTime;

/// A process that carries a session's name, ended with the test.
struct Marked(Child);

impl Drop for Marked {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn marked(session: &str) -> Marked {
    let mut command = Command::new("sleep");
    command.arg("600").env(SESSION_VARIABLE, session);
    let process = Marked(command.spawn().expect("sleep is there"));
    wait_for_exec(Pid(process.0.id() as i32));
    process
}

/// Who starts a process goes on a moment before the kernel shows that it is `sleep` now, with the
/// environment of a session.
fn wait_for_exec(pid: Pid) {
    let is_shown = || {
        let process = Process::new(pid.0)?;
        let environ = process.environ()?;
        let is_marked = environ.contains_key(std::ffi::OsStr::new(SESSION_VARIABLE));
        procfs::ProcResult::Ok(process.cmdline()?.starts_with(&["sleep".into()]) && is_marked)
    };
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !is_shown().is_ok_and(|shown| shown) {
        assert!(std::time::Instant::now() < deadline, "no sleep");
        std::thread::yield_now();
    }
}

fn recording(base: &Path, session: &str, pid: Pid) {
    let directory = base.join(session);
    fs::create_dir_all(&directory).unwrap();
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap();
    let command = CommandLine {
        argv: vec!["sleep".into()],
        env: Vec::new(),
        cwd: "/".into(),
    };
    let events = [
        EventKind::SessionStarted(SessionStarted {
            id: session.into(),
            wall: now.as_secs_f64(),
            monotonic: 0,
            schema: 1,
            version: "0".into(),
            command: command.clone(),
            probe: false,
            nvml: false,
            job: None,
            host: None,
        }),
        EventKind::Started(Started {
            run: RunNumber::FIRST,
            pid,
            command,
            remedies: Vec::new(),
            predicted_peak: None,
            prediction: None,
        }),
    ];
    let lines: String = events
        .into_iter()
        .map(|what| {
            let event = Event {
                at: Moment::ZERO,
                what,
            };
            serde_json::to_string(&event).unwrap() + "\n"
        })
        .collect();
    fs::write(directory.join(recording::RECORDING), lines).unwrap();
}

#[test]
fn a_recorded_process_that_nobody_watches_is_one_and_can_be_stopped() {
    let base = tempfile::tempdir().unwrap();
    let mut process = marked("20260101-000000-train");
    let pid = Pid(process.0.id() as i32);
    let bases = [base.path().to_path_buf()];
    let look = |ours: &str| examine(pid, None, ours, &bases);
    assert_eq!(look("ours"), None, "it is in no recording");
    recording(base.path(), "20260101-000000-train", Pid(pid.0 + 1));
    assert_eq!(look("ours"), None, "the recording has another process");
    recording(base.path(), "20260101-000000-train", pid);
    assert_eq!(look("20260101-000000-train"), None, "it is our own");
    let found = look("ours").expect("all signs are there");
    assert_eq!(
        (found.pid, found.session.as_str()),
        (pid, "20260101-000000-train")
    );
    assert!(lives(&found));
    let another = Leftover {
        started: found.started + 1,
        ..found.clone()
    };
    assert!(
        signal(&another, Signal::KILL).is_err(),
        "another process by then"
    );
    assert!(lives(&found));
    signal(&found, Signal::TERM).unwrap();
    process.0.wait().unwrap();
    assert!(!lives(&found));
}

#[test]
fn below_a_keeper_it_is_a_healthy_sibling() {
    let base = tempfile::tempdir().unwrap();
    let name = "20260101-000001-train";
    // What a keeper's command line looks like: its second word.
    let script = base.path().join(KEEPER_WORD);
    fs::write(script, "sleep 600 & echo $!; wait\n").unwrap();
    let mut keeper = Command::new("sh");
    keeper
        .arg(KEEPER_WORD)
        .current_dir(base.path())
        .env(SESSION_VARIABLE, name)
        .stdout(std::process::Stdio::piped());
    let mut keeper = Marked(keeper.spawn().unwrap());
    let mut line = String::new();
    let mut output = std::io::BufReader::new(keeper.0.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut output, &mut line).unwrap();
    let pid = Pid(line.trim().parse().unwrap());
    wait_for_exec(pid);
    recording(base.path(), name, pid);
    let bases = [base.path().to_path_buf()];
    assert_eq!(examine(pid, None, "ours", &bases), None);
    keeper.0.kill().unwrap();
    keeper.0.wait().unwrap();
    let found = examine(pid, None, "ours", &bases).expect("its keeper is gone");
    signal(&found, Signal::KILL).unwrap();
}
