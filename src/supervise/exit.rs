//! Exits as the trainer did, so that a shell, a scheduler or a script sees no difference.

use crate::event::Exit;
use nix::libc;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Ends this process with the same exit code, or by the same signal.
///
/// The signal is raised with its default action and without a core dump (the trainer has left its
/// own). If that doesn't end us (process 1 of a container can't die of its own signals), the code is
/// 128 + the signal's number, as a shell would show it. GNU timeout does the same. The terminal must
/// have been restored.
pub fn exit_like(exit: Exit) -> ! {
    if let Exit::Signal(signal) = exit {
        die_by(signal);
    }
    std::process::exit(exit.shell_code())
}

fn die_by(signal: i32) {
    // If either call fails, the worst that happens is a second core file.
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
