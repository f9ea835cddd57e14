//! The front's Unix socket, which the probes in the training's processes report to.
//!
//! A peer may be a stranger or broken: a process of another user is rejected, the length of a line
//! is limited, the first must be a hello, and a connection that sends anything but events is closed
//! and counted. None of this affects other connections or the training.

mod connection;
mod request;

pub use request::{ProbeRequest, ProbeRequests};

use crate::event::{Clock, Event, EventKind, Level, Note};
use nix::unistd::Uid;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::Path;
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc::Sender;
use tokio::task::JoinSet;

/// The longest path of a Unix socket: `sockaddr_un.sun_path` has 108 bytes, one of them the NUL.
pub const LONGEST_PATH: usize = 107;

/// The maximum number of connections. A training has one per process that uses a device.
const MOST_CONNECTIONS: usize = 256;

/// The pause after a failed accept (for example without free file descriptors), to avoid a busy
/// loop.
const AFTER_FAILED_ACCEPT: Duration = Duration::from_millis(100);

/// The hello follows at once, but the process may be stopped in between.
const HELLO_WITHIN: Duration = Duration::from_secs(10);

/// Whether a socket can have this path.
pub fn fits(path: &Path) -> bool {
    path.as_os_str().len() <= LONGEST_PATH
}

/// Binds the socket, 0600, replacing one left by a dead session. Must be called in a tokio runtime.
///
/// # Errors
/// `InvalidInput` if the path is too long ([`fits`]) or not usable for a socket; `AddrInUse` if
/// somebody listens there or the path is no socket; else the system's error. Each names the path.
pub fn bind(path: &Path) -> io::Result<UnixListener> {
    if !fits(path) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "{}: a socket's path can have at most {LONGEST_PATH} bytes, this one has {}; set XDG_RUNTIME_DIR or TMPDIR to a shorter directory",
                path.display(),
                path.as_os_str().as_bytes().len()
            ),
        ));
    }
    let about = |error: io::Error| {
        io::Error::new(
            error.kind(),
            format!("cannot listen on {}: {error}", path.display()),
        )
    };
    remove_stale(path).map_err(about)?;
    let listener = UnixListener::bind(path).map_err(about)?;
    fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(about)?;
    Ok(listener)
}

/// The same, replacing the socket of an earlier front even if that still listens.
///
/// # Errors
/// As [`bind`].
pub fn take_over(path: &Path) -> io::Result<UnixListener> {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    if is_socket {
        fs::remove_file(path)?;
    }
    bind(path)
}

/// Removes a socket that nobody listens on; anything else is left for `bind` to reject.
fn remove_stale(path: &Path) -> io::Result<()> {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    let is_dead = || {
        BlockingStream::connect(path)
            .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    };
    if is_socket && is_dead() {
        fs::remove_file(path)?;
    }
    Ok(())
}

/// Accepts connections and sends their events, until the receiver is gone. Dropping the future
/// closes all of them.
///
/// Samples are dropped and counted if the channel is full. Everything else waits, and so does its
/// sender: the probe drops and counts in turn, so the training never waits.
pub async fn serve(
    listener: UnixListener,
    clock: Clock,
    requests: ProbeRequests,
    sender: Sender<Event>,
) {
    serve_within(listener, clock, requests, sender, HELLO_WITHIN).await;
}

async fn serve_within(
    listener: UnixListener,
    clock: Clock,
    requests: ProbeRequests,
    sender: Sender<Event>,
    hello_within: Duration,
) {
    let mut connections = JoinSet::new();
    let mut refusals = RejectionNotes::default();
    loop {
        while connections.try_join_next().is_some() {}
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = sender.closed() => return,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(_) => {
                tokio::time::sleep(AFTER_FAILED_ACCEPT).await;
                continue;
            }
        };
        match admit(&stream, connections.len()) {
            Ok(peer) => {
                connections.spawn(connection::follow(
                    stream,
                    peer,
                    clock,
                    requests.subscribe(),
                    sender.clone(),
                    hello_within,
                ));
            }
            Err(refusal) => {
                if let Some(text) = refusals.first_word_of(refusal) {
                    let note = EventKind::Note(Note {
                        level: Level::Warning,
                        text,
                    });
                    let at = clock.now();
                    if sender.send(Event { at, what: note }).await.is_err() {
                        return;
                    }
                }
            }
        }
    }
}

/// Why a connection was closed before its first line.
enum RejectedPeer {
    OtherUser(u32),
    TooMany,
    NoCredentials,
}

/// The peer's PID as reported by the kernel; 0 if it is in another PID namespace.
fn admit(stream: &UnixStream, open: usize) -> Result<i32, RejectedPeer> {
    let peer = stream
        .peer_cred()
        .map_err(|_| RejectedPeer::NoCredentials)?;
    if peer.uid() != Uid::effective().as_raw() {
        return Err(RejectedPeer::OtherUser(peer.uid()));
    }
    if open >= MOST_CONNECTIONS {
        return Err(RejectedPeer::TooMany);
    }
    Ok(peer.pid().unwrap_or(0))
}

/// Reports each kind of rejection once: a thousand attempts must not fill the recording.
#[derive(Default)]
struct RejectionNotes {
    other_user: bool,
    too_many: bool,
}

impl RejectionNotes {
    fn first_word_of(&mut self, refusal: RejectedPeer) -> Option<String> {
        let (said, text) = match refusal {
            RejectedPeer::OtherUser(uid) => (
                &mut self.other_user,
                format!("rejected a process of another user ({uid}) at the probe's socket"),
            ),
            RejectedPeer::TooMany => (
                &mut self.too_many,
                format!(
                    "more than {MOST_CONNECTIONS} processes report memory at the same time: the rest are not shown"
                ),
            ),
            RejectedPeer::NoCredentials => return None,
        };
        (!std::mem::replace(said, true)).then_some(text)
    }
}

#[cfg(test)]
mod tests;
