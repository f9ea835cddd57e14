//! Ending as the trainer ended, so that a shell, a scheduler or a script sees no difference.

use crate::event::Exit;
use nix::libc;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Ends this process as `exit` says: with the same code, or by the same signal.
///
/// A signal is raised on ourselves with its default action and without a core dump (the trainer
/// has left its own); where that does not end us (process 1 of a container cannot die of its own
/// signals) the code is 128 + its number, as a shell would show it. The terminal must be restored
/// before. GNU timeout does the same.
pub fn exit_like(exit: Exit) -> ! {
    if let Exit::Signal(signal) = exit {
        die_by(signal);
    }
    std::process::exit(exit.shell_code())
}

fn die_by(signal: i32) {
    // Either call may fail, and then a core file too many is the worst that happens.
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_CORE) {
        let _ = setrlimit(Resource::RLIMIT_CORE, 0, hard);
    }
    let _ = nix::sys::prctl::set_dumpable(false);
    // SAFETY: plain system calls; no handler is installed, the sets live on this stack.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut());
        libc::raise(signal);
    }
}
