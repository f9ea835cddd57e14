//! The user's standard input, where it isn't a terminal, and how a later run gets what an earlier one has
//! read.
//!
//! A file is put back to where the first run found it. A pipe that runs inherit can't be: once one has read
//! it there is no other run, which the kernel tells by inotify. Where the program is known to need it, or all
//! of it waits there from the start, the pipe is kept ([`KeptInput`]): what runs have read of it is kept, and
//! each later run gets that first.
//!
//! Nothing is read before the program wants it. What waits in the user's pipe is *duplicated* into a pipe of
//! ours (`tee(2)`; a socket is peeked at), which the program has as its stdin. Only what the program has read
//! there is then taken from the user's. So whoever reads the pipe after us, a shell's loop, say, finds it as
//! if the program had read it alone.

use super::descriptor::{self, Got, Put};
use crate::supervise::PipedInput;
use crate::supervise::this_process;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::libc;
use nix::sys::stat::{SFlag, fstat};
use nix::unistd::{Whence, lseek};
use std::fmt;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

pub(super) enum UserInput {
    /// A file, and where the first run found it.
    File { start: i64 },
    /// A pipe or socket that runs inherit.
    Shared(SharedInput),
    /// A pipe or socket that they get through us.
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
    pub fn open(piped: PipedInput) -> UserInput {
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
    pub fn begin_run(&mut self) -> Result<Option<OwnedFd>, Spent> {
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
    pub fn polled(&self) -> Vec<(RawFd, libc::c_short)> {
        match self {
            UserInput::Shared(shared) => shared.polled().collect(),
            UserInput::Kept(kept) => kept.polled(),
            UserInput::File { .. } | UserInput::Other => Vec::new(),
        }
    }

    /// When to look again without an event.
    pub fn due(&self, now: Instant) -> Option<Instant> {
        match self {
            UserInput::Kept(kept) => kept.due(now),
            UserInput::Shared(_) | UserInput::File { .. } | UserInput::Other => None,
        }
    }

    /// Passes on what can be, and looks what was read.
    pub fn serve(&mut self) {
        match self {
            UserInput::Shared(shared) => shared.look(),
            UserInput::Kept(kept) => kept.pump(),
            UserInput::File { .. } | UserInput::Other => {}
        }
    }

    /// The run's program has ended.
    pub fn end_run(&mut self) {
        match self {
            UserInput::Shared(shared) => shared.look_without_watch(),
            UserInput::Kept(kept) => kept.end_run(),
            UserInput::File { .. } | UserInput::Other => {}
        }
    }

    pub fn spent(&self) -> Option<Spent> {
        match self {
            UserInput::Shared(shared) => shared.is_read.then_some(Spent::Read),
            UserInput::Kept(kept) => kept.is_too_long().then_some(Spent::TooLong),
            UserInput::File { .. } | UserInput::Other => None,
        }
    }

    pub fn is_kept(&self) -> bool {
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
            && let Got::Bytes(_) = descriptor::read(watch, &mut [0; 256])
        {
            self.note_read();
        }
    }

    /// There is no other run with it, so we need it no longer.
    fn note_read(&mut self) {
        self.is_read = true;
        this_process::give_up_piped_input();
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
            self.note_read();
        }
    }
}

/// Whether nobody writes to standard input any more.
fn has_ended() -> bool {
    let fd = descriptor::standard(0);
    let events = descriptor::ready(fd, libc::POLLIN | libc::POLLRDHUP);
    events & (libc::POLLHUP | libc::POLLRDHUP) != 0
}

/// The most bytes that are kept.
const MOST_KEPT: usize = 1 << 20;

/// The most that is copied at once: what a pipe holds by default.
const CHUNK: usize = 64 << 10;

/// How often to look whether the program has read, where the kernel doesn't tell.
const LOOK: Duration = Duration::from_millis(20);

/// A pipe or socket of the user's of which is kept what runs have read.
pub(super) struct KeptInput {
    source: Source,
    /// What runs have read, from the beginning on.
    kept: Vec<u8>,
    too_long: bool,
    feed: Option<Feed>,
}

enum Source {
    /// The user's pipe, opened again so that reads never wait.
    Pipe(OwnedFd),
    /// Standard input itself.
    Socket,
}

/// A run's own pipe, until it has everything.
struct Feed {
    pipe: OwnedFd,
    /// Becomes readable when the program reads.
    watch: Option<OwnedFd>,
    /// How much of what is kept was written to it.
    given: usize,
    /// How much of what it holds is still in the user's pipe as well.
    ahead: usize,
}

impl KeptInput {
    /// `None` where it can't be duplicated.
    fn open(is_socket: bool) -> Option<KeptInput> {
        let user = descriptor::standard(0);
        let source = match is_socket {
            true => Source::Socket,
            false => {
                let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK;
                Source::Pipe(descriptor::reopen(user, flags).ok()?)
            }
        };
        let input = KeptInput {
            source,
            kept: Vec::new(),
            too_long: false,
            feed: None,
        };
        // Tried into a pipe that nobody gets: a sandbox may know neither.
        let (_reading, writing) = descriptor::pipe().ok()?;
        descriptor::set_nonblocking(&writing).ok()?;
        match input.duplicate(&writing) {
            Ok(_) | Err(Errno::EAGAIN) => Some(input),
            Err(_) => None,
        }
    }

    /// The next run's stdin: first what is kept, then what still comes. `None` if there is no pipe to
    /// be had: the run then inherits the user's.
    fn begin_run(&mut self) -> Option<OwnedFd> {
        let (reading, writing) = descriptor::pipe().ok()?;
        descriptor::set_nonblocking(&writing).ok()?;
        let watch = descriptor::tells_of_reads()
            .then(|| descriptor::watch(&reading, libc::IN_ACCESS).ok())
            .flatten();
        self.feed = Some(Feed {
            pipe: writing,
            watch,
            given: 0,
            ahead: 0,
        });
        Some(reading)
    }

    fn is_too_long(&self) -> bool {
        self.too_long
    }

    fn polled(&self) -> Vec<(RawFd, libc::c_short)> {
        let Some(feed) = &self.feed else {
            return Vec::new();
        };
        // Without events poll tells that the program has closed it.
        let is_giving = feed.given < self.kept.len();
        let events = if is_giving { libc::POLLOUT } else { 0 };
        let mut polled = vec![(feed.pipe.as_raw_fd(), events)];
        match descriptor::waiting(&feed.pipe) {
            0 if !is_giving => polled.push((self.source_number(), libc::POLLIN)),
            _ => {
                let watch = feed.watch.iter();
                polled.extend(watch.map(|watch| (watch.as_raw_fd(), libc::POLLIN)));
            }
        }
        polled
    }

    fn due(&self, now: Instant) -> Option<Instant> {
        let feed = self.feed.as_ref().filter(|feed| feed.watch.is_none())?;
        (descriptor::waiting(&feed.pipe) > 0).then_some(now + LOOK)
    }

    /// Gives the run what can be given now.
    fn pump(&mut self) {
        let Some(mut feed) = self.feed.take() else {
            return;
        };
        if let Some(watch) = &feed.watch {
            while let Got::Bytes(_) = descriptor::read(watch, &mut [0; 4096]) {}
        }
        let is_read = self.account_to_the_last(&mut feed);
        if descriptor::ready(&feed.pipe, 0) & libc::POLLERR != 0 {
            // Nobody reads it any more; what was not read stays in the user's pipe.
            return;
        }
        while let Some(rest) = self.kept.get(feed.given..).filter(|rest| !rest.is_empty()) {
            match descriptor::write(&feed.pipe, rest) {
                Put::Bytes(n) => feed.given += n,
                Put::Full => break,
                Put::Broken(_) => return,
            }
        }
        if feed.given >= self.kept.len() && is_read {
            match self.duplicate(&feed.pipe) {
                // Its end, and so the program's.
                Ok(0) => return,
                Ok(n) => feed.ahead = n,
                Err(Errno::EAGAIN | Errno::EINTR) => {}
                Err(_) => return,
            }
        }
        self.feed = Some(feed);
    }

    /// The run's program has ended: what it left is not its any more.
    fn end_run(&mut self) {
        if let Some(mut feed) = self.feed.take() {
            self.account(&mut feed);
        }
    }

    /// Takes from the user's pipe what the program has read of its copy; whether that is all of it. The program reads
    /// meanwhile: while something read is not taken yet, it would be duplicated a second time.
    fn account_to_the_last(&mut self, feed: &mut Feed) -> bool {
        loop {
            self.account(feed);
            match (feed.ahead, descriptor::waiting(&feed.pipe)) {
                (0, 0) => return true,
                (_, 0) => {}
                (_, _) => return false,
            }
        }
    }

    /// Takes from the user's pipe what the program has read of its copy.
    fn account(&mut self, feed: &mut Feed) {
        let unread = descriptor::waiting(&feed.pipe).min(feed.ahead);
        let mut read = feed.ahead - unread;
        feed.ahead = unread;
        let mut buffer = vec![0; read.min(CHUNK)];
        while read > 0 {
            let most = read.min(CHUNK);
            let Some(n) = buffer.get_mut(..most).and_then(|room| self.take(room)) else {
                break;
            };
            read = read.saturating_sub(n);
            self.keep(buffer.get(..n).unwrap_or_default());
            feed.given = self.kept.len();
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.too_long || self.kept.len() + bytes.len() > MOST_KEPT {
            self.too_long = true;
            self.kept = Vec::new();
        } else {
            self.kept.extend_from_slice(bytes);
        }
    }

    fn source_number(&self) -> RawFd {
        match &self.source {
            Source::Pipe(pipe) => pipe.as_raw_fd(),
            Source::Socket => descriptor::standard(0).as_raw_fd(),
        }
    }

    /// Copies what waits in the user's pipe into `to` and leaves it there. 0 at its end.
    fn duplicate(&self, to: &OwnedFd) -> Result<usize, Errno> {
        let number = self.source_number();
        match &self.source {
            Source::Pipe(_) => {
                let flags = libc::SPLICE_F_NONBLOCK;
                // SAFETY: two open pipes.
                let copied = unsafe { libc::tee(number, to.as_raw_fd(), CHUNK, flags) };
                usize::try_from(copied).map_err(|_| Errno::last())
            }
            Source::Socket => {
                let mut buffer = vec![0; CHUNK];
                let peeked = receive(&mut buffer, libc::MSG_PEEK)?;
                match descriptor::write(to, buffer.get(..peeked).unwrap_or_default()) {
                    Put::Bytes(n) => Ok(n),
                    Put::Full => Err(Errno::EAGAIN),
                    Put::Broken(errno) => Err(errno),
                }
            }
        }
    }

    /// Reads from the user's pipe; `None` if somebody else has.
    fn take(&self, buffer: &mut [u8]) -> Option<usize> {
        match &self.source {
            Source::Pipe(pipe) => match descriptor::read(pipe, buffer) {
                Got::Bytes(n) => Some(n),
                Got::Nothing | Got::End => None,
            },
            Source::Socket => receive(buffer, 0).ok().filter(|n| *n > 0),
        }
    }
}

/// Reads from standard input, a socket, without waiting.
fn receive(buffer: &mut [u8], flags: libc::c_int) -> Result<usize, Errno> {
    // SAFETY: the buffer and its length belong together.
    let received = unsafe {
        libc::recv(
            descriptor::standard(0).as_raw_fd(),
            buffer.as_mut_ptr().cast(),
            buffer.len(),
            flags | libc::MSG_DONTWAIT,
        )
    };
    usize::try_from(received).map_err(|_| Errno::last())
}
