//! The other ends of a keeper's socket: the front's handle on its keeper (starts it, sends orders, receives
//! reports), and calls from outside, by `oomph ls`, `stop` and `attach`.
//!
//! Nothing here blocks the front's loop. Dropping the handle doesn't affect the training: the keeper notices
//! that the front is gone and continues.

use super::messages::{Call, Io, KeeperOrder, KeeperReport, SessionStatus, Setup};
use super::terminal::LineSettings;
use super::this_process::{GroupPlace, inherited};
use super::wire::{self, Decoder, FirstMessage};
use crate::command::Word;
use crate::units::Pid;
use anyhow::Context;
use nix::libc;
use nix::sys::signal::{SigSet, SigmaskHow};
use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::socket::{MsgFlags, getsockopt, send};
use std::collections::VecDeque;
use std::fs::OpenOptions;
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream as Socket;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::Notify;

/// The bound of orders that wait for a keeper that doesn't read: a suspended keeper must not fill the
/// front's memory. A command line of megabytes fits.
const MOST_WAITING: usize = 16 << 20;

/// Sends orders to the keeper. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Keeper {
    link: Arc<KeeperLink>,
    pid: Pid,
}

/// Receives the keeper's reports.
#[derive(Debug)]
pub struct Reports {
    link: Arc<KeeperLink>,
    decoder: Decoder,
    chunk: Vec<u8>,
}

/// Shared by [`Keeper`] and [`Reports`]: the socket, and the bytes that it did not take yet.
#[derive(Debug)]
struct KeeperLink {
    socket: UnixStream,
    waiting: Mutex<VecDeque<u8>>,
    more: Notify,
}

impl Keeper {
    /// Starts the keeper, which is this binary once more. Call it inside a tokio runtime, before the
    /// terminal's settings are changed and before other threads are started.
    ///
    /// # Errors
    /// The system gives no process or no socket; nothing was started.
    pub fn start(setup: &Setup) -> anyhow::Result<(Keeper, Reports)> {
        // The link leads to this binary even if its file was replaced by a newer one.
        let itself = match std::fs::exists("/proc/self/exe") {
            Ok(true) => "/proc/self/exe".into(),
            Ok(false) | Err(_) => {
                std::env::current_exe().context("oomph cannot find its own binary")?
            }
        };
        let mut command = Command::new(itself);
        command.arg0("oomph");
        let controlling = match setup.io {
            Io::PassThrough => controlling_terminal(),
            Io::Screen => None,
        };
        let line = users_line().or_else(|| LineSettings::read(controlling.as_ref()?));
        Keeper::start_as(command, setup, line, controlling)
    }

    /// Starts the keeper by this command, whose three streams are used as the user's, with their
    /// terminal's settings, and with the controlling terminal if none of them may be it. For tests, whose
    /// own binary isn't a keeper.
    #[doc(hidden)]
    pub fn start_as(
        mut command: Command,
        setup: &Setup,
        line: Option<LineSettings>,
        controlling: Option<OwnedFd>,
    ) -> anyhow::Result<(Keeper, Reports)> {
        let (ours, theirs) = Socket::pair().context("cannot create a socket for the keeper")?;
        let number = theirs.as_raw_fd();
        let terminal = controlling.as_ref().map(AsRawFd::as_raw_fd);
        command.arg(super::KEEPER_WORD).arg(number.to_string());
        command.args(terminal.map(|terminal| terminal.to_string()));
        // SAFETY: system calls, all async-signal-safe.
        unsafe {
            command.pre_exec(move || {
                // A session of its own, so that keys at the user's terminal don't signal it.
                libc::setsid();
                for number in [Some(number), terminal].into_iter().flatten() {
                    if libc::fcntl(number, libc::F_SETFD, 0) != 0 {
                        return Err(io::Error::last_os_error());
                    }
                }
                Ok(())
            });
        }
        // We become the parent of what a dead keeper leaves behind.
        let _ = nix::sys::prctl::set_child_subreaper(true);
        // Blocked until the keeper reads them from a descriptor: no signal can end it before.
        let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK);
        let child = command.spawn();
        before.and_then(|mask| mask.thread_set_mask())?;
        let child = child.context("cannot start the keeper")?;
        drop(theirs);
        let hello = wire::json(&FirstMessage {
            front: Pid(std::process::id() as i32),
            log: setup.log.as_deref().map(Word::from),
            io: setup.io,
            timing: setup.timing,
            forwarding: setup.forwarding,
            input: setup.input,
            inherited: inherited(),
            group: GroupPlace::of_this_process(),
            line,
        });
        // A few hundred bytes always fit into a new socket.
        (&ours)
            .write_all(&hello)
            .context("the keeper exited immediately")?;
        Keeper::over(ours, Pid(child.id() as i32))
    }

    /// Uses an existing connection. Call it inside a tokio runtime.
    pub(super) fn over(socket: Socket, pid: Pid) -> anyhow::Result<(Keeper, Reports)> {
        socket.set_nonblocking(true)?;
        let link = Arc::new(KeeperLink {
            socket: UnixStream::from_std(socket).context("cannot watch the keeper's socket")?,
            waiting: Mutex::new(VecDeque::new()),
            more: Notify::new(),
        });
        let keeper = Keeper {
            link: link.clone(),
            pid,
        };
        let reports = Reports {
            link,
            decoder: Decoder::default(),
            chunk: vec![0; 64 << 10],
        };
        Ok((keeper, reports))
    }

    /// Asks the keeper that listens at `path` to make this process the front. The first report is
    /// [`KeeperReport::Welcome`], once the current front has made way. If there is no report at all, the
    /// session is over, or another front was quicker.
    pub fn attach(path: &Path) -> io::Result<(Keeper, Reports)> {
        let (socket, pid) = call(path, Call::Attach)?;
        Keeper::over(socket, pid).map_err(io::Error::other)
    }

    /// For a process that the keeper has started as the front: descriptor `number` is its socket.
    pub fn inherit(number: RawFd) -> io::Result<(Keeper, Reports)> {
        // SAFETY: checks that the descriptor is open; nobody else here owns it.
        let socket = unsafe {
            if number <= 2 || libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) != 0 {
                return Err(io::Error::other("only oomph itself starts this"));
            }
            Socket::from_raw_fd(number)
        };
        let keeper = Pid(std::os::unix::process::parent_id() as i32);
        Keeper::over(socket, keeper).map_err(io::Error::other)
    }

    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Sends an order without waiting: what the socket doesn't take at once is sent while
    /// [`Reports::next`] is awaited.
    ///
    /// # Errors
    /// `BrokenPipe` if the keeper is gone; `WouldBlock` if [`MOST_WAITING`] bytes wait already (the order
    /// is not sent then).
    pub fn send(&self, order: KeeperOrder) -> io::Result<()> {
        self.link.send(&wire::order(&order))
    }

    /// Waits up to `limit` until the socket has taken all orders, before this process exits.
    pub async fn flush(&self, limit: Duration) {
        let all = async {
            while self.link.flush().unwrap_or(false) {
                let _ = self.link.socket.writable().await;
            }
        };
        let _ = tokio::time::timeout(limit, all).await;
    }
}

impl KeeperLink {
    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rest = bytes;
        if waiting.is_empty() {
            // Not tokio's try_write: it reports no readiness before its driver has run once.
            match self.write(rest) {
                Ok(n) => rest = rest.get(n..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        } else if waiting.len() + rest.len() > MOST_WAITING {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if !rest.is_empty() {
            waiting.extend(rest);
            self.more.notify_one();
        }
        Ok(())
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        Ok(send(self.socket.as_raw_fd(), bytes, flags)?)
    }

    /// Writes what the socket takes; whether something still waits.
    fn flush(&self) -> io::Result<bool> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        while !waiting.is_empty() {
            let first = waiting.as_slices().0;
            // Through tokio, which must see that the socket is full to wait for it.
            match (self.socket).try_io(Interest::WRITABLE, || self.write(first)) {
                Ok(n) => drop(waiting.drain(..n)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }
}

impl Reports {
    /// The next report. `None` after the last: normally after [`KeeperReport::Finished`], otherwise
    /// because the keeper died. Cancel-safe.
    pub async fn next(&mut self) -> Option<KeeperReport> {
        loop {
            match self.decoder.next_report() {
                Ok(Some(report)) => return Some(report),
                Ok(None) => {}
                Err(wire::Malformed) => return None,
            }
            // Even if the keeper is gone, its last reports are still to be read.
            let unsent = self.link.flush().unwrap_or(false);
            tokio::select! {
                biased;
                ready = self.link.socket.readable() => if ready.is_err() || !self.read() {
                    return None;
                },
                _ = self.link.socket.writable(), if unsent => {}
                () = self.link.more.notified() => {}
            }
        }
    }

    /// Reads once; whether the connection is still there.
    fn read(&mut self) -> bool {
        match self.link.socket.try_read(&mut self.chunk) {
            Ok(0) => false,
            Ok(n) => {
                self.decoder.push(self.chunk.get(..n).unwrap_or_default());
                true
            }
            Err(error) => matches!(
                error.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
            ),
        }
    }
}

/// The settings of the user's terminal: the first of stdout, stderr, stdin that is one.
fn users_line() -> Option<LineSettings> {
    LineSettings::read(io::stdout())
        .or_else(|| LineSettings::read(io::stderr()))
        .or_else(|| LineSettings::read(io::stdin()))
}

/// The controlling terminal, where standard input isn't one: programs may ask there all the same. The
/// open file description is ours alone, so that it may be non-blocking.
fn controlling_terminal() -> Option<OwnedFd> {
    if io::stdin().is_terminal() {
        return None;
    }
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open("/dev/tty");
    opened.ok().map(OwnedFd::from)
}

/// Connects to the keeper that listens at `path`. Returns the connection and the keeper's PID.
///
/// # Errors
/// `ConnectionRefused` or `NotFound` if nobody listens; `PermissionDenied` if another user does.
fn call(path: &Path, call: Call) -> io::Result<(Socket, Pid)> {
    let mut socket = Socket::connect(path)?;
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
    socket: Socket,
    decoder: Decoder,
}

impl KeeperAnswers {
    /// Calls the keeper that listens at `path`; not for [`Call::Attach`].
    pub fn call(path: &Path, what: Call) -> io::Result<KeeperAnswers> {
        let (socket, keeper) = self::call(path, what)?;
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
                Ok(n) => self.decoder.push(chunk.get(..n).unwrap_or_default()),
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
    match KeeperAnswers::call(path, Call::Look)?.next(limit)? {
        Some(KeeperReport::Welcome(status)) => Ok(status),
        Some(_) | None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Calls the keeper that listens at `path` without waiting for an answer.
pub fn pass_on(path: &Path, what: Call) -> io::Result<()> {
    call(path, what).map(drop)
}
