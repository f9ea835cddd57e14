//! The keeper's loop: wait, read, pass on, and act when something is due.

mod askers;
mod handover;
mod launch;
mod orders;
mod output;
mod signals;
mod stop;
mod wait;

use super::callers::Callers;
use super::descriptor;
use super::input::UserInput;
use super::output_fanout::OutputFanout;
use super::relay::Relay;
use super::run::TrainerRun;
use super::stdio::{self, StdioPlan};
use super::sweep::Sweep;
use super::tree::Process;
use crate::supervise::wire::{Decoder, FirstMessage};
use crate::supervise::{KeeperReport, OutputStream, Size};
use handover::{CurrentFront, FrontExit, NextFront};
use nix::libc;
use nix::sys::signalfd::SignalFd;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};
use wait::PollToken;

/// One read. A pseudo-terminal gives at most 4 KiB at a time, a pipe 64.
const READ: usize = 64 << 10;

/// How long writing the last bytes of the log may take.
const LAST_WRITE: Duration = Duration::from_secs(2);

pub(super) struct KeeperLoop {
    hello: FirstMessage,
    plan: StdioPlan,
    /// The connection to the front; `None` while there is none.
    socket: Option<OwnedFd>,
    front: CurrentFront,
    /// The number of fronts before this one.
    fronts_lost: u64,
    /// When to look at a suspended front next.
    asleep: Option<Instant>,
    /// The next front, while the current one makes way.
    next_front: Option<NextFront>,
    callers: Option<Callers>,
    memory: Option<String>,
    described: Option<String>,
    decoder: Decoder,
    signals: SignalFd,
    wake: OwnedFd,
    fanout: OutputFanout,
    relay: Option<Relay>,
    input: UserInput,
    /// Whether the front knows that the input is spent.
    told_spent: bool,
    /// All runs that are alive or whose terminal or pipe some process holds; the last is the current
    /// one.
    runs: Vec<TrainerRun>,
    sweep: Option<Sweep>,
    /// What a sweep left, until it may be reported: after the run's end.
    swept: Option<Vec<Process>>,
    /// The last change of the terminal's size, and one that is due later.
    resized: Instant,
    size: Option<Size>,
    tail_due: Option<Instant>,
    reap_more: bool,
    screen_shown: bool,
    /// A caller asked for the session to end.
    stopping: bool,
    /// The front has sent `Finish`: there will be no more runs.
    finishing: bool,
    finished: bool,
    /// There is no front, and none will come unless one attaches: the session ends with the run.
    no_front_left: bool,
    /// The user's descriptors beyond the three streams, for the trainer.
    inherited: Vec<OwnedFd>,
    /// The user's controlling terminal, if the front has given it.
    controlling: Option<i32>,
    /// Whether the user's descriptors were closed.
    gone: bool,
    /// Session holders (and fronts we started) that were not reaped yet: not part of the trainer's
    /// tree.
    holders: Vec<i32>,
    buffer: Vec<u8>,
}

impl KeeperLoop {
    /// Reads the front's first message from `socket` and opens everything it asks for.
    pub(super) fn open(
        socket: OwnedFd,
        signals: SignalFd,
        inherited: Vec<OwnedFd>,
        controlling: Option<i32>,
    ) -> io::Result<KeeperLoop> {
        let (hello, decoder) = first_message(&socket)?;
        descriptor::set_nonblocking(&socket)?;
        let plan = stdio::plan(stdio::look(0), stdio::look(1), stdio::look(2), controlling);
        let wake = descriptor::event()?;
        let fanout = OutputFanout::open(&hello, &plan, &wake)?;
        let now = Instant::now();
        Ok(KeeperLoop {
            relay: Relay::open(&hello, &plan),
            input: UserInput::open(hello.input),
            told_spent: false,
            front: CurrentFront::first(&hello),
            fronts_lost: 0,
            asleep: None,
            hello,
            plan,
            socket: Some(socket),
            next_front: None,
            callers: None,
            memory: None,
            described: None,
            decoder,
            signals,
            wake,
            fanout,
            runs: Vec::new(),
            sweep: None,
            swept: None,
            resized: now.checked_sub(Duration::from_secs(1)).unwrap_or(now),
            size: None,
            tail_due: None,
            reap_more: false,
            screen_shown: true,
            stopping: false,
            finishing: false,
            finished: false,
            no_front_left: false,
            inherited,
            controlling,
            gone: false,
            holders: Vec::new(),
            buffer: vec![0; READ],
        })
    }

    pub(super) fn run(mut self) {
        let mut polled: Vec<libc::pollfd> = Vec::new();
        let mut tokens: Vec<PollToken> = Vec::new();
        // Orders may have come with the first message.
        self.carry_out_orders();
        loop {
            let now = Instant::now();
            self.act(now);
            if self.is_done() {
                break;
            }
            polled.clear();
            tokens.clear();
            self.list(now, &mut polled, &mut tokens);
            let timeout = self.timeout(Instant::now());
            self.fanout.nudge();
            // SAFETY: the list and its length belong together; the descriptors are open.
            let ready =
                unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, timeout) };
            if ready <= 0 {
                continue;
            }
            for (entry, token) in polled.iter().zip(&tokens) {
                if entry.revents != 0 {
                    self.serve(*token, entry.revents);
                }
            }
        }
        self.fanout.close(LAST_WRITE);
    }

    fn act(&mut self, now: Instant) {
        if self.reap_more {
            self.reap();
        }
        self.act_on_input();
        self.act_on_askers(now);
        self.act_on_size(now);
        self.act_on_tails(now);
        self.act_on_stop(now);
        self.act_on_sweep(now);
        self.act_on_readers(now);
        self.act_on_drain(now);
        self.tell_swept();
        self.fanout.report_log(now);
        self.fanout.tidy(now);
        self.act_on_sleeping_front(now);
        for run in &mut self.runs {
            run.pipes.retain(|pipe| !pipe.ended);
        }
        let last = self.runs.len();
        let mut index = 0;
        self.runs.retain(|run| {
            index += 1;
            index == last || run.is_held()
        });
        self.act_on_next_front(now);
        self.act_on_finish(now);
    }

    /// Passes standard input on, and tells the front once there can't be another run with it.
    fn act_on_input(&mut self) {
        self.input.serve();
        if let Some(spent) = self.input.spent()
            && !std::mem::replace(&mut self.told_spent, true)
        {
            let reason = spent.to_string();
            self.fanout.report(KeeperReport::InputSpent { reason });
        }
    }

    /// Whether there will be no more runs.
    fn is_ending(&self) -> bool {
        self.finishing || self.no_front_left
    }

    fn act_on_finish(&mut self, now: Instant) {
        let at_rest = self.runs.last().is_none_or(TrainerRun::is_over)
            && self.sweep.is_none()
            && self.swept.is_none();
        if !(self.is_ending() && at_rest) {
            return;
        }
        if self.socket.is_some() {
            if !self.finished && self.fanout.all_written() {
                self.fanout.report_log_now(now);
                self.fanout.report(KeeperReport::Finished);
                self.finished = true;
            }
            let told = self.fanout.viewer.as_ref().is_none_or(|v| v.is_empty());
            if self.finished && told {
                self.lose_front(FrontExit::Released);
            }
        }
        if self.fanout.all_written() {
            self.fanout.followers.hear_the_end();
        }
        if self.socket.is_none() && !self.gone {
            self.let_go();
        }
    }

    /// Processes that still hold a terminal or pipe of ours are served to the end. The user's other
    /// descriptors are closed, because somebody may be waiting for their end.
    fn let_go(&mut self) {
        let unwritten = !self.fanout.all_written();
        let is_needed = |stream| {
            let held = |run: &TrainerRun| match stream {
                OutputStream::Terminal => run.terminal.is_some(),
                OutputStream::Out | OutputStream::Err => {
                    run.pipes.iter().any(|pipe| pipe.stream == stream)
                }
            };
            unwritten || (self.fanout.writes(stream) && self.runs.iter().any(held))
        };
        let all = [
            (OutputStream::Terminal, self.plan.terminal),
            (OutputStream::Out, Some(1)),
            (OutputStream::Err, Some(2)),
        ];
        let (kept, gone): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|(stream, _)| is_needed(*stream));
        for (stream, _) in gone {
            self.fanout.let_go(stream);
        }
        let kept: Vec<i32> = kept.into_iter().filter_map(|(_, number)| number).collect();
        self.input = UserInput::Other;
        self.relay = self
            .relay
            .take()
            .filter(|_| kept.iter().any(|n| Some(*n) == self.plan.terminal));
        stdio::let_go(&kept, self.controlling, &mut self.inherited);
        self.gone = true;
    }

    fn is_done(&self) -> bool {
        self.socket.is_none()
            && self.is_ending()
            && self.runs.last().is_none_or(TrainerRun::is_over)
            && self.sweep.is_none()
            && !self.runs.iter().any(TrainerRun::is_held)
            && self.fanout.all_written()
    }
}

/// Waits for the front's first message, which comes at once.
fn first_message(socket: impl AsFd) -> io::Result<(FirstMessage, Decoder)> {
    let mut decoder = Decoder::default();
    let mut chunk = [0; 4096];
    loop {
        let nonsense = || io::Error::other("the first message is not from oomph");
        if let Some(frame) = decoder.next().map_err(|_| nonsense())? {
            return Ok((frame.json().ok_or_else(nonsense)?, decoder));
        }
        let n = nix::unistd::read(&socket, &mut chunk)?;
        if n == 0 {
            return Err(io::Error::other("the front is gone"));
        }
        decoder.push(chunk.get(..n).unwrap_or_default());
    }
}
