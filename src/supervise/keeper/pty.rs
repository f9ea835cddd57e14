//! A pseudo-terminal.

use super::descriptor;
use crate::supervise::Size;
use crate::supervise::terminal::LineSettings;
use nix::fcntl::{OFlag, open};
use nix::libc;
use nix::pty::{posix_openpt, ptsname_r, unlockpt};
use nix::sys::stat::Mode;
use nix::sys::termios::{LocalFlags, OutputFlags, SetArg, tcgetattr, tcsetattr};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

#[derive(Debug)]
pub(super) struct Pty {
    /// Our end, non-blocking.
    pub master: OwnedFd,
    /// The trainer's end. Kept open while the trainer lives, so that a program that closes its own
    /// streams and continues doesn't look like one that has ended.
    pub slave: Option<OwnedFd>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineMode {
    /// As the user's terminal: our screen draws its output.
    Screen,
    /// Its output goes to a terminal that does its own output processing and echo, so this one must do
    /// neither. EXTPROC marks them as done elsewhere (as telnet's line mode does), and programs see the
    /// settings they expect.
    Relay,
}

impl Pty {
    /// With the settings of the user's terminal, if known.
    pub(super) fn open(
        size: Size,
        like: Option<&LineSettings>,
        line: LineMode,
    ) -> nix::Result<Pty> {
        let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        let master = posix_openpt(flags)?;
        unlockpt(&master)?;
        // SAFETY: TIOCGPTPEER (Linux 4.13) gives a new descriptor. Unlike a path it is right in a
        // container that has another /dev/pts.
        let peer = unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCGPTPEER, flags.bits()) };
        let slave = if peer >= 0 {
            // SAFETY: nobody else owns it.
            unsafe { OwnedFd::from_raw_fd(peer) }
        } else {
            open(ptsname_r(&master)?.as_str(), flags, Mode::empty())?
        };
        let mut settings = match like {
            Some(like) => like.to_termios(),
            None => tcgetattr(&slave)?,
        };
        match line {
            LineMode::Screen => {}
            LineMode::Relay => {
                settings.output_flags.remove(OutputFlags::OPOST);
                settings.local_flags.insert(LocalFlags::EXTPROC);
            }
        }
        tcsetattr(&slave, SetArg::TCSANOW, &settings)?;
        // SAFETY: PtyMaster gives up its descriptor.
        let master = unsafe { OwnedFd::from_raw_fd(std::os::fd::IntoRawFd::into_raw_fd(master)) };
        descriptor::set_nonblocking(&master)?;
        let pty = Pty {
            master,
            slave: Some(slave),
        };
        pty.resize(size);
        Ok(pty)
    }

    /// The kernel signals the foreground group.
    pub(super) fn resize(&self, size: Size) {
        let size = size.clamped();
        let raw = libc::winsize {
            ws_row: size.rows,
            ws_col: size.cols,
            ws_xpixel: size.xpixel,
            ws_ypixel: size.ypixel,
        };
        // SAFETY: TIOCSWINSZ reads a winsize that lives on this stack.
        unsafe {
            libc::ioctl(self.master.as_raw_fd(), libc::TIOCSWINSZ, &raw);
        }
    }

    /// The foreground process group, which a key like Ctrl-C would signal.
    pub(super) fn foreground(&self) -> Option<i32> {
        nix::unistd::tcgetpgrp(self.master.as_fd())
            .ok()
            .map(|group| group.as_raw())
            .filter(|group| *group > 1)
    }
}
