//! What the front does for a run whose keeper was killed.
//!
//! With a pseudo-terminal the kernel has hung up the trainer by then. A launcher that handles SIGHUP stops
//! its ranks itself and is given the time for it. Whatever is left after that could hold a GPU forever,
//! because nobody watches it any more: [`clear_up`] ends it.
//!
//! Without one nothing hangs up the trainer: it continues as long as its pipes don't break. So the front
//! also holds their reading ends, without reading ([`HeldRun`]). Until it does, and for a while after the keeper's end,
//! the holder of the trainer's session keeps them, and if the keeper died before it could report the start, the
//! trainer is looked for among the processes that the kernel made ours ([`HeldRun::find`]). When the keeper is gone, a thread of the
//! front stands in for it: it passes on the output, carries out the few orders that still make sense, and
//! reports the end. The front that started the keeper becomes the trainer's parent and learns its exit
//! status; any other front only learns that it has ended.

use super::front::{Keeper, Reports};
use super::keeper::sweep::{Sweep, SweepScope};
use super::keeper::tree::{self, Process, Reaction};
use super::keeper::{ENDED_ITSELF, HOLDER};
use super::messages::{
    KeeperOrder, KeeperReport, KeeperTimeouts, OutputStream, StopStage, TrainerStreams,
};
use super::sent_signal::SentSignal;
use super::this_process::KEEPER_NAME;
use super::wire::{self, Decoder, Frame};
use crate::event::Exit;
use crate::units::{Pid, RunNumber};
use nix::libc;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::getsid;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a dying keeper may take.
const DYING: Duration = Duration::from_secs(5);
/// Between two looks at /proc, for what can't be waited for.
const LOOK: Duration = Duration::from_millis(20);
/// How often the trainer is looked at, in case the kernel doesn't report its end.
const TURN: Duration = Duration::from_millis(500);

/// Waits up to [`KeeperTimeouts::stop`] for the processes that a lost keeper left below this one, then
/// ends them. Returns those that could not be ended. Call it after
/// [`Reports::next`] gave `None` without a
/// [`KeeperReport::Finished`], when this process has no other children
/// that matter: all of them are reaped and finally ended.
pub async fn clear_up(timing: &KeeperTimeouts) -> Vec<Pid> {
    let until = Instant::now() + timing.stop;
    let mut left = living();
    while !left.is_empty() && Instant::now() < until {
        tokio::time::sleep(LOOK).await;
        left = living();
    }
    let mut sweep = Sweep::ask(SweepScope::All, Instant::now(), timing);
    while !sweep.round(Instant::now(), left.clone()).signal() {
        tokio::time::sleep(LOOK).await;
        left = living();
    }
    let out_of_reach = below().into_iter().filter(|left| !left.can_be_signalled());
    let left = left.into_iter().chain(out_of_reach);
    left.map(|process| Pid(process.pid)).collect()
}

/// The living processes below this one that it may signal; reaps the dead ones.
fn living() -> Vec<Process> {
    while let Ok(status) = waitpid(None, Some(WaitPidFlag::WNOHANG)) {
        if status == WaitStatus::StillAlive {
            break;
        }
    }
    let below = below().into_iter();
    below.filter(Process::can_be_signalled).collect()
}

fn below() -> Vec<Process> {
    tree::below(std::process::id() as i32, &[])
}

/// A run whose pipes are held so that it can outlive its keeper.
#[derive(Debug)]
pub struct HeldRun {
    run: RunNumber,
    trainer: Pid,
    start_time: u64,
    keeper: Pid,
    on_terminal: bool,
    pipes: Vec<HeldPipe>,
    /// The front has not heard of its start.
    untold: bool,
}

/// Why there is no run to follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRun {
    /// The keeper died before the program began.
    NeverBegan,
    /// The kernel has hung up its terminal.
    HungUp,
}

#[derive(Debug)]
struct HeldPipe {
    stream: OutputStream,
    /// The reading end.
    from: File,
    /// The user's own stream.
    to: Option<File>,
}

impl HeldRun {
    pub fn hold(
        keeper: Pid,
        run: RunNumber,
        trainer: Pid,
        start_time: u64,
        streams: &TrainerStreams,
    ) -> HeldRun {
        let pipe = |(stream, number): &(OutputStream, i32)| {
            let of_keeper = reading_end(keeper.0, *number);
            let from = of_keeper.or_else(|| kept_by_holder(trainer, *stream))?;
            let to = users_own(*stream, keeper, trainer);
            Some(HeldPipe {
                stream: *stream,
                from,
                to,
            })
        };
        HeldRun {
            run,
            trainer,
            start_time,
            keeper,
            on_terminal: streams.terminal,
            pipes: streams.pipes.iter().filter_map(pipe).collect(),
            untold: false,
        }
    }

    /// The run that a keeper, started by this process, began before it died, and whose start it did not report.
    pub fn find(keeper: Pid, run: RunNumber) -> Result<HeldRun, NoRun> {
        let until = Instant::now() + DYING;
        // What it has forked has its name until it is the holder or the program.
        let is_forked = || children().any(|child| child.name == KEEPER_NAME && !child.is_dead());
        while (is_forked() || !is_gone(keeper)) && Instant::now() < until {
            std::thread::sleep(LOOK);
        }
        let holder = children().find(|child| child.name == HOLDER);
        let holder = holder.ok_or(NoRun::NeverBegan)?;
        let id = Id::Pid(nix::unistd::Pid::from_raw(holder.pid));
        let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        match waitid(id, look) {
            Ok(WaitStatus::StillAlive | WaitStatus::Exited(_, ENDED_ITSELF)) => {}
            Ok(_) | Err(_) => return Err(NoRun::HungUp),
        }
        let mut in_session = children().filter(|child| session_of(child.pid) == Some(holder.pid));
        let trainer = in_session.find(|child| child.pid != holder.pid);
        let trainer = trainer.ok_or(NoRun::NeverBegan)?;
        let pid = Pid(trainer.pid);
        let pipe = |stream| {
            Some(HeldPipe {
                stream,
                from: kept_by_holder(pid, stream)?,
                to: users_own(stream, keeper, pid),
            })
        };
        let streams = [OutputStream::Out, OutputStream::Err];
        Ok(HeldRun {
            run,
            trainer: pid,
            start_time: trainer.start,
            keeper,
            on_terminal: false,
            pipes: streams.into_iter().filter_map(pipe).collect(),
            untold: true,
        })
    }

    /// Stands in for a dead keeper whose run was not hung up. Returns a connection that serves as the
    /// keeper's did; `None` if there is nothing to follow.
    pub fn follow(mut self, timing: KeeperTimeouts) -> Option<(Keeper, Reports)> {
        let until = Instant::now() + DYING;
        let start_time = self.start_time;
        let trainer = || Process::look(self.trainer.0).filter(|found| found.start == start_time);
        while !is_gone(self.keeper) {
            if Instant::now() >= until {
                return None;
            }
            std::thread::sleep(LOOK);
        }
        if self.on_terminal || trainer().is_none() {
            return None;
        }
        // While the keeper died its streams were gone already, and the trainer not yet ours.
        for pipe in self.pipes.iter_mut().filter(|pipe| pipe.to.is_none()) {
            pipe.to = users_own(pipe.stream, self.keeper, self.trainer);
        }
        let (ours, theirs) = UnixStream::pair().ok()?;
        let reports = theirs.try_clone().ok()?;
        std::thread::Builder::new()
            .name("stand-in".into())
            .spawn(move || StandIn::new(self, theirs, reports, timing).run())
            .ok()?;
        Keeper::over(ours, Pid(std::process::id() as i32)).ok()
    }
}

/// Whether a keeper is dead and its children are ours. It is called dead when its first thread is; its children stay its own
/// until the last one is, too.
fn is_gone(keeper: Pid) -> bool {
    let lives = Process::look(keeper.0).is_some_and(|process| !process.is_dead());
    !lives && tree::children_of(keeper.0).next().is_none()
}

fn children() -> impl Iterator<Item = Process> {
    tree::children_of(std::process::id() as i32)
}

fn session_of(pid: i32) -> Option<i32> {
    let session = getsid(Some(nix::unistd::Pid::from_raw(pid)));
    session.ok().map(nix::unistd::Pid::as_raw)
}

/// What a process reads as this number, which is a pipe.
fn reading_end(process: i32, number: i32) -> Option<File> {
    // Non-blocking: opening a pipe without a writer would wait for one.
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(format!("/proc/{process}/fd/{number}"));
    opened.ok().inspect(set_blocking)
}

/// The reading end of the trainer's pipe that the holder of its session keeps.
fn kept_by_holder(trainer: Pid, stream: OutputStream) -> Option<File> {
    let number = stream.number()?;
    let holder = session_of(trainer.0).filter(|session| *session != trainer.0)?;
    let until = Instant::now() + DYING;
    loop {
        match Process::look(holder).filter(|process| !process.is_dead())? {
            process if process.name == HOLDER => return reading_end(holder, number),
            // It has just been forked.
            _ if Instant::now() < until => std::thread::sleep(LOOK),
            _ => return None,
        }
    }
}

/// The stream that the keeper wrote to: ours, or the keeper's if ours is another one. A keeper that has left its trainer to us
/// had ours.
fn users_own(stream: OutputStream, keeper: Pid, trainer: Pid) -> Option<File> {
    let number = stream.number()?;
    let target = |pid: &str| std::fs::read_link(format!("/proc/{pid}/fd/{number}")).ok();
    let theirs = target(&keeper.to_string());
    let us = std::process::id() as i32;
    let is_ours = || Process::look(trainer.0).is_some_and(|process| process.parent == us);
    if target("self") == theirs || is_ours() {
        let ours = match number {
            1 => io::stdout().as_fd().try_clone_to_owned(),
            _ => io::stderr().as_fd().try_clone_to_owned(),
        };
        return ours.ok().map(File::from);
    }
    let opened = OpenOptions::new()
        .append(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(format!("/proc/{keeper}/fd/{number}"));
    opened.ok().inspect(set_blocking)
}

/// Makes reads and writes wait. The open file description must be ours alone.
fn set_blocking(file: &File) {
    // SAFETY: a descriptor of our own.
    unsafe {
        let flags = libc::fcntl(file.as_raw_fd(), libc::F_GETFL);
        libc::fcntl(file.as_raw_fd(), libc::F_SETFL, flags & !libc::O_NONBLOCK);
    }
}

/// What the kernel says of the trainer's end.
enum Reaped {
    Lives,
    Ended(Exit),
    NotOurs,
}

struct StandIn {
    run: HeldRun,
    socket: UnixStream,
    reports: Arc<Mutex<UnixStream>>,
    timing: KeeperTimeouts,
    /// Becomes readable when the trainer ends, if the kernel supports it.
    pidfd: Option<OwnedFd>,
    /// When a requested stop goes on to the whole tree.
    stop: Option<Instant>,
    /// The signals that were passed on and are passed on only once.
    asked: Vec<i32>,
}

impl StandIn {
    fn new(
        run: HeldRun,
        socket: UnixStream,
        reports: UnixStream,
        timing: KeeperTimeouts,
    ) -> StandIn {
        // SAFETY: opens a descriptor, or does not.
        let pidfd = unsafe { libc::syscall(libc::SYS_pidfd_open, run.trainer.0, 0) };
        StandIn {
            reports: Arc::new(Mutex::new(reports)),
            // SAFETY: the kernel has just opened it for us.
            pidfd: (pidfd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(pidfd as i32) }),
            run,
            socket,
            timing,
            stop: None,
            asked: Vec::new(),
        }
    }

    fn run(mut self) {
        if self.run.untold {
            self.report(&KeeperReport::Started {
                run: self.run.run,
                pid: self.run.trainer,
                start_time: self.run.start_time,
                streams: TrainerStreams::default(),
            });
        }
        let copying: Vec<Copying> = std::mem::take(&mut self.run.pipes)
            .into_iter()
            .filter_map(|pipe| Copying::start(pipe, &self.reports).ok())
            .collect();
        let mut decoder = Decoder::default();
        let exit = loop {
            if let Some(ended) = self.ended() {
                break ended;
            }
            self.wait();
            self.take_orders(&mut decoder);
            if self.stop.is_some_and(|until| Instant::now() >= until) {
                self.sweep(false);
            }
        };
        if self.stop.is_some() {
            self.sweep(false);
        }
        let until = Instant::now() + self.timing.drain;
        while !copying.iter().all(Copying::is_over) && Instant::now() < until {
            std::thread::sleep(LOOK);
        }
        // Something that it left running may hold a pipe for ever; what is in it by now is the trainer's.
        for pipe in copying.iter().filter(|pipe| !pipe.is_over()) {
            pipe.pass_on_the_rest(&self.reports);
        }
        if let Some(exit) = exit {
            let left = below().into_iter().filter(|left| left.name != HOLDER);
            self.report(&KeeperReport::Exited {
                run: self.run.run,
                exit,
                left: left.map(|process| Pid(process.pid)).collect(),
            });
            self.report(&KeeperReport::Finished);
        }
        // The connection ends with this thread. Without an `Exited` the end is known, the status isn't.
    }

    /// `Some` if the trainer has ended, with its status if it is our child.
    fn ended(&self) -> Option<Option<Exit>> {
        match self.reaped() {
            Reaped::Lives => None,
            Reaped::Ended(exit) => Some(Some(exit)),
            Reaped::NotOurs if self.trainer().is_some_and(|found| !found.is_dead()) => None,
            // It may have become ours, and ended, between the two looks.
            Reaped::NotOurs => match self.reaped() {
                Reaped::Ended(exit) => Some(Some(exit)),
                Reaped::Lives | Reaped::NotOurs => Some(None),
            },
        }
    }

    fn reaped(&self) -> Reaped {
        let mut status = 0;
        // SAFETY: asks for one child, whose status it writes into a number of ours.
        match unsafe { libc::waitpid(self.run.trainer.0, &mut status, libc::WNOHANG) } {
            0 => Reaped::Lives,
            // Without WUNTRACED only an end is told.
            1.. => Exit::from_raw(status).map_or(Reaped::Lives, Reaped::Ended),
            _ => Reaped::NotOurs,
        }
    }

    /// Waits for an order or for the end.
    fn wait(&self) {
        let entry = |fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        let mut polled = vec![entry(self.socket.as_raw_fd())];
        polled.extend(self.pidfd.as_ref().map(|fd| entry(fd.as_raw_fd())));
        let rest = self.stop.map_or(TURN, |until| {
            until.saturating_duration_since(Instant::now())
        });
        let millis = rest.min(TURN).as_millis() as i32 + 1;
        // SAFETY: the list and its length belong together; the descriptors are open.
        unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, millis) };
    }

    fn take_orders(&mut self, decoder: &mut Decoder) {
        let mut chunk = [0; 4096];
        let flags = nix::sys::socket::MsgFlags::MSG_DONTWAIT;
        match nix::sys::socket::recv(self.socket.as_raw_fd(), &mut chunk, flags) {
            Ok(0) => {
                // The front has gone; the output is still passed on.
                std::thread::sleep(TURN);
            }
            Ok(n) => decoder.push(chunk.get(..n).unwrap_or_default()),
            Err(_) => {}
        }
        while let Ok(Some(frame)) = decoder.next() {
            if let Some(order) = Frame::into_order(frame) {
                self.take(order);
            }
        }
    }

    fn take(&mut self, order: KeeperOrder) {
        match order {
            KeeperOrder::Forward(sent) => self.signal(sent),
            KeeperOrder::Interrupt => self.signal(libc::SIGINT.into()),
            KeeperOrder::Stop if self.stop.is_none() => {
                self.signal(libc::SIGTERM.into());
                self.signal(libc::SIGCONT.into());
                self.stop = Some(Instant::now() + self.timing.stop);
                self.report(&KeeperReport::Stopping {
                    rung: StopStage::Asked,
                    within: self.timing.stop,
                });
            }
            KeeperOrder::Kill => self.sweep(true),
            // The rest needs a keeper: terminals, callers, further runs.
            _ => {}
        }
    }

    /// Signals the trainer, unless it would die of a signal that isn't a request to end, or has already
    /// had this one.
    fn signal(&mut self, sent: SentSignal) {
        let signal = sent.number();
        let Some(trainer) = self.trainer() else {
            return;
        };
        if matches!(signal, libc::SIGTERM | libc::SIGHUP | libc::SIGQUIT) {
            if self.asked.contains(&signal) {
                return;
            }
            self.asked.push(signal);
        }
        let is_news = matches!(signal, libc::SIGUSR1 | libc::SIGUSR2);
        if !(is_news && trainer.reaction(signal) == Some(Reaction::Default)) {
            trainer.send(sent);
        }
    }

    fn trainer(&self) -> Option<Process> {
        let start = self.run.start_time;
        Process::look(self.run.trainer.0).filter(|process| process.start == start)
    }

    /// Ends the trainer and all processes below it and below us.
    fn sweep(&mut self, at_once: bool) {
        self.stop = Some(Instant::now() + self.timing.stop);
        let now = Instant::now();
        let mut sweep = match at_once {
            true => Sweep::kill(SweepScope::All, now, &self.timing),
            false => Sweep::ask(SweepScope::All, now, &self.timing),
        };
        while !sweep.round(Instant::now(), self.living()).signal() {
            std::thread::sleep(LOOK);
        }
    }

    fn living(&self) -> Vec<Process> {
        let (us, trainer) = (std::process::id() as i32, self.run.trainer.0);
        let mut living = tree::below(us, &[]);
        if !living.iter().any(|process| process.pid == trainer) {
            living.extend(self.trainer());
            living.extend(tree::below(trainer, &[]));
        }
        living.retain(|process| !process.is_dead() && process.can_be_signalled());
        living
    }

    fn report(&self, report: &KeeperReport) {
        send(&self.reports, &wire::report(report));
    }
}

fn send(reports: &Mutex<UnixStream>, bytes: &[u8]) {
    let mut socket = reports.lock().unwrap_or_else(PoisonError::into_inner);
    // The front may have gone.
    let _ = socket.write_all(bytes);
}

/// A pipe whose output a thread passes on to its end: to the user first, then to the front.
struct Copying {
    pipe: Arc<Mutex<HeldPipe>>,
    thread: JoinHandle<()>,
}

impl Copying {
    fn start(pipe: HeldPipe, reports: &Arc<Mutex<UnixStream>>) -> io::Result<Copying> {
        let number = pipe.from.as_raw_fd();
        let pipe = Arc::new(Mutex::new(pipe));
        let (copied, reports) = (pipe.clone(), reports.clone());
        let thread = std::thread::Builder::new().name("copying".into());
        let thread = thread.spawn(move || {
            let mut chunk = vec![0; CHUNK];
            // The pipe is locked only to take out what is there: it waits for it unlocked.
            while wait_for_output(number, -1) {
                let mut pipe = copied.lock().unwrap_or_else(PoisonError::into_inner);
                // The rest may have been passed on meanwhile.
                if wait_for_output(number, 0) && pipe.pass_on(&mut chunk, &reports) == 0 {
                    return;
                }
            }
        })?;
        Ok(Copying { pipe, thread })
    }

    fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// Passes on what is in the pipe now, unless the user's own stream takes nothing.
    fn pass_on_the_rest(&self, reports: &Mutex<UnixStream>) {
        let until = Instant::now() + DYING;
        let mut pipe = loop {
            match self.pipe.try_lock() {
                Ok(pipe) => break pipe,
                Err(TryLockError::Poisoned(error)) => break error.into_inner(),
                Err(TryLockError::WouldBlock) if Instant::now() < until => {
                    std::thread::sleep(LOOK);
                }
                Err(TryLockError::WouldBlock) => return,
            }
        };
        let number = pipe.from.as_raw_fd();
        let mut left = waiting_bytes(number);
        let mut chunk = vec![0; CHUNK];
        while left > 0 && wait_for_output(number, 0) {
            let taken = left.min(CHUNK);
            match pipe.pass_on(chunk.get_mut(..taken).unwrap_or_default(), reports) {
                0 => return,
                n => left -= n,
            }
        }
    }
}

/// How much is taken out of a pipe at a time.
const CHUNK: usize = 64 << 10;

impl HeldPipe {
    /// Passes on what one read gives, and says how much; 0 at the pipe's end.
    fn pass_on(&mut self, chunk: &mut [u8], reports: &Mutex<UnixStream>) -> usize {
        let bytes = loop {
            match self.from.read(chunk) {
                Ok(n) => break chunk.get(..n).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return 0,
            }
        };
        if bytes.is_empty() {
            return 0;
        }
        // If the user's reader is gone, only that stream ends, not the training.
        if let Some(to) = &mut self.to
            && to.write_all(bytes).is_err()
        {
            self.to = None;
        }
        let mut frame = Vec::new();
        wire::output(&mut frame, self.stream, [bytes, &[]]);
        send(reports, &frame);
        bytes.len()
    }
}

/// Whether a pipe has output, or has ended, within so many milliseconds (−1: however long it takes).
fn wait_for_output(number: RawFd, millis: libc::c_int) -> bool {
    let mut polled = libc::pollfd {
        fd: number,
        events: libc::POLLIN,
        revents: 0,
    };
    loop {
        // SAFETY: one entry, which is ours; the descriptor is open as long as its pipe is held.
        match unsafe { libc::poll(&mut polled, 1, millis) } {
            -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            n => return n > 0,
        }
    }
}

/// How many bytes are in a pipe.
fn waiting_bytes(number: RawFd) -> usize {
    let mut waiting: libc::c_int = 0;
    // SAFETY: writes one number, which is ours.
    let told = unsafe { libc::ioctl(number, libc::FIONREAD, &mut waiting) };
    match told {
        0 => usize::try_from(waiting).unwrap_or(0),
        _ => 0,
    }
}
