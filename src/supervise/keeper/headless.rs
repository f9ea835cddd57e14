//! A front without a screen, which the keeper starts when the previous one is gone: it continues the
//! recording, listens to the probes and follows the policy until somebody attaches.

use super::descriptor;
use crate::supervise::status::HeadlessFront;
use crate::supervise::{HEADLESS_WORD, Io};
use nix::libc;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

impl HeadlessFront {
    /// Its argument in the command line.
    pub fn word(self) -> &'static str {
        match self {
            HeadlessFront::Follows => "follows",
            HeadlessFront::Replaces => "replaces",
        }
    }

    pub fn of_word(word: &str) -> Option<HeadlessFront> {
        [HeadlessFront::Follows, HeadlessFront::Replaces]
            .into_iter()
            .find(|headless| headless.word() == word)
    }
}

/// Starts one. Returns our end of its socket, and its PID. What it prints at the end of the session
/// goes to the program's stderr, unless a shell has that terminal back.
pub(super) fn start(headless: HeadlessFront, io: Io) -> io::Result<(OwnedFd, i32)> {
    let (ours, theirs) = UnixStream::pair()?;
    let number = theirs.as_raw_fd();
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0("oomph")
        .arg(HEADLESS_WORD)
        .arg(number.to_string())
        .arg(headless.word())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(match io {
            Io::Screen => Stdio::null(),
            Io::PassThrough => Stdio::inherit(),
        });
    // SAFETY: system calls alone, all async-signal-safe; the set lives on the child's stack.
    unsafe {
        command.pre_exec(move || {
            // The keeper has all signals blocked.
            let mut none: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut none);
            libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
            // The user's descriptors, which we hold for the trainer, are not for this process.
            libc::syscall(
                libc::SYS_close_range,
                3u32,
                u32::MAX,
                libc::CLOSE_RANGE_CLOEXEC,
            );
            match libc::fcntl(number, libc::F_SETFD, 0) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        });
    }
    let child = command.spawn()?;
    let ours = OwnedFd::from(ours);
    descriptor::set_nonblocking(&ours)?;
    Ok((ours, i32::try_from(child.id()).unwrap_or(0)))
}
