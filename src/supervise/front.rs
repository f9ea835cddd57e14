//! The front's handle on its keeper: starts it, sends orders, receives reports.
//!
//! Nothing here blocks the front's loop, and dropping any of it does nothing to the training: the
//! keeper notices that the front is gone and goes on.

use super::call;
use super::inherited::inherited;
use super::order::{KeeperOrder, Setup};
use super::report::KeeperReport;
use super::status::Call;
use super::terminal::LineSettings;
use super::wire::{self, Decoder, FirstMessage};
use crate::command::Word;
use crate::units::Pid;
use anyhow::Context;
use nix::libc;
use nix::sys::signal::{SigSet, SigmaskHow, pthread_sigmask};
use nix::sys::socket::{MsgFlags, send};
use std::collections::VecDeque;
use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::net::UnixStream as Socket;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::Notify;

/// Orders that wait for a keeper that does not read: a suspended keeper must not cost the front
/// its memory. A command line of megabytes fits.
const MOST_WAITING: usize = 16 << 20;

/// The sending end: orders to the keeper. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Keeper {
    link: Arc<KeeperLink>,
    pid: Pid,
}

/// The receiving end.
#[derive(Debug)]
pub struct Reports {
    link: Arc<KeeperLink>,
    decoder: Decoder,
    chunk: Vec<u8>,
}

/// What both ends share: the socket, and the bytes it would not take yet.
#[derive(Debug)]
struct KeeperLink {
    socket: UnixStream,
    waiting: Mutex<VecDeque<u8>>,
    more: Notify,
}

impl Keeper {
    /// Starts the keeper: this very binary once more. Must be called inside a tokio runtime, before
    /// the terminal's settings are touched and before other threads are started.
    ///
    /// Fails where the system gives no process or no socket; nothing has been started then.
    pub fn start(setup: &Setup) -> anyhow::Result<(Keeper, Reports)> {
        // The link leads to this binary even where its file was replaced by a newer one.
        let itself = match std::fs::exists("/proc/self/exe") {
            Ok(true) => "/proc/self/exe".into(),
            Ok(false) | Err(_) => {
                std::env::current_exe().context("oomph cannot find its own binary")?
            }
        };
        let mut command = Command::new(itself);
        command.arg0("oomph");
        Keeper::start_as(command, setup, users_line())
    }

    /// Starts the keeper by a command of the caller's: the binary, and the three streams that it
    /// shall take for the user's, with their terminal's settings. For tests, whose own binary is
    /// no keeper.
    #[doc(hidden)]
    pub fn start_as(
        mut command: Command,
        setup: &Setup,
        line: Option<LineSettings>,
    ) -> anyhow::Result<(Keeper, Reports)> {
        let (ours, theirs) = Socket::pair().context("cannot create a socket for the keeper")?;
        let number = theirs.as_raw_fd();
        command.arg(super::KEEPER_WORD).arg(number.to_string());
        // SAFETY: two system calls, both async-signal-safe.
        unsafe {
            command.pre_exec(move || {
                // A session of its own: no key pressed at the user's terminal reaches it.
                libc::setsid();
                match libc::fcntl(number, libc::F_SETFD, 0) {
                    0 => Ok(()),
                    _ => Err(io::Error::last_os_error()),
                }
            });
        }
        // What is left by a keeper that dies falls to us.
        let _ = nix::sys::prctl::set_child_subreaper(true);
        let child = {
            // Blocked until the keeper takes them from a descriptor: no signal can end it between.
            let _quiet = Blocked::all();
            command.spawn().context("cannot start the keeper")?
        };
        drop(theirs);
        let hello = wire::json(&FirstMessage {
            front: Pid(std::process::id() as i32),
            log: setup.log.as_deref().map(Word::from),
            io: setup.io,
            timing: setup.timing,
            forwarding: setup.forwarding,
            inherited: inherited(),
            line,
        });
        // A first message of some hundred bytes always fits into a fresh socket.
        (&ours)
            .write_all(&hello)
            .context("the keeper exited immediately")?;
        Keeper::over(ours, Pid(child.id() as i32))
    }

    /// The two ends of a connection that is there. Must be called inside a tokio runtime.
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

    /// Asks the keeper that listens at `path` for the front's place. The first report is
    /// [`KeeperReport::Welcome`], once the present front has made way; none at all means that the session
    /// is over, or another front was quicker.
    ///
    /// # Errors
    /// Nobody listens there, or somebody who is none of ours.
    pub fn attach(path: &Path) -> io::Result<(Keeper, Reports)> {
        let (socket, pid) = call::call(path, Call::Attach)?;
        Keeper::over(socket, pid).map_err(io::Error::other)
    }

    /// The front's place as the keeper gave it to this process, which it started for that: descriptor
    /// `number` is the socket, and nobody else's.
    ///
    /// # Errors
    /// It is no such descriptor.
    pub fn inherit(number: RawFd) -> io::Result<(Keeper, Reports)> {
        // SAFETY: only asks whether the descriptor is open, and then nobody else here owns it.
        let socket = unsafe {
            if number <= 2 || libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) != 0 {
                return Err(io::Error::other("only oomph itself starts this"));
            }
            Socket::from_raw_fd(number)
        };
        let keeper = Pid(std::os::unix::process::parent_id() as i32);
        Keeper::over(socket, keeper).map_err(io::Error::other)
    }

    /// The keeper's process.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Sends an order. Never waits: what the socket does not take at once goes out while
    /// [`Reports::next`] is awaited.
    ///
    /// Fails with `BrokenPipe` where the keeper is gone, with `WouldBlock` where it has not read
    /// for so long that [`MOST_WAITING`] bytes wait already (the order is not sent then).
    pub fn send(&self, order: KeeperOrder) -> io::Result<()> {
        self.link.send(&wire::order(&order))
    }
}

impl Keeper {
    /// Waits, for no longer than `limit`, until the keeper has taken all orders: for one that is the
    /// last, after which this process goes.
    pub async fn flush(&self, limit: std::time::Duration) {
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
            // Not tokio's try_write: before its driver has run once it knows of no readiness.
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

    /// Writes what waits, as far as the socket takes it; whether some still waits.
    fn flush(&self) -> io::Result<bool> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        while !waiting.is_empty() {
            let first = waiting.as_slices().0;
            // By way of tokio, which must hear that the socket is full to wait for it.
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
    /// The next report; `None` when there will be none: after [`KeeperReport::Finished`] in good order,
    /// otherwise because the keeper died. Safe to drop while it waits (in a `select!`).
    pub async fn next(&mut self) -> Option<KeeperReport> {
        loop {
            match self.decoder.next_report() {
                Ok(Some(report)) => return Some(report),
                Ok(None) => {}
                Err(wire::Malformed) => return None,
            }
            // A keeper that is gone takes no orders, but what it said last is still to be read.
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
                self.decoder.push(&self.chunk[..n]);
                true
            }
            Err(error) => matches!(
                error.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
            ),
        }
    }
}

/// All signals blocked, for as long as this lives.
struct Blocked(SigSet);

impl Blocked {
    fn all() -> Blocked {
        let mut before = SigSet::empty();
        let _ = pthread_sigmask(
            SigmaskHow::SIG_BLOCK,
            Some(&SigSet::all()),
            Some(&mut before),
        );
        Blocked(before)
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        let _ = pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&self.0), None);
    }
}

/// The settings of the user's terminal: of the first of stdout, stderr, stdin that is one.
fn users_line() -> Option<LineSettings> {
    let (out, err, input) = (io::stdout(), io::stderr(), io::stdin());
    if out.is_terminal() {
        LineSettings::of(out)
    } else if err.is_terminal() {
        LineSettings::of(err)
    } else if input.is_terminal() {
        LineSettings::of(input)
    } else {
        None
    }
}
