//! Who calls at the session's socket, and who only listens.
//!
//! A caller may be anybody who can open the socket, or out of its mind: another user's process is
//! refused by the kernel's word for who it is, a first frame has a bound, and there is room for few
//! at a time. Nothing here waits for a caller, and none of it reaches the trainer.

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

/// Callers at a time that have not said what they want, and listeners at a time.
const MOST: usize = 16;

/// A caller says what it wants at once; the process may be stopped in between.
const WORD_WITHIN: Duration = Duration::from_secs(10);

/// Rest after an accept that failed (no descriptors left, say), so that it is no busy loop.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// The socket, and those who have connected and not yet said what they want.
pub(super) struct Callers {
    listener: UnixListener,
    rest_until: Option<Instant>,
    waiting: Vec<Caller>,
}

/// Somebody who has connected.
pub(super) struct Caller {
    /// The connection.
    pub socket: OwnedFd,
    /// What it sent and was not yet taken.
    pub decoder: Decoder,
    /// Its process, 0 where it lives in another PID namespace.
    pub pid: i32,
    since: Instant,
}

/// What has become of a caller.
enum CallerState {
    /// Nothing yet.
    Awaited,
    /// It said this.
    Said(Call),
    /// It is gone, or said what is no call.
    Nothing,
}

impl Callers {
    /// Listens at `path`, for this user alone.
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

    /// Lets callers in and hears what they want.
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
                CallerState::Said(call) => said.push((caller, call)),
                CallerState::Awaited if now < caller.since + WORD_WITHIN => {
                    self.waiting.push(caller)
                }
                CallerState::Awaited | CallerState::Nothing => {}
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
    fn listen(&mut self) -> CallerState {
        let mut chunk = [0; 4096];
        match descriptor::read(&self.socket, &mut chunk) {
            Got::Bytes(n) => self.decoder.push(chunk.get(..n).unwrap_or_default()),
            Got::Nothing => {}
            Got::End => return CallerState::Nothing,
        }
        match self.decoder.next() {
            Ok(None) => CallerState::Awaited,
            Ok(Some(frame)) => frame
                .into_call()
                .map_or(CallerState::Nothing, CallerState::Said),
            Err(_) => CallerState::Nothing,
        }
    }

    /// KeeperAnswers with how things stand, and hangs up.
    pub(super) fn answer(self, status: SessionStatus) {
        tell(&self.socket, &KeeperReport::Welcome(status));
    }
}

/// Says something that fits into a socket's buffer; whether it did.
fn tell(socket: impl AsFd, report: &KeeperReport) -> bool {
    let bytes = wire::report(report);
    // A listener that leaves a buffer of some hundred kilobytes full has stopped listening.
    descriptor::write(socket, &bytes) == Put::Bytes(bytes.len())
}

/// Those who only listen: for the ends of runs, and of the session.
#[derive(Default)]
pub(super) struct Followers {
    sockets: Vec<OwnedFd>,
    told_end: bool,
}

impl Followers {
    /// One more.
    pub(super) fn add(&mut self, socket: OwnedFd) {
        if self.sockets.len() < MOST {
            self.sockets.push(socket);
        }
    }

    /// Tells them what concerns them.
    pub(super) fn hear(&mut self, report: &KeeperReport) {
        match report {
            KeeperReport::Started { .. }
            | KeeperReport::SpawnFailed { .. }
            | KeeperReport::Exited { .. }
            | KeeperReport::Swept { .. }
            | KeeperReport::Stopping { .. } => self.sockets.retain(|socket| tell(socket, report)),
            KeeperReport::Output { .. }
            | KeeperReport::Recent(_)
            | KeeperReport::Gap { .. }
            | KeeperReport::Suspended { .. }
            | KeeperReport::Resumed
            | KeeperReport::Unlogged { .. }
            | KeeperReport::Note(_)
            | KeeperReport::Welcome(_)
            | KeeperReport::Superseded
            | KeeperReport::StopAsked { .. }
            | KeeperReport::Signalled(_)
            | KeeperReport::Finished => {}
        }
    }

    /// Tells them that the session is over, once.
    pub(super) fn hear_the_end(&mut self) {
        if !std::mem::replace(&mut self.told_end, true) {
            let end = KeeperReport::Finished;
            self.sockets.retain(|socket| tell(socket, &end));
        }
    }
}
