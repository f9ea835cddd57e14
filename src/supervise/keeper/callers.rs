//! Callers at the session's socket, and those who keep listening.
//!
//! A caller may be any process that can open the socket, and may send anything: the kernel tells
//! whose process it is, and those of other users are refused; a first frame has a bound; and only a
//! few can connect at a time. Nothing here waits for a caller, and nothing reaches the trainer.

use super::descriptor::{self, Got, Put};
use crate::supervise::KeeperReport;
use crate::supervise::status::{Call, SessionStatus};
use crate::supervise::wire::{self, Decoder};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use std::fs::{self, Permissions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::{Duration, Instant};

/// The maximum of callers without a request at a time, and of listeners.
const MOST: usize = 16;

/// The time for a caller's request, which normally comes at once; its process may be suspended.
const WORD_WITHIN: Duration = Duration::from_secs(10);

/// The pause after a failed accept (no descriptors left, for example), to avoid a busy loop.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// The socket, and the callers that haven't sent a request yet.
pub(super) struct Callers {
    listener: UnixListener,
    rest_until: Option<Instant>,
    waiting: Vec<Caller>,
}

pub(super) struct Caller {
    pub socket: OwnedFd,
    /// What it has sent so far.
    pub decoder: Decoder,
    /// Its process; 0 if it is in another PID namespace.
    pub pid: i32,
    since: Instant,
}

impl Callers {
    /// Listens at `path`, for this user only.
    pub(super) fn listen(path: &Path) -> io::Result<Callers> {
        let listener = UnixListener::bind(path)?;
        fs::set_permissions(path, Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        Ok(Callers {
            listener,
            rest_until: None,
            waiting: Vec::new(),
        })
    }

    /// The descriptors to be polled for reading.
    pub(super) fn polled(&self, now: Instant) -> impl Iterator<Item = RawFd> + '_ {
        let rests = self.rest_until.is_some_and(|until| until > now);
        let listener = (!rests).then(|| self.listener.as_raw_fd());
        listener
            .into_iter()
            .chain(self.waiting.iter().map(|caller| caller.socket.as_raw_fd()))
    }

    /// When to look again in any case.
    pub(super) fn due(&self, now: Instant) -> Option<Instant> {
        let patience = self.waiting.iter().map(|caller| caller.since + WORD_WITHIN);
        let rest = self.rest_until.filter(|until| *until > now);
        patience.chain(rest).min()
    }

    /// Accepts callers and returns those with a request.
    pub(super) fn serve(&mut self, now: Instant) -> Vec<(Caller, Call)> {
        while self.rest_until.is_none_or(|until| until <= now) {
            self.rest_until = None;
            match self.listener.accept() {
                Ok((stream, _)) => self.admit(stream.into(), now),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => break,
                    io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => {}
                    _ => self.rest_until = Some(now + AFTER_FAILURE),
                },
            }
        }
        let mut said = Vec::new();
        for mut caller in std::mem::take(&mut self.waiting) {
            match caller.listen() {
                Ok(Some(call)) => said.push((caller, call)),
                Ok(None) if now < caller.since + WORD_WITHIN => self.waiting.push(caller),
                Ok(None) | Err(wire::Malformed) => {}
            }
        }
        said
    }

    fn admit(&mut self, socket: OwnedFd, now: Instant) {
        let Ok(peer) = getsockopt(&socket, PeerCredentials) else {
            return;
        };
        let stranger = peer.uid() != nix::unistd::geteuid().as_raw();
        if stranger || self.waiting.len() >= MOST || descriptor::set_nonblocking(&socket).is_err() {
            return;
        }
        self.waiting.push(Caller {
            socket,
            decoder: Decoder::for_strangers(),
            pid: peer.pid(),
            since: now,
        });
    }
}

impl Caller {
    /// What it has said so far; `Malformed` also if it has gone.
    fn listen(&mut self) -> Result<Option<Call>, wire::Malformed> {
        let mut chunk = [0; 4096];
        match descriptor::read(&self.socket, &mut chunk) {
            Got::Bytes(n) => self.decoder.push(chunk.get(..n).unwrap_or_default()),
            Got::Nothing => {}
            Got::End => return Err(wire::Malformed),
        }
        match self.decoder.next()? {
            None => Ok(None),
            Some(frame) => frame.json().map(Some).ok_or(wire::Malformed),
        }
    }

    /// Answers with the session's status, and hangs up.
    pub(super) fn answer(self, status: SessionStatus) {
        tell(&self.socket, &KeeperReport::Welcome(status));
    }
}

/// Sends a report if it fits into the socket's buffer; whether it did.
fn tell(socket: impl AsFd, report: &KeeperReport) -> bool {
    let bytes = wire::report(report);
    // A listener whose buffer of some hundred kilobytes is full has stopped listening.
    descriptor::write(socket, &bytes) == Put::Bytes(bytes.len())
}

/// Callers that wait for the end of runs and of the session.
#[derive(Default)]
pub(super) struct Followers {
    sockets: Vec<OwnedFd>,
    told_end: bool,
}

impl Followers {
    pub(super) fn add(&mut self, socket: OwnedFd) {
        if self.sockets.len() < MOST {
            self.sockets.push(socket);
        }
    }

    pub(super) fn hear(&mut self, report: &KeeperReport) {
        if let KeeperReport::Started { .. }
        | KeeperReport::SpawnFailed { .. }
        | KeeperReport::Exited { .. }
        | KeeperReport::Swept { .. }
        | KeeperReport::Undelivered { .. }
        | KeeperReport::Stopping { .. } = report
        {
            self.sockets.retain(|socket| tell(socket, report));
        }
    }

    /// Tells them once that the session is over.
    pub(super) fn hear_the_end(&mut self) {
        if !std::mem::replace(&mut self.told_end, true) {
            let end = KeeperReport::Finished;
            self.sockets.retain(|socket| tell(socket, &end));
        }
    }
}
