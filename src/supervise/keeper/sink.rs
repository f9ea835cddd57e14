//! One of the user's own streams: a pipe that the loop writes to itself, or a thread that writes.

use super::descriptor;
use super::user_stream;
use super::users_pipe::UsersPipe;
use crate::background::BackgroundWriter;
use std::io;
use std::os::fd::{OwnedFd, RawFd};

/// Where a stream goes.
pub(super) enum Sink {
    /// A pipe that could be opened once more.
    Pipe(UsersPipe),
    /// A terminal, a socket, a file, or a pipe of somebody else's.
    Writer(BackgroundWriter),
}

impl Sink {
    /// The user's stream `number`; `wake` is told when a thread has room again.
    pub(super) fn open(number: i32, wake: &OwnedFd) -> io::Result<Sink> {
        Ok(match UsersPipe::open(number) {
            Some(pipe) => Sink::Pipe(pipe),
            None => Sink::Writer(user_stream::start(
                descriptor::standard(number),
                wake.try_clone()?,
            )?),
        })
    }

    /// The thread, where there is one.
    pub(super) fn writer(&self) -> Option<&BackgroundWriter> {
        match self {
            Sink::Pipe(_) => None,
            Sink::Writer(writer) => Some(writer),
        }
    }

    /// How many bytes it takes now.
    pub(super) fn room(&self) -> usize {
        match self {
            Sink::Pipe(pipe) if pipe.has_room() => usize::MAX,
            Sink::Pipe(_) => 0,
            Sink::Writer(writer) => writer.room(),
        }
    }

    /// Takes bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        match self {
            Sink::Pipe(pipe) => pipe.push(bytes),
            Sink::Writer(writer) => writer.push(bytes),
        }
    }

    /// Whether all is written that it was given.
    pub(super) fn is_idle(&self) -> bool {
        match self {
            Sink::Pipe(pipe) => pipe.is_idle(),
            Sink::Writer(writer) => writer.is_idle(),
        }
    }

    /// The descriptor to poll for room, where no thread tells of it.
    pub(super) fn waits(&self) -> Option<RawFd> {
        match self {
            Sink::Pipe(pipe) => pipe.waits(),
            Sink::Writer(_) => None,
        }
    }
}
