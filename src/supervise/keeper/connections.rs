//! Those at the other ends of the keeper's sockets: the front, callers from outside, listeners, and a front
//! without a screen that the keeper starts itself. The loop waits for none of them.
//!
//! A front that is too slow loses the *oldest* output, with a counted gap in its place: the latest (a
//! traceback) matters most. Everything else is kept.
//!
//! A caller may be any process that can open the socket, and may send anything: the kernel tells whose
//! process it is, and those of other users are refused; a first frame has a bound; only a few can connect at
//! a time; and nothing reaches the trainer.

use super::descriptor::{self, Got, Put};
use crate::background;
use crate::supervise::messages::{Call, HeadlessFront, SessionStatus};
use crate::supervise::wire::{self, Decoder};
use crate::supervise::{HEADLESS_WORD, Io, KeeperReport, OutputStream};
use crate::units::Bytes;
use nix::libc;
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use std::collections::VecDeque;
use std::fs::{self, Permissions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The most bytes of output that wait.
const CAPACITY: usize = 320 << 10;

/// Waiting output is joined into frames of this size.
const FRAME: usize = 32 << 10;

/// The most other reports that wait; beyond it notes and the log's marks are dropped. A front that is
/// suspended for a week must not fill the memory.
const MOST_REPORTS: usize = 1 << 10;

/// The bounded queue to the front.
pub(super) struct Viewer {
    waiting: VecDeque<Item>,
    /// The bytes of all output in `waiting`.
    bytes: VecDeque<u8>,
    /// The frame that is being written, and how much of it has been.
    sending: Vec<u8>,
    sent: usize,
    /// The front was told to make way: everything else is for the next one.
    held: bool,
}

enum Item {
    /// This many of the bytes.
    Output(OutputStream, usize),
    Gap(u64),
    Report(KeeperReport),
}

impl Viewer {
    pub fn new() -> Viewer {
        Viewer {
            waiting: VecDeque::new(),
            bytes: VecDeque::new(),
            sending: Vec::new(),
            sent: 0,
            held: false,
        }
    }

    /// Frees the memory that only a flood of output needs.
    pub fn give_back(&mut self) {
        if self.bytes.is_empty() && self.sent >= self.sending.len() {
            self.bytes = VecDeque::new();
            self.sending = Vec::new();
            self.waiting.shrink_to_fit();
            self.sent = 0;
        }
    }

    /// Tells the front to make way, before everything that waits, and nothing after that.
    pub fn supersede(&mut self) {
        if !self.held {
            self.waiting
                .push_front(Item::Report(KeeperReport::Superseded));
            self.held = true;
        }
    }

    /// Starts over for another front: the status, the recent output before that which waits, then the
    /// output that waits. Most other waiting reports are part of the status.
    pub fn begin_anew(&mut self, status: SessionStatus, recent: &Recent) {
        self.held = false;
        self.sending.clear();
        self.sent = 0;
        let mut unseen = 0;
        self.waiting.retain(|item| match item {
            Item::Output(_, length) => {
                unseen += *length as u64;
                true
            }
            Item::Gap(bytes) => {
                unseen += *bytes;
                true
            }
            Item::Report(report) => matches!(
                report,
                KeeperReport::Note(_) | KeeperReport::Unlogged { .. } | KeeperReport::Logged { .. }
            ),
        });
        let recent = recent.before(unseen);
        self.waiting
            .push_front(Item::Report(KeeperReport::Recent(recent)));
        (self.waiting).push_front(Item::Report(KeeperReport::Welcome(status)));
    }

    /// Whether to poll the socket for room.
    pub fn wants_to_send(&self) -> bool {
        let making_way = matches!(
            self.waiting.front(),
            Some(Item::Report(KeeperReport::Superseded))
        );
        let next = !self.waiting.is_empty() && (!self.held || making_way);
        next || self.sent < self.sending.len()
    }

    /// Queues output; if there is no room, the oldest is dropped.
    pub fn output(&mut self, stream: OutputStream, bytes: &[u8]) {
        if self.bytes.len() + bytes.len() > CAPACITY {
            self.forget(CAPACITY / 2);
        }
        if self.bytes.capacity() == 0 {
            self.bytes.reserve_exact(CAPACITY);
        }
        self.bytes.extend(bytes);
        let mut left = bytes.len();
        if let Some(Item::Output(last, length)) = self.waiting.back_mut()
            && *last == stream
        {
            let fits = left.min(FRAME.saturating_sub(*length));
            *length += fits;
            left -= fits;
        }
        while left > 0 {
            let length = left.min(FRAME);
            self.waiting.push_back(Item::Output(stream, length));
            left -= length;
        }
    }

    /// Drops the oldest output until no more than `kept` bytes are left: many frames at once, so that
    /// there is one gap instead of one for each small write.
    fn forget(&mut self, kept: usize) {
        let mut still = VecDeque::with_capacity(self.waiting.len());
        let mut dropped = 0;
        for item in std::mem::take(&mut self.waiting) {
            let missing = match item {
                Item::Output(_, length) if self.bytes.len() - dropped > kept => {
                    dropped += length;
                    length as u64
                }
                Item::Gap(bytes) => bytes,
                Item::Output(..) | Item::Report(_) => {
                    still.push_back(item);
                    continue;
                }
            };
            match still.back_mut() {
                Some(Item::Gap(before)) => *before += missing,
                Some(_) | None => still.push_back(Item::Gap(missing)),
            }
        }
        self.bytes.drain(..dropped.min(self.bytes.len()));
        self.waiting = still;
    }

    pub fn report(&mut self, report: KeeperReport) {
        let optional = matches!(report, KeeperReport::Note(_) | KeeperReport::Logged { .. });
        if !(optional && self.waiting.len() > MOST_REPORTS) {
            self.waiting.push_back(Item::Report(report));
        }
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.sent >= self.sending.len()
    }

    /// Sends what the socket takes; whether the front is still there.
    pub fn send(&mut self, socket: impl AsFd) -> bool {
        loop {
            if self.sent >= self.sending.len() {
                self.sent = 0;
                self.sending.clear();
                if !self.wants_to_send() {
                    return true;
                }
                match self.waiting.pop_front() {
                    None => return true,
                    Some(Item::Output(stream, length)) => {
                        let length = length.min(self.bytes.len());
                        let bytes = background::first_bytes(&self.bytes, length);
                        wire::output(&mut self.sending, stream, bytes);
                        self.bytes.drain(..length);
                    }
                    Some(Item::Gap(bytes)) => {
                        self.sending = wire::report(&KeeperReport::Gap {
                            bytes: Bytes(bytes),
                        });
                    }
                    Some(Item::Report(report)) => self.sending = wire::report(&report),
                }
            }
            let rest = self.sending.get(self.sent..).unwrap_or_default();
            match descriptor::write(&socket, rest) {
                Put::Bytes(n) => self.sent += n,
                Put::Full => return true,
                Put::Broken(_) => return false,
            }
        }
    }
}

/// How much is remembered: a dozen large screens, with their colours.
const REMEMBERED: usize = 64 << 10;

/// The end of the current run's output, for the screen of a later front. The log has all of it, but it may
/// be off, full or slow, and its position at the moment when live output begins is unknown. This is exact.
#[derive(Default)]
pub(super) struct Recent {
    bytes: VecDeque<u8>,
}

impl Recent {
    /// Adds output; the oldest is dropped.
    pub fn push(&mut self, bytes: &[u8]) {
        let fresh = bytes
            .get(bytes.len().saturating_sub(REMEMBERED)..)
            .unwrap_or_default();
        let over = (self.bytes.len() + fresh.len()).saturating_sub(REMEMBERED);
        if over > 0 {
            self.bytes.drain(..over.min(self.bytes.len()));
        } else if self.bytes.capacity() == 0 {
            // All at once: growing a ring copies it.
            self.bytes.reserve_exact(REMEMBERED);
        }
        self.bytes.extend(fresh);
    }

    /// Everything but the last `unseen` bytes, which the front will get as output.
    pub fn before(&self, unseen: u64) -> Vec<u8> {
        let unseen = usize::try_from(unseen).unwrap_or(usize::MAX);
        let seen = self.bytes.len().saturating_sub(unseen);
        background::first_bytes(&self.bytes, seen).concat()
    }

    /// For another run.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }
}

/// The maximum of callers without a request at a time, and of listeners.
const MOST_CALLERS: usize = 16;

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

/// A process that has connected.
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
    pub fn listen(path: &Path) -> io::Result<Callers> {
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
    pub fn polled(&self, now: Instant) -> impl Iterator<Item = RawFd> + '_ {
        let rests = self.rest_until.is_some_and(|until| until > now);
        let listener = (!rests).then(|| self.listener.as_raw_fd());
        listener
            .into_iter()
            .chain(self.waiting.iter().map(|caller| caller.socket.as_raw_fd()))
    }

    /// When to look again in any case.
    pub fn due(&self, now: Instant) -> Option<Instant> {
        let patience = self.waiting.iter().map(|caller| caller.since + WORD_WITHIN);
        let rest = self.rest_until.filter(|until| *until > now);
        patience.chain(rest).min()
    }

    /// Accepts callers and returns those with a request.
    pub fn serve(&mut self, now: Instant) -> Vec<(Caller, Call)> {
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
        if stranger
            || self.waiting.len() >= MOST_CALLERS
            || descriptor::set_nonblocking(&socket).is_err()
        {
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
    pub fn answer(self, status: SessionStatus) {
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
    pub fn add(&mut self, socket: OwnedFd) {
        if self.sockets.len() < MOST_CALLERS {
            self.sockets.push(socket);
        }
    }

    pub fn hear(&mut self, report: &KeeperReport) {
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
    pub fn hear_the_end(&mut self) {
        if !std::mem::replace(&mut self.told_end, true) {
            let end = KeeperReport::Finished;
            self.sockets.retain(|socket| tell(socket, &end));
        }
    }
}

/// Starts a front without a screen: it continues the recording, listens to the probes and follows the
/// policy until somebody attaches. Returns our end of its socket, and its PID. What it prints at the end
/// of the session goes to the program's stderr, unless a shell has that terminal back.
pub(super) fn start_headless(headless: HeadlessFront, io: Io) -> io::Result<(OwnedFd, i32)> {
    let (ours, theirs) = UnixStream::pair()?;
    let number = theirs.as_raw_fd();
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0("oomph")
        .arg(HEADLESS_WORD)
        .arg(number.to_string())
        .arg(headless.word())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(match io {
            Io::Screen => Stdio::null(),
            Io::PassThrough => Stdio::inherit(),
        });
    // SAFETY: system calls alone, all async-signal-safe; the set lives on the child's stack.
    unsafe {
        command.pre_exec(move || {
            // The keeper has all signals blocked.
            let mut none: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut none);
            libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
            // The user's descriptors, which we hold for the trainer, are not for this process.
            libc::syscall(
                libc::SYS_close_range,
                3u32,
                u32::MAX,
                libc::CLOSE_RANGE_CLOEXEC,
            );
            match libc::fcntl(number, libc::F_SETFD, 0) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        });
    }
    let child = command.spawn()?;
    let ours = OwnedFd::from(ours);
    descriptor::set_nonblocking(&ours)?;
    Ok((ours, i32::try_from(child.id()).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supervise::wire::{Decoder, Frame};
    use crate::units::Pid;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    fn everything(viewer: &mut Viewer) -> Vec<KeeperReport> {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        theirs.set_nonblocking(true).unwrap();
        let mut decoder = Decoder::default();
        let mut reports = Vec::new();
        let mut chunk = vec![0; 1 << 16];
        while !viewer.is_empty() {
            assert!(viewer.send(&ours));
            while let Ok(n) = theirs.read(&mut chunk) {
                decoder.push(&chunk[..n]);
            }
            while let Some(frame) = decoder.next().unwrap() {
                reports.extend(Frame::into_report(frame));
            }
        }
        reports
    }

    #[test]
    fn the_last_bytes_are_kept_however_they_came() {
        let mut recent = Recent::default();
        let all: Vec<u8> = (0..300_000u32).map(|n| (n % 251) as u8).collect();
        let (head, tail) = all.split_at(100_000);
        recent.push(head);
        for piece in tail.chunks(777) {
            recent.push(piece);
        }
        assert_eq!(recent.before(0), all.split_at(all.len() - REMEMBERED).1);
        let unseen = recent.before(1_000);
        assert!(unseen.len() == REMEMBERED - 1_000 && all.split_at(299_000).0.ends_with(&unseen));
        assert!(recent.before(u64::MAX).is_empty());
        recent.clear();
        assert!(recent.before(0).is_empty());
    }

    #[test]
    fn a_slow_front_gets_the_end_and_the_size_of_what_it_missed() {
        let mut viewer = Viewer::new();
        viewer.report(KeeperReport::Swept { left: vec![Pid(1)] });
        let line = [b'x'; 100];
        let lines = 40_000;
        for _ in 0..lines {
            viewer.output(OutputStream::Terminal, &line);
            assert!(viewer.bytes.len() <= CAPACITY);
        }
        viewer.output(OutputStream::Terminal, b"the last words");
        viewer.report(KeeperReport::Finished);
        let reports = everything(&mut viewer);
        let (mut seen, mut missed) = (Vec::new(), 0);
        for report in &reports {
            match report {
                KeeperReport::Output { bytes, .. } => seen.extend_from_slice(bytes),
                KeeperReport::Gap { bytes } => missed += bytes.0,
                _ => {}
            }
        }
        assert_eq!(seen.len() as u64 + missed, lines * 100 + 14);
        assert!(seen.ends_with(b"the last words"));
        assert_eq!(
            reports.first(),
            Some(&KeeperReport::Swept { left: vec![Pid(1)] })
        );
        assert_eq!(reports.last(), Some(&KeeperReport::Finished));
        let gaps = reports
            .iter()
            .filter(|r| matches!(r, KeeperReport::Gap { .. }));
        assert_eq!(gaps.count(), 1, "one for all that was given up");
    }

    #[test]
    fn a_front_that_keeps_up_gets_every_byte_in_order() {
        let mut viewer = Viewer::new();
        viewer.output(OutputStream::Out, b"a");
        viewer.output(OutputStream::Out, b"b");
        viewer.output(OutputStream::Err, &vec![b'c'; 3 * FRAME]);
        viewer.output(OutputStream::Out, b"d");
        let mut seen = Vec::new();
        for report in everything(&mut viewer) {
            if let KeeperReport::Output { bytes, .. } = report {
                seen.extend(bytes);
            }
        }
        assert_eq!(
            seen,
            [b"ab".to_vec(), vec![b'c'; 3 * FRAME], b"d".to_vec()].concat()
        );
    }
}
