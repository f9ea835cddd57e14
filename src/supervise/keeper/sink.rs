//! One of the user's own streams: a pipe that the loop itself writes to, or a writer thread.

use super::descriptor;
use super::user_stream;
use super::users_pipe::UsersPipe;
use crate::background::BackgroundWriter;
use std::io;
use std::os::fd::{OwnedFd, RawFd};

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
    pub(super) fn open(number: i32, wake: &OwnedFd) -> io::Result<Sink> {
        Ok(match UsersPipe::open(number) {
            Some(pipe) => Sink::Pipe(pipe),
            None => Sink::Writer(user_stream::start(
                descriptor::users(number),
                wake.try_clone()?,
            )?),
        })
    }

    /// Gives it up if bytes wait for its reader; they, and all that come, are counted.
    pub(super) fn give_up(&mut self) {
        let waiting = match self {
            Sink::Pipe(pipe) if !pipe.has_room() => pipe.waiting(),
            Sink::Writer(writer) if !writer.is_idle() => writer.waiting(),
            Sink::Pipe(_) | Sink::Writer(_) | Sink::GivenUp(_) => return,
        };
        *self = Sink::GivenUp(waiting as u64);
    }

    /// How many bytes its reader did not get, since the last time it was asked.
    pub(super) fn take_undelivered(&mut self) -> u64 {
        match self {
            Sink::GivenUp(bytes) => std::mem::take(bytes),
            Sink::Pipe(_) | Sink::Writer(_) => 0,
        }
    }

    pub(super) fn writer(&self) -> Option<&BackgroundWriter> {
        match self {
            Sink::Pipe(_) | Sink::GivenUp(_) => None,
            Sink::Writer(writer) => Some(writer),
        }
    }

    pub(super) fn room(&self) -> usize {
        match self {
            Sink::Pipe(pipe) if pipe.has_room() => usize::MAX,
            Sink::Pipe(_) => 0,
            Sink::GivenUp(_) => usize::MAX,
            Sink::Writer(writer) => writer.room(),
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        match self {
            Sink::Pipe(pipe) => pipe.push(bytes),
            Sink::Writer(writer) => writer.push(bytes),
            Sink::GivenUp(undelivered) => *undelivered += bytes.len() as u64,
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        match self {
            Sink::Pipe(pipe) => pipe.is_idle(),
            Sink::Writer(writer) => writer.is_idle(),
            Sink::GivenUp(_) => true,
        }
    }

    /// The descriptor to poll for room, if no thread reports it.
    pub(super) fn waits(&self) -> Option<RawFd> {
        match self {
            Sink::Pipe(pipe) => pipe.waits(),
            Sink::Writer(_) | Sink::GivenUp(_) => None,
        }
    }
}
