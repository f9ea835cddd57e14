//! The front's Unix socket, which the probes in the training's processes report to.
//!
//! A peer may be a stranger or broken: a process of another user is rejected, the length of a line
//! is limited, the first must be a hello (or how data is loaded, or a mark, of a process without CUDA), and a connection that sends
//! anything but events is closed and counted. None of this affects other connections or the training.

use crate::collect::line;
use crate::event::{Clock, Dropped, Event, EventKind, Level, Note, ProbeGone};
use crate::units::Pid;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::Uid;
use serde::Serialize;
use std::fs::{self, Permissions};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI32, AtomicUsize};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::broadcast;
use tokio::sync::mpsc::Sender;
use tokio::sync::mpsc::error::TrySendError;
use tokio::task::JoinSet;
use tokio::time::Instant;

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

/// Binds like [`bind`], and replaces the socket of an earlier front even if that still listens.
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
    let _listening = requests.0.listen(&listener);
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
                let open = OpenConnection::new(&requests.0);
                let read = follow(
                    stream,
                    peer,
                    clock,
                    requests.subscribe(),
                    sender.clone(),
                    hello_within,
                );
                connections.spawn(async move {
                    read.await;
                    drop(open);
                });
            }
            Err(refusal) => {
                if let Some(text) = refusals.first_word_of(refusal) {
                    let note = EventKind::Note(Note::new(Level::Warning, text));
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

/// The maximum length of a line. The longest of the probe is an OOM record with stacks: tens of
/// kilobytes.
pub(super) const LONGEST_LINE: usize = 1 << 20;

/// The size of a read. A second of samples and steps is about ten kilobytes.
const READ: usize = 16 << 10;

/// How long a request may wait for a probe to read the ones before.
const WRITE: Duration = Duration::from_millis(200);

/// Why a connection is no longer read.
enum ConnectionEnd {
    /// The probe closed it, or its process ended.
    Closed,
    /// It broke, with the system's message.
    Broken(String),
    /// It sent something other than an event, and what was wrong with that.
    Malformed(&'static str),
    /// The receiver of events is gone.
    NobodyListens,
}

/// Reads a connection to its end. `peer_pid` is 0 if the kernel has no PID for the peer here.
async fn follow(
    mut stream: UnixStream,
    peer_pid: i32,
    clock: Clock,
    requests: RequestReceiver,
    sender: Sender<Event>,
    hello_within: Duration,
) {
    let mut connection = Connection {
        peer: (peer_pid > 0).then_some(Pid(peer_pid)),
        greeted: None,
        is_early: false,
        lost_samples: 0,
        clock,
        requests,
        sender,
    };
    let end = connection.read_to_end(&mut stream, hello_within).await;
    // Closed first, so that a peer that never stops sending notices.
    drop(stream);
    connection.finish(end).await;
}

/// What a connection waits for.
enum Arrived {
    Bytes(std::io::Result<usize>),
    /// No hello in time.
    Nothing,
    /// A line that the probe is to get.
    Request(Vec<u8>),
}

struct Connection {
    /// The process as reported by the kernel.
    peer: Option<Pid>,
    /// The process that said hello.
    greeted: Option<Pid>,
    /// It has only said how it loads its data: it has not initialised CUDA, and may never do so.
    is_early: bool,
    /// Dropped samples that have not been reported yet.
    lost_samples: u64,
    clock: Clock,
    requests: RequestReceiver,
    sender: Sender<Event>,
}

impl Connection {
    async fn read_to_end(
        &mut self,
        stream: &mut UnixStream,
        hello_within: Duration,
    ) -> ConnectionEnd {
        let mut unread = Vec::new();
        let mut searched = 0;
        let hello_until = Instant::now() + hello_within;
        loop {
            unread.reserve(READ);
            let greeted = self.greeted;
            let waits_for_hello = greeted.is_none() && !self.is_early;
            let arrived = tokio::select! {
                read = stream.read_buf(&mut unread) => Arrived::Bytes(read),
                () = tokio::time::sleep_until(hello_until), if waits_for_hello => Arrived::Nothing,
                request = self.requests.next(greeted), if greeted.is_some() => Arrived::Request(request),
            };
            let read = match arrived {
                Arrived::Bytes(read) => read,
                Arrived::Nothing => return ConnectionEnd::Malformed("did not say hello"),
                Arrived::Request(line) => {
                    // A probe that does not read has nothing to answer; its lines still count.
                    let _ = tokio::time::timeout(WRITE, stream.write_all(&line)).await;
                    continue;
                }
            };
            match read {
                Ok(0) if unread.is_empty() => return ConnectionEnd::Closed,
                Ok(0) => return ConnectionEnd::Malformed("stopped in the middle of a line"),
                Ok(_) => {}
                Err(error) => return ConnectionEnd::Broken(error.to_string()),
            }
            let mut start = 0;
            while let Some(found) = memchr::memchr(b'\n', &unread[searched..]) {
                let end = searched + found;
                if let Err(end) = self.take(&unread[start..end]).await {
                    return end;
                }
                (start, searched) = (end + 1, end + 1);
            }
            unread.drain(..start);
            searched = unread.len();
            if searched > LONGEST_LINE {
                return ConnectionEnd::Malformed("sent a line that is too long");
            }
        }
    }

    async fn take(&mut self, bytes: &[u8]) -> Result<(), ConnectionEnd> {
        let Some(event) = line::read(bytes, self.peer, |ns| self.clock.at_monotonic_ns(ns)) else {
            return Err(ConnectionEnd::Malformed("sent a line that is not an event"));
        };
        match (&event.what, self.greeted) {
            (EventKind::Hello(hello), None) => self.greeted = Some(hello.pid),
            (EventKind::Hello(_), Some(_)) => {
                return Err(ConnectionEnd::Malformed("said hello twice"));
            }
            (EventKind::ProcessHost(_) | EventKind::Note(_), None) => self.is_early = true,
            (_, None) => return Err(ConnectionEnd::Malformed("did not say hello")),
            (_, Some(_)) => {}
        }
        match event.what {
            EventKind::Sample(_) => self.send_or_drop(event),
            _ => self.send(event).await,
        }
    }

    /// A sample isn't worth waiting for; the next one follows soon.
    fn send_or_drop(&mut self, event: Event) -> Result<(), ConnectionEnd> {
        match self.sender.try_send(event) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => self.lost_samples += 1,
            Err(TrySendError::Closed(_)) => return Err(ConnectionEnd::NobodyListens),
        }
        if self.lost_samples > 0 && self.sender.capacity() > 0 {
            let lost = self.lost();
            match self.sender.try_send(self.now(lost)) {
                Ok(()) => self.lost_samples = 0,
                Err(TrySendError::Full(_)) => {}
                Err(TrySendError::Closed(_)) => return Err(ConnectionEnd::NobodyListens),
            }
        }
        Ok(())
    }

    async fn send(&mut self, event: Event) -> Result<(), ConnectionEnd> {
        let sent = self.sender.send(event).await;
        sent.map_err(|_| ConnectionEnd::NobodyListens)
    }

    fn lost(&self) -> EventKind {
        EventKind::Dropped(Dropped {
            samples: self.lost_samples,
            ..Dropped::default()
        })
    }

    fn now(&self, what: EventKind) -> Event {
        Event {
            at: self.clock.now(),
            what,
        }
    }

    async fn finish(mut self, end: ConnectionEnd) {
        let (malformed, reason) = match end {
            ConnectionEnd::NobodyListens => return,
            ConnectionEnd::Closed => (0, None),
            ConnectionEnd::Broken(reason) => (0, Some(format!("its connection broke: {reason}"))),
            ConnectionEnd::Malformed(what) => (1, Some(format!("it {what}"))),
        };
        if malformed > 0 || self.lost_samples > 0 {
            let dropped = EventKind::Dropped(Dropped {
                samples: self.lost_samples,
                malformed,
                ..Dropped::default()
            });
            if self.send(self.now(dropped)).await.is_err() {
                return;
            }
        }
        if let Some(pid) = self.greeted {
            let gone = self.now(EventKind::ProbeGone(ProbeGone {
                pid,
                reason,
                said_end: false,
            }));
            // The connection has ended, whether or not anybody receives that.
            let _ = self.send(gone).await;
        }
    }
}

// What a probe can be asked to do, on the connection that it reports over. It acts on nothing else: a
// request is made when the user presses a key that says what it costs.

/// Requests that a connection may be behind: a person presses keys slower than that.
const WAITING: usize = 16;

/// What a probe is asked for, as a line of the wire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub enum ProbeRequest {
    /// Who keeps memory alive: the training waits meanwhile.
    Retainers,
    /// PyTorch's own snapshot, saved in this directory.
    Snapshot { directory: PathBuf },
    /// The next step, allocation by allocation, and not only once it is due.
    Trace,
}

/// The way to the connections there are, and will be.
#[derive(Debug, Clone)]
pub struct ProbeRequests(Arc<Connections>);

#[derive(Debug)]
struct Connections {
    requests: broadcast::Sender<(Pid, ProbeRequest)>,
    /// Those that are accepted and not yet read to their end.
    open: AtomicUsize,
    /// The socket's descriptor; -1 while nobody listens.
    listener: AtomicI32,
}

impl Default for ProbeRequests {
    fn default() -> ProbeRequests {
        ProbeRequests(Arc::new(Connections {
            requests: broadcast::channel(WAITING).0,
            open: AtomicUsize::new(0),
            listener: AtomicI32::new(-1),
        }))
    }
}

impl ProbeRequests {
    /// Asks the probe of one process, if it is connected.
    pub fn ask(&self, pid: Pid, request: ProbeRequest) {
        // Without any connection nobody is there to be asked.
        let _ = self.0.requests.send((pid, request));
    }

    fn subscribe(&self) -> RequestReceiver {
        RequestReceiver(self.0.requests.subscribe())
    }

    /// Whether a process is connected, or waits for its connection to be accepted. If not, all that the
    /// probes of dead processes had to say is in the channel or has been received.
    pub fn is_connected(&self) -> bool {
        self.0.open.load(Relaxed) > 0 || self.0.has_callers()
    }
}

impl Connections {
    fn listen(self: &Arc<Connections>, listener: &UnixListener) -> Listening {
        let descriptor = listener.as_raw_fd();
        self.listener.store(descriptor, Relaxed);
        Listening {
            connections: Arc::clone(self),
            descriptor,
        }
    }

    fn has_callers(&self) -> bool {
        let descriptor = self.listener.load(Relaxed);
        if descriptor < 0 {
            return false;
        }
        // SAFETY: whoever closes the descriptor has taken it back before (`Listening`), in this thread.
        let listener = unsafe { BorrowedFd::borrow_raw(descriptor) };
        let mut polled = [PollFd::new(listener, PollFlags::POLLIN)];
        poll(&mut polled, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
    }
}

/// Says that a socket is listened on, for as long as it is.
struct Listening {
    connections: Arc<Connections>,
    descriptor: RawFd,
}

impl Drop for Listening {
    fn drop(&mut self) {
        // A later one may have taken its place.
        let own = self.descriptor;
        let listener = &self.connections.listener;
        let _ = listener.compare_exchange(own, -1, Relaxed, Relaxed);
    }
}

/// Counts a connection, for as long as it is read.
struct OpenConnection(Arc<Connections>);

impl OpenConnection {
    fn new(connections: &Arc<Connections>) -> OpenConnection {
        connections.open.fetch_add(1, Relaxed);
        OpenConnection(Arc::clone(connections))
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Relaxed);
    }
}

/// The requests as one connection hears them.
struct RequestReceiver(broadcast::Receiver<(Pid, ProbeRequest)>);

impl RequestReceiver {
    /// The next line for this process; never, once nobody can ask any more.
    pub async fn next(&mut self, pid: Option<Pid>) -> Vec<u8> {
        loop {
            match self.0.recv().await {
                Ok((of, request)) if Some(of) == pid => {
                    // A path that is no text cannot be written as JSON; nor is it asked for.
                    if let Ok(mut line) = serde_json::to_vec(&request) {
                        line.push(b'\n');
                        return line;
                    }
                }
                Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
            }
        }
    }
}

#[cfg(test)]
mod tests;
