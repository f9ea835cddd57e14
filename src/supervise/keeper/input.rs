//! The user's standard input, where it isn't a terminal, and how a later run gets what an earlier one has
//! read.
//!
//! A file is put back to where the first run found it. A pipe that runs inherit can't be: once one has
//! read it there is no other run, which the kernel tells by inotify. Where the program is known to need
//! it, or all of it waits there from the start, the pipe is kept ([`KeptInput`]).

use super::descriptor;
use super::kept_input::KeptInput;
use crate::supervise::PipedInput;
use nix::libc;
use nix::sys::stat::{SFlag, fstat};
use nix::unistd::{Whence, lseek};
use std::fmt;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Instant;

pub(super) enum UserInput {
    /// A file, and where the first run found it.
    File { start: i64 },
    /// A pipe or socket that runs inherit.
    Shared(SharedInput),
    /// One that they get through us.
    Kept(KeptInput),
    /// A terminal, `/dev/null`: nothing to give again.
    Other,
}

/// Why there can't be another run with the same input. In words that follow "not relaunched: ".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spent {
    /// A run has read a pipe that it inherited.
    Read,
    /// What runs have read is more than we keep.
    TooLong,
}

impl fmt::Display for Spent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Spent::Read => "another run would find its standard input, a pipe, already read; ",
            Spent::TooLong => {
                "its standard input is a pipe of more than the 1 MiB that is kept, so another run would miss the beginning; "
            }
        })?;
        f.write_str("to relaunch, give the input as a file (< FILE)")
    }
}

impl UserInput {
    /// Looks at standard input, before anything reads it.
    pub(super) fn open(piped: PipedInput) -> UserInput {
        let fd = descriptor::standard(0);
        let Ok(about) = fstat(fd) else {
            return UserInput::Other;
        };
        match SFlag::from_bits_truncate(about.st_mode) & SFlag::S_IFMT {
            SFlag::S_IFREG => match lseek(fd, 0, Whence::SeekCur) {
                Ok(start) => UserInput::File { start },
                Err(_) => UserInput::Other,
            },
            kind @ (SFlag::S_IFIFO | SFlag::S_IFSOCK) => {
                // A shell's here-document may be a pipe that nobody writes to any more: all of it is there.
                let is_whole = has_ended() && descriptor::waiting(fd) > 0;
                let kept = match piped {
                    PipedInput::Inherited if !is_whole => None,
                    PipedInput::Kept | PipedInput::Inherited => {
                        KeptInput::open(kind == SFlag::S_IFSOCK)
                    }
                };
                kept.map_or_else(|| UserInput::Shared(SharedInput::open()), UserInput::Kept)
            }
            _ => UserInput::Other,
        }
    }

    /// Makes the input ready for the next run; returns what that gets in place of the user's, if anything.
    pub(super) fn begin_run(&mut self) -> Result<Option<OwnedFd>, Spent> {
        if let Some(spent) = self.spent() {
            return Err(spent);
        }
        match self {
            UserInput::File { start } => {
                // The position is shared with whoever gave us the file: a shell's loop goes on from
                // where the last run leaves it, as it would with one run.
                let _ = lseek(descriptor::standard(0), *start, Whence::SeekSet);
                Ok(None)
            }
            UserInput::Kept(kept) => Ok(kept.begin_run()),
            UserInput::Shared(_) | UserInput::Other => Ok(None),
        }
    }

    /// What to poll, with the events.
    pub(super) fn polled(&self) -> Vec<(RawFd, libc::c_short)> {
        match self {
            UserInput::Shared(shared) => shared.polled().collect(),
            UserInput::Kept(kept) => kept.polled(),
            UserInput::File { .. } | UserInput::Other => Vec::new(),
        }
    }

    /// When to look again without an event.
    pub(super) fn due(&self, now: Instant) -> Option<Instant> {
        match self {
            UserInput::Kept(kept) => kept.due(now),
            UserInput::Shared(_) | UserInput::File { .. } | UserInput::Other => None,
        }
    }

    /// Passes on what can be, and looks what was read.
    pub(super) fn serve(&mut self) {
        match self {
            UserInput::Shared(shared) => shared.look(),
            UserInput::Kept(kept) => kept.pump(),
            UserInput::File { .. } | UserInput::Other => {}
        }
    }

    /// The run's program has ended.
    pub(super) fn end_run(&mut self) {
        match self {
            UserInput::Shared(shared) => shared.look_without_watch(),
            UserInput::Kept(kept) => kept.end_run(),
            UserInput::File { .. } | UserInput::Other => {}
        }
    }

    pub(super) fn spent(&self) -> Option<Spent> {
        match self {
            UserInput::Shared(shared) => shared.is_read.then_some(Spent::Read),
            UserInput::Kept(kept) => kept.is_too_long().then_some(Spent::TooLong),
            UserInput::File { .. } | UserInput::Other => None,
        }
    }

    pub(super) fn is_kept(&self) -> bool {
        matches!(self, UserInput::Kept(_))
    }
}

/// A pipe or socket that runs inherit. We never read it.
pub(super) struct SharedInput {
    /// Becomes readable when somebody reads the pipe. `None` if the kernel doesn't tell.
    watch: Option<OwnedFd>,
    /// What was waiting in it at the start, and whether its writer had closed it.
    waiting: usize,
    ended: bool,
    is_read: bool,
}

impl SharedInput {
    fn open() -> SharedInput {
        let fd = descriptor::standard(0);
        let watch = descriptor::tells_of_reads()
            .then(|| descriptor::watch(fd, libc::IN_ACCESS | libc::IN_ONESHOT).ok())
            .flatten();
        SharedInput {
            watch,
            waiting: descriptor::waiting(fd),
            ended: has_ended(),
            is_read: false,
        }
    }

    fn polled(&self) -> impl Iterator<Item = (RawFd, libc::c_short)> {
        let watch = self.watch.as_ref().filter(|_| !self.is_read);
        watch
            .map(|watch| (watch.as_raw_fd(), libc::POLLIN))
            .into_iter()
    }

    fn look(&mut self) {
        if let Some(watch) = &self.watch
            && let descriptor::Got::Bytes(_) = descriptor::read(watch, &mut [0; 256])
        {
            self.is_read = true;
        }
    }

    /// Without the kernel's word: less waits than before, or the writer has gone and nothing waits. In the
    /// second case nothing may have been written, but a run without its input would be worse than none.
    fn look_without_watch(&mut self) {
        self.look();
        if self.watch.is_some() {
            return;
        }
        let waiting = descriptor::waiting(descriptor::standard(0));
        if waiting < self.waiting || (waiting == 0 && has_ended() && !self.ended) {
            self.is_read = true;
        }
    }
}

/// Whether nobody writes to standard input any more.
fn has_ended() -> bool {
    let fd = descriptor::standard(0);
    let events = descriptor::ready(fd, libc::POLLIN | libc::POLLRDHUP);
    events & (libc::POLLHUP | libc::POLLRDHUP) != 0
}
