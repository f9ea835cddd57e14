//! The processes that a test started, however deep and in whatever session: found by a marker in
//! their environment, since parents die and groups are left.

use super::wait_until;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use oomph::units::Bytes;
use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The variable that carries the marker.
pub const VARIABLE: &str = "OOMPH_TEST_MARKER";

/// A value that no other test has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marker(String);

impl Marker {
    /// A new one.
    pub fn unique() -> Marker {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Marker(format!("{}-{number}", std::process::id()))
    }

    /// For the environment.
    pub fn value(&self) -> &str {
        &self.0
    }

    /// The living processes that carry it (a zombie has no environment any more).
    pub fn processes(&self) -> Vec<Pid> {
        let entry = format!("{VARIABLE}={}", self.0);
        all()
            .filter(|pid| {
                let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
                environ
                    .split(|byte| *byte == 0)
                    .any(|one| one == entry.as_bytes())
            })
            .collect()
    }

    /// The first of them whose command line contains `words`.
    pub fn find(&self, words: &str) -> Option<Pid> {
        let mut processes = self.processes().into_iter();
        processes.find(|pid| command_line(*pid).contains(words))
    }

    /// Waits until none of them lives.
    pub fn wait_gone(&self, patience: Duration) {
        wait_until("no process is left", patience, || {
            self.processes().is_empty()
        });
    }

    /// Kills them all, again and again while they still start others.
    pub fn kill_all(&self) {
        for _ in 0..100 {
            let processes = self.processes();
            if processes.is_empty() {
                return;
            }
            for pid in processes {
                // It may be gone by now, which is what is wanted.
                let _ = kill(pid, Signal::SIGKILL);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

fn all() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(Pid::from_raw))
}

/// The words of a command line with blanks between them; empty where there is none.
pub fn command_line(pid: Pid) -> String {
    let raw = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&raw)
        .replace('\0', " ")
        .trim_end()
        .into()
}

/// The fields of `/proc/PID/stat` behind the name, which may hold blanks and brackets itself:
/// `fields[0]` is the state, field 3 of proc(5).
fn stat(pid: Pid) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = text.rsplit_once(')')?;
    Some(fields.split_whitespace().map(String::from).collect())
}

/// The state's letter (`R`, `S`, `T`, `Z`, …), or `None` where there is no such process.
pub fn state(pid: Pid) -> Option<char> {
    stat(pid)?.first()?.chars().next()
}

/// Whether it lives: there is one, and it is no zombie.
pub fn is_alive(pid: Pid) -> bool {
    state(pid).is_some_and(|state| state != 'Z' && state != 'X')
}

/// Its parent.
pub fn parent(pid: Pid) -> Option<Pid> {
    stat(pid)?.get(1)?.parse().ok().map(Pid::from_raw)
}

/// Processor time used so far, user and system, in ticks of 1/100 s.
pub fn cpu_ticks(pid: Pid) -> u64 {
    let fields = stat(pid).unwrap_or_default();
    let ticks = |field: usize| fields.get(field).and_then(|text| text.parse().ok());
    // Fields 14 and 15 of proc(5).
    ticks(11).unwrap_or(0) + ticks(12).unwrap_or(0)
}

/// Memory that is resident.
pub fn resident(pid: Pid) -> Option<Bytes> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Bytes::parse(line)
}

/// Zombies among the children of `pid`.
pub fn zombies_of(pid: Pid) -> Vec<Pid> {
    all()
        .filter(|child| parent(*child) == Some(pid) && state(*child) == Some('Z'))
        .collect()
}

/// Sends a signal to a process that must be there.
pub fn signal(pid: Pid, signal: Signal) {
    kill(pid, signal).unwrap_or_else(|error| panic!("{signal} to {pid}: {error}"));
}
