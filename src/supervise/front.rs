//! The other ends of a keeper's socket: the front's handle on its keeper (starts it, sends orders, receives
//! reports), and calls from outside, by `oomph ls`, `stop` and `attach`.
//!
//! Nothing here blocks the front's loop. Dropping the handle doesn't affect the training: the keeper notices
//! that the front is gone and continues.

use super::alarm::Alarm;
use super::messages::{Call, Io, KeeperOrder, KeeperReport, SessionStatus, Setup};
use super::terminal::LineSettings;
use super::this_process::{self, GroupPlace, inherited};
use super::wire::{self, Decoder, FirstMessage};
use crate::command::Word;
use crate::units::Pid;
use anyhow::Context;
use nix::libc;
use nix::sys::signal::{SigSet, SigmaskHow};
use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::socket::{MsgFlags, getsockopt, send};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{getpgrp, tcgetpgrp};
use std::collections::VecDeque;
use std::fs::OpenOptions;
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream as Socket;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};
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
    incoming: Incoming,
    decoder: Decoder,
    chunk: Vec<u8>,
    pace: ReadPace,
    alarm: Alarm,
}

/// The socket as it is read: watched, or for a while not, since whatever comes to a watched one wakes this process.
#[derive(Debug)]
enum Incoming {
    Watched(AsyncFd<Socket>),
    Unwatched(Socket),
    /// Only in between.
    Neither,
}

/// After so long it is tried again to watch it, where the system could not.
const WATCH_AGAIN: Duration = Duration::from_millis(20);

impl Incoming {
    /// Waits until there is something to be read. Cancel-safe.
    async fn readable(&mut self) -> io::Result<AsyncFdReadyGuard<'_, Socket>> {
        while let Incoming::Unwatched(_) = self {
            self.watch();
            if let Incoming::Unwatched(_) = self {
                tokio::time::sleep(WATCH_AGAIN).await;
            }
        }
        match self {
            Incoming::Watched(socket) => socket.readable().await,
            Incoming::Unwatched(_) | Incoming::Neither => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    fn watch(&mut self) {
        *self = match std::mem::replace(self, Incoming::Neither) {
            Incoming::Unwatched(socket) => {
                // SAFETY: a socket owns its descriptor, which stays the same.
                let watched =
                    unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE) };
                match watched {
                    Ok(watched) => Incoming::Watched(watched),
                    Err(error) => Incoming::Unwatched(error.into_parts().0),
                }
            }
            other => other,
        };
    }

    fn leave(&mut self) {
        *self = match std::mem::replace(self, Incoming::Neither) {
            Incoming::Watched(socket) => Incoming::Unwatched(socket.into_inner()),
            other => other,
        };
    }
}

/// When the socket is read again. Where output has come line by line for a while, several lines are taken at once: each time that
/// the front is woken costs as much as many lines.
#[derive(Debug, Default)]
struct ReadPace {
    /// Since when reads have followed each other closely, and the last one of them.
    flow: Option<(Instant, Instant)>,
    /// Not before.
    rest: Option<Instant>,
}

/// Between two reads of a flow: longer than the screen waits between two frames of output, so that a read and its frame wake
/// the front once.
const REST: Duration = Duration::from_millis(250);

/// Reads that are further apart are none: before it is one, and with the rests in it.
const CLOSE: Duration = Duration::from_millis(150);
const CLOSE_IN_A_FLOW: Duration = Duration::from_millis(500);

/// Only then it is one: what begins, answers or ends at once is read at once.
const FLOWING: Duration = Duration::from_secs(1);

/// From so many bytes in a read on the keeper must not be kept waiting.
const FLOOD: usize = 8 << 10;

impl ReadPace {
    fn has_read(&mut self, bytes: usize, now: Instant) {
        let is_close = |since: Instant, last: Instant| {
            let close = match last.duration_since(since) >= FLOWING {
                true => CLOSE_IN_A_FLOW,
                false => CLOSE,
            };
            bytes < FLOOD && now.duration_since(last) <= close
        };
        let since = match self.flow {
            Some((since, last)) if is_close(since, last) => since,
            Some(_) | None => now,
        };
        self.flow = Some((since, now));
        self.rest = (now.duration_since(since) >= FLOWING).then(|| now + REST);
    }
}

/// Shared by [`Keeper`] and [`Reports`]: the socket, and the bytes that it did not take yet.
#[derive(Debug)]
struct KeeperLink {
    socket: AsyncFd<Socket>,
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
        let line = users_line().or_else(|| line_of(controlling.as_ref()?));
        let started = Keeper::start_as(command, setup, line, controlling)?;
        this_process::give_up_piped_input();
        Ok(started)
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
        let incoming = Incoming::Unwatched(socket.try_clone()?);
        // SAFETY: a socket owns its descriptor, which stays the same.
        let socket = unsafe { AsyncFd::register_with_interest(socket, Interest::WRITABLE) };
        let socket = socket.map_err(|refused| refused.into_parts().1);
        let link = Arc::new(KeeperLink {
            socket: socket.context("cannot watch the keeper's socket")?,
            waiting: Mutex::new(VecDeque::new()),
            more: Notify::new(),
        });
        let keeper = Keeper {
            link: link.clone(),
            pid,
        };
        let reports = Reports {
            link,
            incoming,
            decoder: Decoder::default(),
            chunk: vec![0; 64 << 10],
            pace: ReadPace::default(),
            alarm: Alarm::new(),
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
        this_process::give_up_piped_input();
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
                drop(self.link.socket.writable().await);
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
            match (self.socket).try_io(Interest::WRITABLE, |_| self.write(first)) {
                Ok(n) => drop(waiting.drain(..n)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }
}

impl Reports {
    /// What comes next may be an answer to the user: it is read at once.
    pub fn hurry(&mut self) {
        self.pace = ReadPace::default();
    }

    /// The next report. `None` after the last: normally after [`KeeperReport::Finished`], otherwise
    /// because the keeper died. Cancel-safe.
    pub async fn next(&mut self) -> Option<KeeperReport> {
        loop {
            match self.decoder.next_report() {
                Ok(Some(report)) => {
                    if matches!(report, KeeperReport::Exited { .. }) {
                        // The next run's output is another flow.
                        self.pace = ReadPace::default();
                    }
                    return Some(report);
                }
                Ok(None) => {}
                Err(wire::Malformed) => return None,
            }
            if let Some(until) = self.pace.rest {
                self.incoming.leave();
                self.alarm.until(until).await;
                self.pace.rest = None;
            }
            // Even if the keeper is gone, its last reports are still to be read.
            let unsent = self.link.flush().unwrap_or(false);
            tokio::select! {
                biased;
                ready = self.incoming.readable() => {
                    let read = ready.and_then(|mut ready| read_once(&mut ready, &mut self.chunk));
                    if !self.has_read(read) {
                        return None;
                    }
                }
                _ = self.link.socket.writable(), if unsent => {}
                () = self.link.more.notified() => {}
            }
        }
    }

    /// Whether the connection is still there.
    fn has_read(&mut self, read: io::Result<usize>) -> bool {
        match read {
            Ok(0) => false,
            Ok(n) => {
                self.decoder.push(self.chunk.get(..n).unwrap_or_default());
                self.pace.has_read(n, Instant::now());
                true
            }
            Err(error) => matches!(
                error.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
            ),
        }
    }
}

fn read_once(ready: &mut AsyncFdReadyGuard<'_, Socket>, chunk: &mut [u8]) -> io::Result<usize> {
    let read = ready.try_io(|socket| socket.get_ref().read(chunk));
    let read = read.map_err(|_| io::Error::from(io::ErrorKind::WouldBlock))?;
    if read.as_ref().is_ok_and(|bytes| *bytes < chunk.len()) {
        // There was no more.
        ready.clear_ready();
    }
    read
}

/// The settings of the user's terminal: the first of stdout, stderr, stdin that is one.
fn users_line() -> Option<LineSettings> {
    line_of(io::stdout())
        .or_else(|| line_of(io::stderr()))
        .or_else(|| line_of(io::stdin()))
}

/// The settings of a terminal as a command finds them. To one in the background it shows those with which the
/// shell edits its own line, without echo and key by key: no program was meant to get them.
fn line_of(terminal: impl AsFd) -> Option<LineSettings> {
    let line = LineSettings::read(&terminal)?;
    match tcgetpgrp(&terminal) {
        Ok(foreground) if foreground != getpgrp() => Some(line.as_for_a_command()),
        Ok(_) | Err(_) => Some(line),
    }
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

/// How long a keeper that has nothing left to do may take to exit: nothing but a processor that others have holds it up.
const EXITS: Duration = Duration::from_secs(3);

/// After the end of a session whose keeper doesn't stay: waits for it, a child of this process. Then the training's CPU time and
/// memory count as used by this process's children, as whoever waits for it is told (`time`), and no zombie stays where nobody
/// reaps orphans.
pub fn reap_keeper(keeper: Pid) {
    let pid = nix::unistd::Pid::from_raw(keeper.0);
    let until = Instant::now() + EXITS;
    while waitpid(pid, Some(WaitPidFlag::WNOHANG)) == Ok(WaitStatus::StillAlive) {
        if Instant::now() >= until {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_lasting_flow_of_lines_is_read_at_intervals() {
        let begin = Instant::now();
        let at = |millis| begin + Duration::from_millis(millis);
        let mut pace = ReadPace::default();
        let mut rest_after = |bytes, millis| {
            pace.has_read(bytes, at(millis));
            pace.rest
        };
        // Twenty lines a second.
        for millis in (0..1_000).step_by(50) {
            assert_eq!(rest_after(50, millis), None, "it may end soon");
        }
        assert_eq!(rest_after(50, 1_000), Some(at(1_250)));
        assert_eq!(rest_after(150, 1_300), Some(at(1_550)));
        assert_eq!(rest_after(50, 1_750), Some(at(2_000)), "it was late");
        assert_eq!(rest_after(FLOOD, 2_000), None, "the keeper would wait");
        assert_eq!(rest_after(50, 2_100), None, "a flow begins again");
        assert_eq!(rest_after(50, 2_300), None, "these are single lines");
        for millis in (2_400..3_300).step_by(100) {
            assert_eq!(rest_after(50, millis), None);
        }
        assert_eq!(rest_after(50, 3_300), Some(at(3_550)));
        assert_eq!(rest_after(50, 3_900), None, "it has ended");
    }
}
