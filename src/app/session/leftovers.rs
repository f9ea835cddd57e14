//! Processes of earlier sessions of this user that outlived their keepers and still hold a device's
//! memory: found by what was recorded of them, and stopped on a key.
//!
//! A process is one of them only where everything says so: it is this user's, its environment names
//! a session that is not ours, that session's recording has this process's number with a start that
//! fits, and no keeper is among its ancestors (a keeper adopts whatever its training leaves behind,
//! so below one that lives it is a healthy sibling). Anything that cannot be read means no.

use crate::app::SESSION_VARIABLE;
use crate::event::What;
use crate::remedy::Leftover;
use crate::session::{self, BaseDirs};
use crate::state::State;
use crate::supervise::KEEPER_WORD;
use crate::units::{Bytes, Pid};
use procfs::process::Process;
pub(crate) use rustix::process::Signal;
use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How much the start that the kernel says and the recorded one may differ: clocks are set, and a
/// process says hello some time after it began.
const CLOCK_SLACK: f64 = 5.0;

/// How long one that was asked to end is given before it is killed.
pub(super) const GRACE: Duration = Duration::from_secs(10);

/// Ancestors beyond this many are not looked at.
const DEEPEST: usize = 64;

/// Those on the device that ran out of memory.
pub(super) fn find(state: &State) -> Vec<Leftover> {
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
    // A session's name is that of a directory, nothing more.
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

/// When a process began, in seconds since 1970.
fn began(ticks: u64) -> Option<f64> {
    use procfs::CurrentSI;
    let boot = procfs::KernelStats::current().ok()?.btime;
    Some(boot as f64 + ticks as f64 / procfs::ticks_per_second() as f64)
}

/// Whether a keeper watches it still; `None` where its ancestors cannot be looked at.
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

/// Whether the session's recording has this process, begun at about that time.
fn is_recorded(directory: &Path, pid: Pid, began: f64) -> bool {
    let Ok(events) = session::read(directory) else {
        return false;
    };
    let mut origin = None;
    for event in events.flatten() {
        let at = origin.map(|origin: f64| origin + event.at.as_secs_f64());
        match event.what {
            What::SessionStarted(session) => origin = Some(session.wall),
            What::Started(started)
                if started.pid == pid && at.is_some_and(|at| (at - began).abs() <= CLOCK_SLACK) =>
            {
                return true;
            }
            // It had begun before it said hello, and after its session.
            What::Hello(hello) if hello.pid == pid => {
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

/// Whether it is still there, the same process.
pub(super) fn lives(leftover: &Leftover) -> bool {
    let stat = Process::new(leftover.pid.0).and_then(|process| process.stat());
    stat.is_ok_and(|stat| stat.starttime == leftover.started && !matches!(stat.state, 'Z' | 'X'))
}

/// Sends it a signal, to this very process and no other that may have its number now.
///
/// # Errors
/// It is gone, or may not be signalled.
pub(crate) fn signal(leftover: &Leftover, signal: Signal) -> std::io::Result<()> {
    let pid = rustix::process::Pid::from_raw(leftover.pid.0)
        .ok_or_else(|| std::io::Error::other("no such process"))?;
    let handle = pidfd_open(pid, PidfdFlags::empty())?;
    // The handle is of whoever has the number now: looked at after it was opened, it is certain.
    if !lives(leftover) {
        return Err(std::io::Error::other("it has ended"));
    }
    pidfd_send_signal(&handle, signal)?;
    Ok(())
}

#[cfg(test)]
mod tests;
