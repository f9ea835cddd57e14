//! Processes of this user's earlier sessions that outlived their keepers and still hold GPU memory:
//! identified by their recordings, and stopped with a key.
//!
//! All of this must hold: it is this user's process; its environment names another session; that
//! session's recording has its PID with a matching start time; and no keeper is among its ancestors
//! (a living keeper is the parent of all that its training leaves behind). If anything can't be read,
//! it isn't one of them.

use crate::event::EventKind;
use crate::live::SESSION_VARIABLE;
use crate::recording::{self, BaseDirs};
use crate::remedy::Leftover;
use crate::state::State;
use crate::supervise::KEEPER_WORD;
use crate::units::{Bytes, Pid};
use procfs::process::Process;
pub(crate) use rustix::process::Signal;
use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How far the kernel's start time and the recorded one may differ: clocks are adjusted, and a process
/// connects some time after its start.
const CLOCK_SLACK: f64 = 5.0;

/// From SIGTERM to SIGKILL.
pub(crate) const GRACE: Duration = Duration::from_secs(10);

const DEEPEST: usize = 64;

/// Processes on the device that ran out of memory, any of which may be one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Suspects {
    processes: Vec<(Pid, Option<Bytes>)>,
    /// This session's name.
    ours: String,
}

impl Suspects {
    pub(crate) fn new(state: &State) -> Suspects {
        let device = state.oom().and_then(|oom| oom.device.as_ref());
        let reading = device
            .and_then(|device| state.device(device))
            .and_then(|device| device.reading.as_ref());
        let processes = reading.and_then(|(_, reading)| reading.processes.as_ref());
        let ours = state.session.as_ref().map(|session| session.id.clone());
        Suspects {
            processes: (processes.into_iter().flatten())
                .map(|process| (process.pid, process.used))
                .collect(),
            ours: ours.unwrap_or_default(),
        }
    }

    /// Those that an earlier session left.
    pub(crate) fn leftovers(&self) -> Vec<Leftover> {
        if self.processes.is_empty() {
            return Vec::new();
        }
        let recordings: Vec<PathBuf> = BaseDirs::of_this_user().recorded().collect();
        let processes = self.processes.iter();
        processes
            .filter_map(|(pid, used)| examine(*pid, *used, &self.ours, &recordings))
            .collect()
    }
}

fn examine(
    pid: Pid,
    held: Option<Bytes>,
    our_session: &str,
    recordings: &[PathBuf],
) -> Option<Leftover> {
    let process = Process::new(pid.0).ok()?;
    if process.uid().ok()? != nix::unistd::geteuid().as_raw() {
        return None;
    }
    let environ = process.environ().ok()?;
    let session = environ
        .get(std::ffi::OsStr::new(SESSION_VARIABLE))?
        .to_str()?
        .to_string();
    // The name must be that of a directory, not a path.
    let is_name = !session.is_empty() && !session.contains('/') && session != "..";
    if !is_name || session == our_session || has_keeper(&process)? {
        return None;
    }
    let stat = process.stat().ok()?;
    let began = began(stat.starttime)?;
    let recorded = recordings
        .iter()
        .any(|base| is_recorded(&base.join(&session), pid, began));
    recorded.then_some(Leftover {
        pid,
        started: stat.starttime,
        session,
        held,
    })
}

/// A process's start, in seconds since 1970.
fn began(ticks: u64) -> Option<f64> {
    use procfs::CurrentSI;
    let boot = procfs::KernelStats::current().ok()?.btime;
    Some(boot as f64 + ticks as f64 / procfs::ticks_per_second() as f64)
}

/// Whether it has a living keeper; `None` if its ancestors can't be read.
fn has_keeper(process: &Process) -> Option<bool> {
    let mut parent = process.stat().ok()?.ppid;
    for _ in 0..DEEPEST {
        if parent <= 1 {
            return Some(false);
        }
        let ancestor = Process::new(parent).ok()?;
        let words = ancestor.cmdline().ok()?;
        if words.get(1).is_some_and(|word| word == KEEPER_WORD) {
            return Some(true);
        }
        parent = ancestor.stat().ok()?.ppid;
    }
    None
}

/// Whether the session's recording has this process with about this start.
fn is_recorded(directory: &Path, pid: Pid, began: f64) -> bool {
    let Ok(events) = recording::read(directory) else {
        return false;
    };
    let mut origin = None;
    for event in events.flatten() {
        let at = origin.map(|origin: f64| origin + event.at.as_secs_f64());
        match event.what {
            EventKind::SessionStarted(session) => origin = Some(session.wall),
            EventKind::Started(started)
                if started.pid == pid && at.is_some_and(|at| (at - began).abs() <= CLOCK_SLACK) =>
            {
                return true;
            }
            // It started before it connected, and after its session.
            EventKind::Hello(hello) if hello.pid == pid => {
                let after = origin.is_some_and(|origin| began >= origin - CLOCK_SLACK);
                if after && at.is_some_and(|at| began <= at + CLOCK_SLACK) {
                    return true;
                }
            }
            _ => {}
        }
    }
    false
}

/// Whether the same process still exists.
pub(crate) fn lives(leftover: &Leftover) -> bool {
    let stat = Process::new(leftover.pid.0).and_then(|process| process.stat());
    stat.is_ok_and(|stat| stat.starttime == leftover.started && !matches!(stat.state, 'Z' | 'X'))
}

/// Signals this process, never another that has its PID by now.
pub(crate) fn signal(leftover: &Leftover, signal: Signal) -> std::io::Result<()> {
    let pid = rustix::process::Pid::from_raw(leftover.pid.0)
        .ok_or_else(|| std::io::Error::other("no such process"))?;
    let handle = pidfd_open(pid, PidfdFlags::empty())?;
    // The pidfd refers to the process that has the PID now, so check after opening it.
    if !lives(leftover) {
        return Err(std::io::Error::other("it has ended"));
    }
    pidfd_send_signal(&handle, signal)?;
    Ok(())
}

#[cfg(test)]
mod tests {
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
                again_of: None,
            }),
            EventKind::Started(Started {
                run: RunNumber::FIRST,
                pid,
                command,
                remedies: Vec::new(),
                predicted_peak: None,
                prediction: None,
                numerics: None,
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
}
