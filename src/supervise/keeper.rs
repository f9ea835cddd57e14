//! The keeper process: owns the pseudo-terminal, reads it, keeps the log, and is the only one to wait
//! for and signal the trainer.
//!
//! It must survive for as long as the training lasts. So: one loop, no async runtime, no foreign
//! library, no call that panics, bounded memory, and threads only where a write may block (the
//! user's own streams, the log). It doesn't interpret the trainer's output.

mod connections;
mod copied_terminal;
mod descriptor;
mod event_loop;
mod input;
mod log;
mod output_fanout;
mod pty;
mod relay;
mod run;
mod spawn;
pub(super) mod sweep;
pub(super) mod tree;
mod user_stream;

use super::this_process::KEEPER_NAME;
use event_loop::KeeperLoop;
use nix::libc;
use nix::sys::signal::{SigSet, SigmaskHow, pthread_sigmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
pub(super) use spawn::{ENDED_ITSELF, HOLDER};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

/// The exit code for oomph's own failures, as of GNU timeout and env.
const OUR_FAILURE: i32 = 125;

/// The keeper's `main`: the front starts this binary as `oomph __keeper FD [TERMINAL]`, where FD is the
/// number of an open socket to it, and TERMINAL that of the user's controlling terminal.
pub fn main() -> ! {
    let code = match begin() {
        Ok(keeper) => {
            keeper.run();
            0
        }
        Err(error) => {
            // Nothing runs yet, and the front tells the user itself; this is for those who start a
            // keeper by hand.
            let _ = writeln!(io::stderr(), "oomph: the keeper could not start: {error}");
            OUR_FAILURE
        }
    };
    std::process::exit(code)
}

fn begin() -> io::Result<KeeperLoop> {
    let socket = given(2).ok_or_else(|| io::Error::other("only oomph itself starts this"))?;
    descriptor::set_cloexec(&socket)?;
    // Never closed from now on, like the standard streams.
    let terminal = given(3).map(IntoRawFd::into_raw_fd);
    let ours: Vec<RawFd> = terminal.into_iter().chain([socket.as_raw_fd()]).collect();
    let inherited = descriptor::inherited(&ours);
    if let Some(terminal) = terminal {
        descriptor::set_cloexec(descriptor::users(terminal))?;
    }
    // The front has already blocked them before it started this process.
    let all = SigSet::all();
    pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&all), None)?;
    let signals = SignalFd::with_flags(&all, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
    // SAFETY: no handler, only default and ignored. With SIGCHLD ignored the kernel would reap the
    // trainer and lose its status; the other two must become errors of our writes.
    unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
    if let Ok(name) = std::ffi::CString::new(KEEPER_NAME) {
        let _ = nix::sys::prctl::set_name(&name);
    }
    // An emulated kernel may have none (qemu-user): what outlives its parent is then found by the list of
    // descendants alone, which is no reason to run nothing.
    let _ = nix::sys::prctl::set_child_subreaper(true);
    KeeperLoop::open(socket, signals, inherited, terminal)
}

/// The open descriptor whose number is this argument of ours. The trainer must not inherit it.
fn given(argument: usize) -> Option<OwnedFd> {
    let number: RawFd = std::env::args()
        .nth(argument)
        .and_then(|text| text.parse().ok())
        .filter(|number| *number > 2)?;
    // SAFETY: checks that the descriptor is open; nobody else here owns it.
    unsafe {
        match libc::fcntl(number, libc::F_GETFD) {
            0.. => Some(OwnedFd::from_raw_fd(number)),
            _ => None,
        }
    }
}
