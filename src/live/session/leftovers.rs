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

pub(crate) fn find(state: &State) -> Vec<Leftover> {
    let Some(device) = state.oom().and_then(|oom| oom.device.as_ref()) else {
        return Vec::new();
    };
    let reading = state
        .device(device)
        .and_then(|device| device.reading.as_ref());
    let processes = reading.and_then(|(_, reading)| reading.processes.as_ref());
    let ours = state
        .session
        .as_ref()
        .map_or("", |session| session.id.as_str());
    let recordings: Vec<PathBuf> = BaseDirs::of_this_user().recorded().collect();
    processes
        .into_iter()
        .flatten()
        .filter_map(|process| examine(process.pid, process.used, ours, &recordings))
        .collect()
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
mod tests;
