//! Ctrl-Z as the terminal would send it: to every process of the job. Where a script started oomph and only
//! oomph stopped, the shell would go on waiting for a job that never stops, with a terminal that nobody
//! reads.

use nix::sys::signal::{SigHandler, Signal, killpg, raise, signal};
use nix::unistd::{Pid, getpgid, getpgrp, getppid, getsid};
use procfs::process::Process;

/// Stops the job, and returns once it was resumed. The others are stopped first, and this process by a signal to this thread:
/// that has stopped it when the call returns, whichever thread would take one to the process.
pub(crate) fn suspend() {
    // SAFETY: no handler is installed, and what was set before is set again.
    let before = unsafe { signal(Signal::SIGTSTP, SigHandler::SigIgn) };
    let _ = killpg(getpgrp(), Signal::SIGTSTP);
    if let Ok(before) = before {
        // SAFETY: it was set before.
        let _ = unsafe { signal(Signal::SIGTSTP, before) };
    }
    let _ = raise(Signal::SIGTSTP);
}

/// Whether a shell could resume the job: whether an ancestor outside it has the same terminal. Else it is
/// what POSIX calls an orphaned process group, as where the terminal is oomph's own (`ssh -t HOST oomph …`,
/// `docker run -it`, a new window of tmux), and the kernel discards the signal.
pub(crate) fn has_shell() -> bool {
    let Ok(session) = getsid(None) else {
        return false;
    };
    let mut ancestor = getppid();
    // Its parent may be in another PID namespace.
    while ancestor.as_raw() > 0 && getsid(Some(ancestor)) == Ok(session) {
        if getpgid(Some(ancestor)) != Ok(getpgrp()) {
            return true;
        }
        let stat = Process::new(ancestor.as_raw()).and_then(|process| process.stat());
        let Ok(stat) = stat else {
            return false;
        };
        ancestor = Pid::from_raw(stat.ppid);
    }
    false
}
