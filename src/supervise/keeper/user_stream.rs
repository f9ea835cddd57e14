//! One of the user's own streams: a pipe that the loop itself writes to, or else a thread that writes.
//!
//! The user's descriptors are shared with other processes, so they must not be made non-blocking. A pipe is
//! reopened, and no thread has to wait: in a flood of output, pages are passed on by reference (`tee`) and
//! copied only for the log and the front. For anything else a thread blocks instead.
//!
//! Nothing is dropped: while a stream is full its source is no longer read, and the trainer feels the same
//! back-pressure as without oomph. If the reader is gone (`oomph … | head -1`), the rest is discarded.

use super::descriptor::{self, Put};
use crate::background::{BackgroundWriter, Destination, OverflowPolicy, WriteFailure};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, SpliceFFlags, fcntl, tee};
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::{SFlag, fstat};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

/// The most bytes that wait for a thread to write them.
const CAPACITY: usize = 128 << 10;

pub(super) enum Sink {
    /// A pipe that could be reopened.
    Pipe(UsersPipe),
    /// A terminal, a socket, a file, or another user's pipe.
    Writer(BackgroundWriter),
    /// Its reader was not waited for any longer: how many bytes it did not get.
    GivenUp(u64),
}

impl Sink {
    /// The user's stream `number`; `wake` is notified when a thread has room again.
    pub fn open(number: i32, wake: &OwnedFd) -> io::Result<Sink> {
        Ok(match UsersPipe::open(number) {
            Some(pipe) => Sink::Pipe(pipe),
            None => {
                let wake = wake.try_clone()?;
                Sink::Writer(BackgroundWriter::start(
                    "oomph-writer",
                    CAPACITY,
                    OverflowPolicy::Block { wake },
                    StreamDestination(descriptor::users(number)),
                )?)
            }
        })
    }

    /// Gives it up if bytes wait for its reader; they, and all that come, are counted.
    pub fn give_up(&mut self) {
        let waiting = match self {
            Sink::Pipe(pipe) if !pipe.has_room() => pipe.waiting(),
            Sink::Writer(writer) if !writer.is_idle() => writer.waiting(),
            Sink::Pipe(_) | Sink::Writer(_) | Sink::GivenUp(_) => return,
        };
        *self = Sink::GivenUp(waiting as u64);
    }

    /// How many bytes its reader did not get, since the last time it was asked.
    pub fn take_undelivered(&mut self) -> u64 {
        match self {
            Sink::GivenUp(bytes) => std::mem::take(bytes),
            Sink::Pipe(_) | Sink::Writer(_) => 0,
        }
    }

    pub fn writer(&self) -> Option<&BackgroundWriter> {
        match self {
            Sink::Pipe(_) | Sink::GivenUp(_) => None,
            Sink::Writer(writer) => Some(writer),
        }
    }

    pub fn room(&self) -> usize {
        match self {
            Sink::Pipe(pipe) if pipe.has_room() => usize::MAX,
            Sink::Pipe(_) => 0,
            Sink::GivenUp(_) => usize::MAX,
            Sink::Writer(writer) => writer.room(),
        }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        match self {
            Sink::Pipe(pipe) => pipe.push(bytes),
            Sink::Writer(writer) => writer.push(bytes),
            Sink::GivenUp(undelivered) => *undelivered += bytes.len() as u64,
        }
    }

    /// Whether its reader is known to be gone.
    pub fn has_no_reader(&self) -> bool {
        match self {
            Sink::Pipe(pipe) => pipe.pipe.is_none(),
            Sink::Writer(writer) => writer.has_ended(),
            Sink::GivenUp(_) => false,
        }
    }

    pub fn is_idle(&self) -> bool {
        match self {
            Sink::Pipe(pipe) => pipe.is_idle(),
            Sink::Writer(writer) => writer.is_idle(),
            Sink::GivenUp(_) => true,
        }
    }

    /// The descriptor to poll for room, if no thread reports it.
    pub fn waits(&self) -> Option<RawFd> {
        match self {
            Sink::Pipe(pipe) => pipe.waits(),
            Sink::Writer(_) | Sink::GivenUp(_) => None,
        }
    }
}

struct StreamDestination(BorrowedFd<'static>);

impl Destination for StreamDestination {
    fn write(&mut self, bytes: &[u8]) -> Result<(), WriteFailure> {
        write_until(self.0, bytes, None).map_err(|error| WriteFailure {
            written: 0,
            error,
            for_good: true,
        })
    }
}

/// Writes what a terminal takes within `limit`.
pub(super) fn write_within(to: BorrowedFd<'_>, bytes: &[u8], limit: Duration) {
    let _ = write_until(to, bytes, Some(Instant::now() + limit));
}

/// Writes everything, however long that takes where there is no deadline.
fn write_until(to: BorrowedFd<'_>, mut bytes: &[u8], deadline: Option<Instant>) -> io::Result<()> {
    while !bytes.is_empty() && deadline.is_none_or(|deadline| Instant::now() < deadline) {
        match descriptor::write(to, bytes) {
            Put::Bytes(n) => bytes = bytes.get(n..).unwrap_or_default(),
            // Another process made the user's stream non-blocking, so wait in poll; its limit is for
            // a poll that never returns.
            Put::Full => {
                let mut wait = [PollFd::new(to, PollFlags::POLLOUT)];
                let _ = poll(&mut wait, PollTimeout::from(50u16));
            }
            Put::Broken(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// Pages are passed on if at least this much waits. Each takes a slot of the user's pipe even if it
/// isn't full, so small pieces are copied: they share a page. And if as much waits as a pipe usually
/// holds, the program would be waiting for the reader without oomph too.
const MUCH: usize = 64 << 10;

/// A pipe of the user's, to which the keeper's loop itself writes.
pub(super) struct UsersPipe {
    /// `None` once it has no reader: the rest is discarded.
    pipe: Option<OwnedFd>,
    /// Bytes that did not fit.
    rest: Vec<u8>,
    full: bool,
    /// Whether `tee` works here.
    tees: bool,
}

/// The outcome of passing on what waits in one of our pipes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Passed {
    /// The user's pipe has this many; they must still be read from ours.
    Bytes(usize),
    Full,
    /// Read and write them instead.
    Nothing,
}

impl UsersPipe {
    /// The user's stream `number`, if it is a pipe that we may open.
    fn open(number: i32) -> Option<UsersPipe> {
        let user = descriptor::users(number);
        let about = fstat(user).ok()?;
        let is_pipe = SFlag::from_bits_truncate(about.st_mode) & SFlag::S_IFMT == SFlag::S_IFIFO;
        let flags = OFlag::from_bits_truncate(fcntl(user, FcntlArg::F_GETFL).ok()?);
        if !is_pipe || flags & OFlag::O_ACCMODE == OFlag::O_RDONLY {
            return None;
        }
        let pipe = descriptor::reopen(user, OFlag::O_WRONLY | OFlag::O_NONBLOCK).ok()?;
        Some(UsersPipe::over(pipe))
    }

    fn over(pipe: OwnedFd) -> UsersPipe {
        UsersPipe {
            pipe: Some(pipe),
            rest: Vec::new(),
            full: false,
            tees: true,
        }
    }

    fn has_room(&self) -> bool {
        self.pipe.is_none() || !self.full
    }

    /// Whether everything was written.
    fn is_idle(&self) -> bool {
        self.rest.is_empty()
    }

    /// How many bytes wait for room.
    fn waiting(&self) -> usize {
        self.rest.len()
    }

    /// The descriptor to poll for room, while it is full.
    fn waits(&self) -> Option<RawFd> {
        let pipe = self.pipe.as_ref().filter(|_| self.full);
        pipe.map(AsRawFd::as_raw_fd)
    }

    /// Writes what did not fit before.
    pub fn flush(&mut self) {
        self.full = false;
        let rest = std::mem::take(&mut self.rest);
        self.push(&rest);
    }

    /// Writes, and keeps what doesn't fit.
    fn push(&mut self, mut bytes: &[u8]) {
        while let Some(pipe) = &self.pipe
            && !self.full
            && !bytes.is_empty()
        {
            match descriptor::write(pipe, bytes) {
                Put::Bytes(n) => bytes = bytes.get(n..).unwrap_or_default(),
                Put::Full => self.full = true,
                Put::Broken(_) => self.let_go(),
            }
        }
        if self.pipe.is_some() {
            self.rest.extend_from_slice(bytes);
        }
    }

    /// Passes on up to `most` bytes of what waits in `source`, if that is much.
    pub fn pass(&mut self, source: impl AsFd, most: usize) -> Passed {
        let Some(pipe) = self.pipe.as_ref().filter(|_| self.tees) else {
            return Passed::Nothing;
        };
        if self.full {
            return Passed::Full;
        }
        if descriptor::waiting(&source) < MUCH {
            return Passed::Nothing;
        }
        match tee(source, pipe, most, SpliceFFlags::SPLICE_F_NONBLOCK) {
            // Not the end: something waits in the source.
            Ok(0) | Err(Errno::EAGAIN) => {
                self.full = true;
                Passed::Full
            }
            Ok(n) => Passed::Bytes(n),
            Err(Errno::EINTR) => Passed::Nothing,
            Err(Errno::EPIPE) => {
                self.let_go();
                Passed::Nothing
            }
            Err(_) => {
                self.tees = false;
                Passed::Nothing
            }
        }
    }

    /// Closes it, so that its reader doesn't wait for us.
    pub fn let_go(&mut self) {
        *self = UsersPipe {
            pipe: None,
            rest: Vec::new(),
            full: false,
            tees: false,
        };
    }
}

/// Enlarges a pipe, if the system allows it, so that the trainer waits for us less often.
pub(super) fn widen(pipe: impl AsFd) {
    const SIZE: libc::c_int = 256 << 10;
    let _ = fcntl(pipe, FcntlArg::F_SETPIPE_SZ(SIZE));
}

#[cfg(test)]
mod tests {
    use super::*;
    use descriptor::Got;

    /// Moves everything from a pipe of ours to the user's, whose reader is read from as soon as it
    /// is full; what the reader got, and how many bytes were passed on by reference.
    fn moved(pieces: &[Vec<u8>]) -> (Vec<u8>, usize) {
        let (reader, writer) = descriptor::pipe().unwrap();
        let (ours, trainers) = descriptor::pipe().unwrap();
        for fd in [&reader, &writer, &ours] {
            descriptor::set_nonblocking(fd).unwrap();
        }
        widen(&ours);
        let mut users = UsersPipe::over(writer);
        let (mut got, mut referred) = (Vec::new(), 0);
        let mut buffer = vec![0; 64 << 10];
        let read_out = |got: &mut Vec<u8>| {
            let mut chunk = [0; 10_000];
            if let Got::Bytes(n) = descriptor::read(&reader, &mut chunk) {
                got.extend_from_slice(&chunk[..n]);
            }
        };
        for piece in pieces {
            assert_eq!(nix::unistd::write(&trainers, piece).unwrap(), piece.len());
            while descriptor::waiting(&ours) > 0 || users.waits().is_some() {
                if users.waits().is_some() {
                    read_out(&mut got);
                    users.flush();
                    continue;
                }
                match users.pass(&ours, buffer.len()) {
                    Passed::Bytes(n) => {
                        referred += n;
                        assert_eq!(descriptor::read(&ours, &mut buffer[..n]), Got::Bytes(n));
                    }
                    Passed::Full => {}
                    Passed::Nothing => match descriptor::read(&ours, &mut buffer) {
                        Got::Bytes(n) => users.push(&buffer[..n]),
                        Got::Nothing | Got::End => panic!("there is something to read"),
                    },
                }
            }
        }
        assert!(users.is_idle());
        users.let_go();
        loop {
            let before = got.len();
            read_out(&mut got);
            if got.len() == before {
                return (got, referred);
            }
        }
    }

    fn counted(pieces: &[usize]) -> Vec<Vec<u8>> {
        let mut n = 0usize;
        let mut byte = || {
            n += 1;
            (n % 251) as u8
        };
        let piece = |length: &usize| (0..*length).map(|_| byte()).collect();
        pieces.iter().map(piece).collect()
    }

    #[test]
    fn much_and_little_arrive_whole_and_in_order() {
        let pieces = counted(&[7, 200_000, 80, 5_000, 65_536, 1, 250_000, 65_535, 70_001]);
        let (got, referred) = moved(&pieces);
        assert!(got == pieces.concat());
        assert!(referred > 200_000, "{referred}");
    }

    #[test]
    fn small_pieces_share_the_pages_of_the_users_pipe() {
        let (reader, writer) = descriptor::pipe().unwrap();
        let (ours, trainers) = descriptor::pipe().unwrap();
        descriptor::set_nonblocking(&writer).unwrap();
        let mut users = UsersPipe::over(writer);
        // A reader that waits for the program's end before it reads: 40 KB fit into a pipe.
        let mut buffer = [0; 80];
        for _ in 0..500 {
            nix::unistd::write(&trainers, &[b'x'; 80]).unwrap();
            assert_eq!(users.pass(&ours, 80), Passed::Nothing);
            assert_eq!(descriptor::read(&ours, &mut buffer), Got::Bytes(80));
            users.push(&buffer);
        }
        assert!(users.is_idle() && users.has_room());
        assert_eq!(descriptor::waiting(&reader), 40_000);
    }

    #[test]
    fn a_reader_that_is_gone_swallows_the_rest() {
        for much in [80, 100_000] {
            let (reader, writer) = descriptor::pipe().unwrap();
            let (ours, trainers) = descriptor::pipe().unwrap();
            descriptor::set_nonblocking(&writer).unwrap();
            widen(&ours);
            drop(reader);
            let mut users = UsersPipe::over(writer);
            nix::unistd::write(&trainers, &vec![b'x'; much]).unwrap();
            assert_eq!(users.pass(&ours, 1 << 16), Passed::Nothing);
            users.push(&[b'x'; 80]);
            assert!(users.is_idle() && users.has_room() && users.waits().is_none());
        }
    }
}
