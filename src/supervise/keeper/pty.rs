//! The pseudo-terminal that a run is put on: its settings, what is read from it, and what is typed into it.
//!
//! On our screen it does all that a terminal does. Without one ([`LineMode::Relay`]) the user's terminal does the line
//! editing and the echo. EXTPROC says so, as for telnet's line mode. Output is processed by both, and what this one has added
//! is taken back in between (`log::LineEnds`): so the settings are otherwise the user's own. Programs see those
//! that they expect; but with it the kernel no longer ends a read at the end of a line, nor at Ctrl-D. So a line is put in
//! only once the one before has been read: then a read brings one line, and a Ctrl-D that is there alone is the end of the
//! input. In packet mode the kernel tells of each change of the settings, ahead of what the program writes next.

use super::descriptor::{self, Got, Put};
use crate::supervise::Size;
use crate::supervise::terminal::LineSettings;
use nix::fcntl::{OFlag, open};
use nix::libc;
use nix::pty::{posix_openpt, ptsname_r, unlockpt};
use nix::sys::stat::Mode;
use nix::sys::termios::{FlushArg, LocalFlags, SetArg, Termios, tcflush, tcgetattr, tcsetattr};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What comes with each read in packet mode, in front of the output.
pub(super) const HEAD: usize = 1;

/// The most that is put in at once. The terminal holds twice as much; from there on it drops what it gets.
const PIECE: usize = 2048;

/// How often to look whether that was read: at first, and in the end. The kernel mostly tells, but not of a read by the
/// name `/dev/tty`, nor of one that has brought the end of the input.
const SOON: Duration = Duration::from_millis(5);
const SELDOM: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineMode {
    /// As the user's terminal: our screen draws its output.
    Screen,
    /// What is typed comes from a terminal that does its own line editing and echo, so this one must do neither.
    Relay,
}

/// A pseudo-terminal.
#[derive(Debug)]
pub(super) struct Pty {
    /// Our end, non-blocking.
    pub master: OwnedFd,
    /// The trainer's end. Kept open while the trainer lives, so that a program that closes its own
    /// streams and continues doesn't look like one that has ended.
    pub slave: Option<OwnedFd>,
    /// `None` on our screen.
    pace: Option<TypingPace>,
    /// Whether reads are packets.
    packets: bool,
}

/// How what is typed is put in.
#[derive(Debug)]
struct TypingPace {
    /// Becomes readable when the program has read. `None` if the kernel doesn't tell.
    reads: Option<OwnedFd>,
    unread: Option<Unread>,
}

/// Something was put in, and may not have been read.
#[derive(Debug, Clone, Copy)]
struct Unread {
    look_at: Instant,
    pause: Duration,
}

/// What a read has brought.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FromTerminal<'a> {
    Bytes(&'a [u8]),
    Changed(TerminalChange),
    Nothing,
    /// Nobody on the other side.
    End,
}

/// What the program has done to its terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TerminalChange {
    Settings,
    /// It wants nothing of what was typed before, and may have changed the settings.
    ThrewKeysAway,
}

impl Pty {
    /// With the settings of the user's terminal, if known.
    pub fn open(size: Size, like: Option<&LineSettings>, line: LineMode) -> nix::Result<Pty> {
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
        let pace = match line {
            LineMode::Screen => None,
            LineMode::Relay => {
                as_relayed(&mut settings);
                Some(TypingPace {
                    reads: descriptor::watch(&slave, libc::IN_ACCESS).ok(),
                    unread: None,
                })
            }
        };
        tcsetattr(&slave, SetArg::TCSANOW, &settings)?;
        // SAFETY: PtyMaster gives up its descriptor.
        let master = unsafe { OwnedFd::from_raw_fd(master.into_raw_fd()) };
        descriptor::set_nonblocking(&master)?;
        let on: libc::c_int = 1;
        // SAFETY: TIOCPKT reads an int that lives on this stack.
        let packets =
            pace.is_some() && unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCPKT, &on) } == 0;
        let pty = Pty {
            master,
            slave: Some(slave),
            pace,
            packets,
        };
        pty.resize(size);
        Ok(pty)
    }

    /// Reads at most `most` bytes of output, by way of a buffer that has room for [`HEAD`] more.
    pub fn read<'a>(&self, buffer: &'a mut [u8], most: usize) -> FromTerminal<'a> {
        let head = if self.packets { HEAD } else { 0 };
        let length = buffer.len().min(most + head);
        let got = match buffer.get_mut(..length) {
            Some(room) => descriptor::read(&self.master, room),
            None => Got::Nothing,
        };
        let n = match got {
            Got::Bytes(n) => n,
            Got::Nothing => return FromTerminal::Nothing,
            Got::End => return FromTerminal::End,
        };
        let bytes = buffer.get(..n).unwrap_or_default();
        match bytes.split_first() {
            Some((0, output)) if self.packets => FromTerminal::Bytes(output),
            Some((change, _)) if self.packets => {
                FromTerminal::Changed(match change & TIOCPKT_FLUSHREAD {
                    0 => TerminalChange::Settings,
                    _ => TerminalChange::ThrewKeysAway,
                })
            }
            _ => FromTerminal::Bytes(bytes),
        }
    }

    /// Whether what is typed may be put in, looked up: where it goes in line by line, once all has been read.
    pub fn has_room(&mut self, now: Instant) -> bool {
        let Some(pace) = &mut self.pace else {
            return true;
        };
        let Some(Unread { look_at, pause }) = pace.unread else {
            return true;
        };
        if let Some(reads) = &pace.reads {
            while let Got::Bytes(_) = descriptor::read(reads, &mut [0; 4096]) {}
        }
        let waits = self.slave.as_ref().is_some_and(|slave| {
            // What was put in arrives a little later, at the latest when somebody polls.
            descriptor::ready(slave, libc::POLLIN);
            descriptor::waiting(slave) > 0
        });
        pace.unread = waits.then(|| match now >= look_at {
            true => Unread {
                look_at: now + pause * 2,
                pause: (pause * 2).min(SELDOM),
            },
            false => Unread { look_at, pause },
        });
        !waits
    }

    /// The answer of the last look.
    pub fn had_room(&self) -> bool {
        self.pace.as_ref().is_none_or(|pace| pace.unread.is_none())
    }

    /// What to poll to learn that all may have been read, while it was not.
    pub fn tells_of_reads(&self) -> Option<RawFd> {
        let pace = self.pace.as_ref().filter(|pace| pace.unread.is_some())?;
        pace.reads.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// When to look without being told.
    pub fn due(&self) -> Option<Instant> {
        Some(self.pace.as_ref()?.unread?.look_at)
    }

    /// Puts in of what was typed; how much.
    pub fn put(&mut self, keys: &[u8]) -> usize {
        let most = match &self.pace {
            None => keys.len(),
            Some(pace) if pace.unread.is_none() => keys.len().min(PIECE),
            Some(_) => return 0,
        };
        let Put::Bytes(n) = descriptor::write(&self.master, keys.get(..most).unwrap_or_default())
        else {
            return 0;
        };
        if let Some(pace) = &mut self.pace {
            pace.unread = Some(Unread {
                look_at: Instant::now() + SOON,
                pause: SOON,
            });
        }
        n
    }

    /// Puts in the interrupt's key, where a program has turned off that it is one and reads keys itself, as `docker run
    /// -it`, `ssh -t` and `script` do, which pass it on: a signal would end them in the place of what they run. Whether
    /// it did.
    pub fn put_interrupt_as_a_key(&mut self) -> bool {
        let settings = LineSettings::read(&self.master);
        let Some(key) = settings.and_then(|settings| settings.interrupt_as_a_key()) else {
            return false;
        };
        let has_unread = self
            .slave
            .as_ref()
            .is_none_or(|slave| descriptor::waiting(slave) > 0);
        !has_unread && self.put(&[key]) == 1
    }

    /// Whether nobody has read the key that was put in: it is thrown away.
    pub fn takes_back_unread_key(&self) -> bool {
        let Some(slave) = &self.slave else {
            return false;
        };
        descriptor::ready(slave, libc::POLLIN);
        let waiting = descriptor::waiting(slave);
        if waiting == 1 {
            let _ = tcflush(slave, FlushArg::TCIFLUSH);
        }
        waiting > 0
    }

    /// What is put in for the end of the input.
    pub fn end_of_input(&self) -> Option<u8> {
        LineSettings::read(&self.master)?.end_of_input()
    }

    /// Of a relayed terminal: whether a program has set each flag anew (`stty sane`, `reset`). Its input is processed twice
    /// from then on, and changes of its terminal are no longer told.
    pub fn has_lost_relaying(&self) -> bool {
        self.relayed_anew().is_some()
    }

    /// What only we need is set again.
    pub fn keep_relaying(&self) {
        if let Some(settings) = self.relayed_anew() {
            let _ = tcsetattr(&self.master, SetArg::TCSANOW, &settings);
        }
    }

    /// The settings with what only we need, if they lack it.
    fn relayed_anew(&self) -> Option<Termios> {
        self.pace.as_ref()?;
        let mut settings = tcgetattr(&self.master).ok()?;
        let is_lost = !settings.local_flags.contains(LocalFlags::EXTPROC);
        as_relayed(&mut settings);
        is_lost.then_some(settings)
    }

    /// Whether a program reads each key by itself, the signals' keys as well.
    pub fn is_raw(&self) -> bool {
        LineSettings::read(&self.master)
            .is_some_and(|line| !line.is_canonical() && line.interrupt_as_a_key().is_some())
    }

    /// Sets the size; the kernel signals a change to the foreground group.
    pub fn resize(&self, size: Size) {
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

    /// The name by which a program may open it.
    pub fn name(&self) -> Option<PathBuf> {
        let mut number: libc::c_int = -1;
        // SAFETY: TIOCGPTN writes an int that lives on this stack.
        let known =
            unsafe { libc::ioctl(self.master.as_raw_fd(), libc::TIOCGPTN, &mut number) } == 0;
        known.then(|| PathBuf::from(format!("/dev/pts/{number}")))
    }

    /// The foreground process group, which a key like Ctrl-C would signal.
    pub fn foreground(&self) -> Option<i32> {
        nix::unistd::tcgetpgrp(self.master.as_fd())
            .ok()
            .map(|group| group.as_raw())
            .filter(|group| *group > 1)
    }
}

/// The user's own terminal has processed the input.
fn as_relayed(settings: &mut Termios) {
    settings.local_flags.insert(LocalFlags::EXTPROC);
}

/// Of a terminal that got the settings of a relayed one: it processes its input by itself.
pub(super) fn undo_relaying(terminal: impl AsFd) {
    let Ok(mut settings) = tcgetattr(&terminal) else {
        return;
    };
    if settings.local_flags.contains(LocalFlags::EXTPROC) {
        settings.local_flags.remove(LocalFlags::EXTPROC);
        let _ = tcsetattr(&terminal, SetArg::TCSANOW, &settings);
    }
}

/// In the head of a packet: what was typed was thrown away (`ioctl_tty(2)`).
const TIOCPKT_FLUSHREAD: u8 = 1;
