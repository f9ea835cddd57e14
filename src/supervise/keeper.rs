//! The keeper process: owns the pseudo-terminal, drains it, keeps the log, and alone waits for
//! and signals the trainer.
//!
//! It must outlive everything else of oomph, for as long as a training lasts. So: one loop, no
//! async runtime, no foreign library, no call that panics, bounded memory, and threads only where
//! a write may block (the user's own streams, the log). It knows nothing of what the trainer's
//! output means.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::unreachable
    )
)]

mod callers;
mod descriptor;
mod environment;
mod event_loop;
mod headless;
mod log;
mod log_parts;
mod output_fanout;
mod pty;
mod recent;
mod relay;
mod run;
mod sink;
mod spawn;
mod stdio;
pub(super) mod sweep;
mod tail;
pub(super) mod tree;
mod user_stream;
mod users_pipe;
mod viewer;

use super::wire::{Decoder, FirstMessage, Frame};
use event_loop::{KeeperLoop, KeeperParts};
use nix::libc;
use nix::sys::signal::{SigSet, SigmaskHow, pthread_sigmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

/// oomph's own failure, as GNU timeout and env have it.
const OUR_FAILURE: i32 = 125;

/// The keeper's `main`: the front starts this binary as `oomph __keeper FD`, FD being the number
/// of an open socket to it. Never returns.
pub fn main() -> ! {
    let code = match begin() {
        Ok(keeper) => {
            keeper.run();
            0
        }
        Err(error) => {
            // Nothing runs yet, and the front tells the user in its own way; this is for those
            // who start a keeper by hand.
            let _ = writeln!(io::stderr(), "oomph: the keeper could not start: {error}");
            OUR_FAILURE
        }
    };
    std::process::exit(code)
}

fn begin() -> io::Result<KeeperLoop> {
    let socket = socket()?;
    let inherited = stdio::inherited(socket.as_raw_fd());
    // Blocked by the front already, before this process was there.
    let all = SigSet::all();
    pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&all), None)?;
    let signals = SignalFd::with_flags(&all, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
    // SAFETY: no handler, only default and ignored. An ignored SIGCHLD would have the kernel reap
    // the trainer and lose its status; the two others have to reach us as error numbers.
    unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
    let _ = nix::sys::prctl::set_name(c"oomph-keeper");
    nix::sys::prctl::set_child_subreaper(true)?;
    let (hello, decoder) = first_message(&socket)?;
    descriptor::set_nonblocking(&socket)?;
    let plan = stdio::plan(stdio::look(0), stdio::look(1), stdio::look(2));
    let wake = descriptor::event()?;
    let fanout = output_fanout::OutputFanout::open(&hello, &plan, &wake)?;
    Ok(KeeperLoop::new(KeeperParts {
        hello,
        plan,
        socket,
        decoder,
        signals,
        wake,
        fanout,
        inherited,
    }))
}

/// The socket to the front, whose number is our only argument. It must not reach the trainer.
fn socket() -> io::Result<OwnedFd> {
    let usage = || io::Error::other("only oomph itself starts this");
    let number: RawFd = std::env::args()
        .nth(2)
        .and_then(|text| text.parse().ok())
        .filter(|number| *number > 2)
        .ok_or_else(usage)?;
    // SAFETY: only asks whether the descriptor is open, and then nobody else here owns it.
    let socket = unsafe {
        if libc::fcntl(number, libc::F_GETFD) < 0 {
            return Err(usage());
        }
        OwnedFd::from_raw_fd(number)
    };
    descriptor::set_cloexec(&socket)?;
    Ok(socket)
}

/// Waits for the front's first message, which it sends at once.
fn first_message(socket: impl AsFd) -> io::Result<(FirstMessage, Decoder)> {
    let mut decoder = Decoder::default();
    let mut chunk = [0; 4096];
    loop {
        match decoder.next() {
            Ok(Some(Frame::Json(body))) => {
                return Ok((serde_json::from_slice(&body)?, decoder));
            }
            Ok(None) => {}
            Ok(Some(Frame::Input(_) | Frame::Output(..) | Frame::Recent(_) | Frame::Unknown))
            | Err(_) => {
                return Err(io::Error::other("the first message is not from oomph"));
            }
        }
        let n = nix::unistd::read(&socket, &mut chunk)?;
        if n == 0 {
            return Err(io::Error::other("the front is gone"));
        }
        decoder.push(chunk.get(..n).unwrap_or_default());
    }
}
