//! What the keeper tells whoever comes later: how its session stands, and what callers may ask.
//!
//! The recording says what happened; the keeper alone says what is. Where the two differ (a front
//! that was killed in the middle of a line) the keeper is right.

use super::order::Io;
use super::report::Report;
use super::wire::{self, Decoder};
use crate::event::Exit;
use crate::units::{Pid, RunNumber};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// How a session stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// Where output that is meant for the first front's terminal goes.
    pub io: Io,
    /// The latest run; `None` before there was one.
    pub run: Option<RunStanding>,
    /// Whether somebody asked for the session to end.
    pub stopping: bool,
    /// Whether a front follows the session at the moment.
    pub front: bool,
    /// What the last front left for the next ([`Order::Remember`](super::Order::Remember)); only a
    /// front is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
    /// What the last front said of the session for others ([`Order::Describe`](super::Order::Describe)).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub described: Option<String>,
}

/// How a run stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunStanding {
    /// Which.
    pub run: RunNumber,
    /// How far it has come.
    pub stage: RunStage,
}

/// How far a run has come, as far as others need to know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStage {
    /// Its program is not there yet.
    Starting,
    /// It is alive, or its last output is being taken out.
    Running {
        /// The direct child.
        pid: Pid,
        /// When it began, in clock ticks since boot.
        start_time: u64,
    },
    /// It is over.
    Ended {
        /// How it ended.
        exit: Exit,
        /// Processes of its tree that were alive then.
        left: Vec<Pid>,
    },
    /// It could not be started.
    Failed {
        /// What to exit with.
        status: i32,
    },
}

/// What a caller at the keeper's socket asks for: its first and only frame, unless it becomes the
/// front.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// To be the front, in place of the one there is. Answered by
    /// [`Report::Welcome`](super::Report::Welcome) once that has gone.
    Attach,
    /// To be told how the session stands.
    Look,
    /// That the session ends, as [`Order::Stop`](super::Order::Stop) has it. The caller hears of the
    /// ends of runs, and of the session's.
    Stop,
    /// The same, by SIGKILL.
    Kill,
    /// That a signal which reached the caller is dealt with as one that reached the front.
    Forward(i32),
}

/// How a new front comes to its keeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deputy {
    /// The front before it went away on purpose.
    Follows,
    /// The front before it died: whatever it died of is kept away from.
    Replaces,
}

/// Calls the keeper that listens at `path`; the connection, and the keeper's process.
///
/// # Errors
/// `ConnectionRefused` or `NotFound` where nobody listens; `PermissionDenied` where it is another
/// user who does; else the system's.
pub(super) fn call(path: &Path, call: Call) -> io::Result<(UnixStream, Pid)> {
    let mut socket = UnixStream::connect(path)?;
    let peer = getsockopt(&socket, PeerCredentials)?;
    if peer.uid() != nix::unistd::geteuid().as_raw() {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("it is a session of user {}", peer.uid()),
        ));
    }
    socket.write_all(&wire::call(call))?;
    Ok((socket, Pid(peer.pid())))
}

/// A caller's ear: what the keeper says to it, one report at a time.
#[derive(Debug)]
pub struct Answers {
    socket: UnixStream,
    decoder: Decoder,
}

impl Answers {
    /// Calls the keeper that listens at `path` for anything but the front's place.
    ///
    /// # Errors
    /// Nobody listens there, or somebody who is none of ours.
    pub fn of(path: &Path, what: Call) -> io::Result<Answers> {
        let (socket, _) = call(path, what)?;
        Ok(Answers {
            socket,
            decoder: Decoder::default(),
        })
    }

    /// The next report, waited for no longer than `limit`; `None` where there will be none.
    ///
    /// # Errors
    /// `WouldBlock` where it did not come in time; else the connection broke.
    pub fn next(&mut self, limit: Duration) -> io::Result<Option<Report>> {
        let mut chunk = [0; 16 << 10];
        self.socket.set_read_timeout(Some(limit))?;
        loop {
            match self.decoder.next() {
                Ok(Some(frame)) => match frame.into_report() {
                    Some(report) => return Ok(Some(report)),
                    None => continue,
                },
                Ok(None) => {}
                Err(wire::Malformed) => return Ok(None),
            }
            match self.socket.read(&mut chunk) {
                Ok(0) => return Ok(None),
                Ok(n) => self.decoder.push(&chunk[..n]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// How the session stands whose keeper listens at `path`, asked for no longer than `limit`.
///
/// # Errors
/// As [`Answers`]; `UnexpectedEof` where the keeper hung up without an answer.
pub fn look(path: &Path, limit: Duration) -> io::Result<Standing> {
    match Answers::of(path, Call::Look)?.next(limit)? {
        Some(Report::Welcome(standing)) => Ok(standing),
        Some(_) | None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Says something to the keeper that listens at `path` and needs no answer.
///
/// # Errors
/// Nobody listens there, or somebody who is none of ours.
pub fn pass_on(path: &Path, what: Call) -> io::Result<()> {
    call(path, what).map(drop)
}
