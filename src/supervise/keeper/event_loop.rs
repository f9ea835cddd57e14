//! The keeper's one loop: wait, take out, pass on, and act when something is due.

mod handover;
mod launch;
mod orders;
mod output;
mod signals;
mod stop;
mod wait;

use super::callers::Callers;
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
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use wait::PollToken;

/// One read. A pseudo-terminal gives at most 4 KiB at a time, a pipe 64.
const READ: usize = 64 << 10;

/// How long the log may take for its last bytes.
const LAST_WRITE: Duration = Duration::from_secs(2);

/// What a keeper has when it begins.
pub(super) struct KeeperParts {
    /// The front's first message.
    pub hello: FirstMessage,
    /// What the trainer gets as its streams.
    pub plan: StdioPlan,
    /// The socket to the front.
    pub socket: OwnedFd,
    /// What else came with the first message.
    pub decoder: Decoder,
    /// All signals, as a descriptor.
    pub signals: SignalFd,
    /// Wakes the loop for its threads.
    pub wake: OwnedFd,
    /// Where output goes.
    pub fanout: OutputFanout,
    /// Descriptors of the user's beyond the three streams.
    pub inherited: Vec<OwnedFd>,
}

/// The keeper's state.
pub(super) struct KeeperLoop {
    hello: FirstMessage,
    plan: StdioPlan,
    /// The connection to the front; `None` while there is none.
    socket: Option<OwnedFd>,
    /// Who that front is.
    front: CurrentFront,
    /// How many there were before it.
    fronts_lost: u64,
    /// When a front that is stopped is looked at next.
    asleep: Option<Instant>,
    /// Who is to be the front next, once the present one has made way.
    next_front: Option<NextFront>,
    /// Those who call at the session's socket.
    callers: Option<Callers>,
    memory: Option<String>,
    described: Option<String>,
    decoder: Decoder,
    signals: SignalFd,
    wake: OwnedFd,
    fanout: OutputFanout,
    relay: Option<Relay>,
    /// All runs that are alive or whose terminal or pipe somebody holds; the last is the present.
    runs: Vec<TrainerRun>,
    sweep: Option<Sweep>,
    /// What a sweep left, until it may be reported (after the run's end).
    swept: Option<Vec<Process>>,
    /// The last change of the terminal's size, and one that waits for its time.
    resized: Instant,
    size: Option<Size>,
    tail_due: Option<Instant>,
    reap_more: bool,
    screen_shown: bool,
    /// Somebody asked for the session to end.
    stopping: bool,
    /// The front said that there will be no more runs.
    finishing: bool,
    finished: bool,
    /// There is no front, and there will be none but one that attaches: the end of the run is the
    /// end.
    no_front_left: bool,
    /// Descriptors of the user's beyond the three streams, for the trainer.
    inherited: Vec<OwnedFd>,
    /// Whether the user's descriptors were let go.
    gone: bool,
    /// Holders of sessions that were not reaped yet: ours, and none of the trainer's tree.
    holders: Vec<i32>,
    buffer: Vec<u8>,
}

impl KeeperLoop {
    /// The state at the beginning.
    pub(super) fn new(belongings: KeeperParts) -> KeeperLoop {
        let KeeperParts {
            hello,
            plan,
            socket,
            decoder,
            signals,
            wake,
            fanout,
            inherited,
        } = belongings;
        let now = Instant::now();
        KeeperLoop {
            relay: Relay::open(&hello, &plan),
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
            gone: false,
            holders: Vec::new(),
            buffer: vec![0; READ],
        }
    }

    /// Works until there is nothing left to do.
    pub(super) fn run(mut self) {
        let mut polled: Vec<libc::pollfd> = Vec::new();
        let mut tokens: Vec<PollToken> = Vec::new();
        // What came with the first message.
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
        self.act_on_size(now);
        self.act_on_tails(now);
        self.act_on_stop(now);
        self.act_on_sweep(now);
        self.act_on_drain(now);
        self.tell_swept();
        self.fanout.report_losses(now);
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
                self.fanout.report_losses_now(now);
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

    /// Whoever still holds a terminal or pipe of ours is served to the end; all else of the
    /// user's is let go, for somebody may be waiting for its end.
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
        stdio::let_go(&kept, &mut self.inherited);
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
