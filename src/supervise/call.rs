//! The client side of a keeper's socket: `oomph ls`, `stop` and `attach` call it from outside.

use super::report::KeeperReport;
use super::status::{Call, SessionStatus};
use super::wire::{self, Decoder};
use crate::units::Pid;
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Connects to the keeper that listens at `path`. Returns the connection and the keeper's PID.
///
/// # Errors
/// `ConnectionRefused` or `NotFound` if nobody listens; `PermissionDenied` if another user does.
pub(super) fn call(path: &Path, call: Call) -> io::Result<(UnixStream, Pid)> {
    let mut socket = UnixStream::connect(path)?;
    let peer = getsockopt(&socket, PeerCredentials)?;
    if peer.uid() != nix::unistd::geteuid().as_raw() {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("the session belongs to user {}", peer.uid()),
        ));
    }
    socket.write_all(&wire::json(&call))?;
    Ok((socket, Pid(peer.pid())))
}

/// The keeper's reports to a caller, one at a time.
#[derive(Debug)]
pub struct KeeperAnswers {
    /// The process that answers, or will.
    pub keeper: Pid,
    socket: UnixStream,
    decoder: Decoder,
}

impl KeeperAnswers {
    /// Calls the keeper that listens at `path`; not for [`Call::Attach`].
    pub fn of(path: &Path, what: Call) -> io::Result<KeeperAnswers> {
        let (socket, keeper) = call(path, what)?;
        Ok(KeeperAnswers {
            keeper,
            socket,
            decoder: Decoder::default(),
        })
    }

    /// Waits up to `limit` for the next report; `None` if there will be none.
    ///
    /// # Errors
    /// `WouldBlock` if none came in time; otherwise the connection broke.
    pub fn next(&mut self, limit: Duration) -> io::Result<Option<KeeperReport>> {
        let mut chunk = [0; 16 << 10];
        self.socket.set_read_timeout(Some(limit))?;
        loop {
            match self.decoder.next_report() {
                Ok(Some(report)) => return Ok(Some(report)),
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

/// Asks the keeper that listens at `path` for the session's status, for at most `limit`.
///
/// # Errors
/// As [`KeeperAnswers`]; `UnexpectedEof` if the keeper hung up without an answer.
pub fn look(path: &Path, limit: Duration) -> io::Result<SessionStatus> {
    match KeeperAnswers::of(path, Call::Look)?.next(limit)? {
        Some(KeeperReport::Welcome(status)) => Ok(status),
        Some(_) | None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Calls the keeper that listens at `path` without waiting for an answer.
pub fn pass_on(path: &Path, what: Call) -> io::Result<()> {
    call(path, what).map(drop)
}
