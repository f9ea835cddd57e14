//! The keeper's loop: wait, read, pass on, and act when something is due.
//!
//! Here: what is polled and for how long, what to do when something is ready, and the front's orders. The
//! files beside it say what becomes of a run, of its output, and of one front after another.

mod handover;
mod output;
mod run_life;

use super::connections::Callers;
use super::copied_terminal::{self, CopiedTerminals};
use super::descriptor::{self, Got, StdioPlan};
use super::input::UserInput;
use super::output_fanout::{self, OutputFanout};
use super::pty;
use super::relay::{OutputSoFar, Relay};
use super::run::{self, Stage, Stop, TrainerRun};
use super::sweep::Sweep;
use super::tree::Process;
use crate::supervise::wire::{Decoder, FirstMessage};
use crate::supervise::{KeeperOrder, KeeperReport, OutputStream, Size};
use handover::{CurrentFront, FrontExit, LOOK_AT_SLEEPER, NextFront};
use nix::libc;
use nix::sys::signalfd::SignalFd;
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

/// One read. A pseudo-terminal gives at most 4 KiB at a time, a pipe 64.
const READ: usize = 64 << 10;

/// How long writing the last bytes of the log may take.
const LAST_WRITE: Duration = Duration::from_secs(2);

/// How long this process then stays for one that is slow: nobody waits for it any more, and a disk that
/// is busy with other files may take many seconds to create one.
const SLOW_DISK: Duration = Duration::from_secs(60);

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
    /// We have stopped it, because the program was stopped.
    stopped_front: bool,
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
    copied: CopiedTerminals,
    /// When to set again what a program has taken from its terminal.
    relays_again: Option<Instant>,
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
    /// Signals that a service manager has sent to this process, and when: the training has them as well.
    sent_to_all: HashMap<i32, Instant>,
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

/// What was polled, with the indices of the run and of its pipe.
#[derive(Debug, Clone, Copy)]
enum PollToken {
    Signals,
    Wake,
    Front,
    Callers,
    Keys,
    Starting(usize),
    Master(usize),
    Pipe(usize, usize),
    Room(OutputStream),
    Growth(usize),
    Input,
    Askers,
}

impl KeeperLoop {
    /// Reads the front's first message from `socket` and opens everything it asks for.
    pub fn open(
        socket: OwnedFd,
        signals: SignalFd,
        inherited: Vec<OwnedFd>,
        controlling: Option<i32>,
    ) -> io::Result<KeeperLoop> {
        let (hello, decoder) = first_message(&socket)?;
        descriptor::set_nonblocking(&socket)?;
        let plan = descriptor::plan(
            descriptor::look(0),
            descriptor::look(1),
            descriptor::look(2),
            controlling,
        );
        let wake = descriptor::event()?;
        let fanout = OutputFanout::open(&hello, &plan, &wake)?;
        let now = Instant::now();
        Ok(KeeperLoop {
            relay: Relay::open(&hello, &plan),
            copied: CopiedTerminals::default(),
            relays_again: None,
            input: UserInput::open(hello.input),
            told_spent: false,
            front: CurrentFront::first(&hello),
            fronts_lost: 0,
            asleep: None,
            stopped_front: false,
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
            sent_to_all: HashMap::new(),
            stopping: false,
            finishing: false,
            finished: false,
            no_front_left: false,
            inherited,
            controlling,
            gone: false,
            holders: Vec::new(),
            buffer: vec![0; READ + pty::HEAD],
        })
    }

    pub fn run(mut self) {
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
        self.fanout.end_log(SLOW_DISK);
    }

    fn act(&mut self, now: Instant) {
        if self.reap_more {
            self.reap();
        }
        self.act_on_input();
        self.act_on_askers(now);
        self.act_on_copied_terminals(now);
        self.act_on_lost_relaying(now);
        self.act_on_raw_output();
        self.act_on_size(now);
        self.act_on_tails(now);
        self.act_on_stop(now);
        self.act_on_unread_interrupt(now);
        self.act_on_sweep(now);
        self.act_on_readers(now);
        self.act_on_drain(now);
        self.tell_swept();
        self.fanout.report_log(now);
        self.fanout.tidy(now);
        self.act_on_sleeping_front(now);
        for run in &mut self.runs {
            // The training goes on without its reader; what it has left behind ends by that, as without oomph.
            let is_over = run.is_over();
            let is_spent = |stream| is_over && self.fanout.has_no_reader(stream);
            run.pipes
                .retain(|pipe| !pipe.ended && !is_spent(pipe.stream));
            run.act_on_closing(now);
        }
        let last = self.runs.len();
        let mut index = 0;
        self.runs.retain(|run| {
            index += 1;
            index == last || run.is_held() || run.is_closing()
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
                let stays = self.runs.iter().any(TrainerRun::is_held);
                if !stays {
                    // The session's end is reported once its log is whole: somebody may read that next.
                    self.fanout.end_log(LAST_WRITE);
                }
                self.fanout.report_log_now(now);
                if stays {
                    self.fanout.report(KeeperReport::Stays);
                }
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
        descriptor::let_go(&kept, self.controlling, &mut self.inherited);
        self.gone = true;
    }

    fn is_done(&self) -> bool {
        self.socket.is_none()
            && self.is_ending()
            && self.runs.last().is_none_or(TrainerRun::is_over)
            && self.sweep.is_none()
            && !self
                .runs
                .iter()
                .any(|run| run.is_held() || run.is_closing())
            && self.fanout.all_written()
    }

    /// What to wait for.
    fn list(&mut self, now: Instant, polled: &mut Vec<libc::pollfd>, tokens: &mut Vec<PollToken>) {
        let mut add = |fd: RawFd, events, token| {
            polled.push(libc::pollfd {
                fd,
                events,
                revents: 0,
            });
            tokens.push(token);
        };
        add(
            self.signals.as_fd().as_raw_fd(),
            libc::POLLIN,
            PollToken::Signals,
        );
        add(self.wake.as_raw_fd(), libc::POLLIN, PollToken::Wake);
        if let Some(socket) = &self.socket {
            let waiting = (self.fanout.viewer.as_ref()).is_some_and(|v| v.wants_to_send());
            let events = if waiting {
                libc::POLLIN | libc::POLLOUT
            } else {
                libc::POLLIN
            };
            add(socket.as_raw_fd(), events, PollToken::Front);
        }
        if let Some(fd) = self.relay.as_ref().and_then(Relay::polled) {
            add(fd, libc::POLLIN, PollToken::Askers);
        }
        for (fd, events) in self.input.polled() {
            add(fd, events, PollToken::Input);
        }
        for (stream, fd) in self.fanout.full_pipes() {
            add(fd, libc::POLLOUT, PollToken::Room(stream));
        }
        for fd in self.callers.iter().flat_map(|callers| callers.polled(now)) {
            add(fd, libc::POLLIN, PollToken::Callers);
        }
        if let Some(run) = self.runs.last_mut()
            && run.pid().is_some()
            && let Some(terminal) = &mut run.terminal
            && terminal.pty.has_room(now)
            && let Some(fd) = self.relay.as_ref().and_then(|r| r.wants_keys(now, run))
        {
            add(fd, libc::POLLIN, PollToken::Keys);
        }
        for (index, run) in self.runs.iter().enumerate() {
            if let Stage::Starting { pipe, .. } = &run.stage {
                // Nothing else of it yet: the front shows a run's output from `KeeperReport::Started`
                // on, and the program may write before we know of the exec (the session holder may
                // close its end of the pipe later).
                add(pipe.as_raw_fd(), libc::POLLIN, PollToken::Starting(index));
                continue;
            }
            if let Some(terminal) = &run.terminal {
                let mut events = 0;
                if self.fanout.room(OutputStream::Terminal) > 0 {
                    events |= libc::POLLIN;
                }
                if !run.keys.is_empty() && terminal.pty.had_room() {
                    events |= libc::POLLOUT;
                }
                if let Some(reads) = terminal.pty.tells_of_reads() {
                    // It is looked in each turn.
                    add(reads, libc::POLLIN, PollToken::Input);
                }
                // Even without events poll would report a hang-up, again and again.
                if events != 0 {
                    add(
                        terminal.pty.master.as_raw_fd(),
                        events,
                        PollToken::Master(index),
                    );
                }
            }
            for (number, pipe) in run.pipes.iter().enumerate() {
                if self.fanout.room(pipe.stream) > 0 {
                    add(
                        pipe.fd.as_raw_fd(),
                        libc::POLLIN,
                        PollToken::Pipe(index, number),
                    );
                }
            }
            if self.tail_due.is_none() {
                for watch in run.tails.iter().filter_map(|tail| tail.watch.as_ref()) {
                    add(watch.as_raw_fd(), libc::POLLIN, PollToken::Growth(index));
                }
            }
        }
    }

    /// Milliseconds until something is due; −1 for never.
    fn timeout(&self, now: Instant) -> i32 {
        if self.reap_more {
            return 0;
        }
        let timing = &self.hello.timing;
        let mut due: Vec<Option<Instant>> = vec![
            self.sweep.as_ref().map(Sweep::due),
            self.size.map(|_| self.resized + timing.resize),
            self.tail_due,
            self.fanout.due(),
            self.relay.as_ref().and_then(|relay| relay.due(now)),
            self.callers.as_ref().and_then(|callers| callers.due(now)),
            self.next_front_due(),
            self.asleep,
            self.copied.due(),
            self.relays_again,
            self.readers_due(),
            self.input.due(now),
        ];
        due.extend(self.runs.iter().map(TrainerRun::closes_at));
        if let Some(run) = self.runs.last() {
            due.push(run.unread_interrupt);
            if let Some(Stop::Asked(until)) = run.stop
                && run.pid().is_some()
            {
                due.push(Some(until));
            }
            if let Stage::Draining { since, .. } = run.stage {
                due.push(Some((since + timing.drain).min(run.heard + timing.quiet)));
            }
            if run.pid().is_some()
                && let Some(terminal) = &run.terminal
            {
                due.push(terminal.pty.due());
            }
            // Files without a watch are read every second.
            if run.pid().is_some() && run.tails.iter().any(|tail| tail.watch.is_none()) {
                due.push(Some(now + Duration::from_secs(1)));
            }
        }
        match due.into_iter().flatten().min() {
            None => -1,
            Some(due) => {
                let left = due
                    .saturating_duration_since(now)
                    .as_micros()
                    .div_ceil(1000);
                i32::try_from(left).unwrap_or(i32::MAX)
            }
        }
    }

    fn serve(&mut self, token: PollToken, events: libc::c_short) {
        match token {
            PollToken::Signals => self.take_signals(),
            PollToken::Wake => descriptor::calm(&self.wake),
            // Served in each turn.
            PollToken::Input => {}
            PollToken::Askers => {
                if let Some(askers) = self.relay.as_mut().and_then(Relay::askers) {
                    askers.wake();
                }
            }
            PollToken::Front => self.serve_front(),
            PollToken::Callers => self.serve_callers(),
            PollToken::Keys => {
                if let (Some(relay), Some(run)) = (&mut self.relay, self.runs.last_mut())
                    && !relay.take(events, run)
                {
                    self.relay = None;
                }
            }
            PollToken::Starting(index) => self.listen(index),
            PollToken::Master(index) => {
                if events & libc::POLLOUT != 0 {
                    self.type_keys(index);
                }
                if events & (libc::POLLIN | libc::POLLHUP | libc::POLLERR) != 0 {
                    self.drain_terminal(index);
                }
            }
            PollToken::Pipe(index, number) => self.drain_pipe(index, number),
            PollToken::Room(stream) => self.fanout.flush(stream),
            PollToken::Growth(index) => {
                if let Some(run) = self.runs.get(index) {
                    run.tails.iter().for_each(output_fanout::FollowedFile::calm);
                }
                self.tail_due = Some(Instant::now() + output_fanout::GROWTH_PAUSE);
            }
        }
    }

    fn serve_front(&mut self) {
        let present = self.fronts_lost;
        let mut there = match (&mut self.fanout.viewer, &self.socket) {
            (Some(viewer), Some(socket)) => viewer.send(socket),
            (None, Some(_)) => false,
            (_, None) => return,
        };
        loop {
            let got = match &self.socket {
                Some(socket) => descriptor::read(socket, &mut self.buffer),
                None => return,
            };
            match got {
                Got::Bytes(n) => self.decoder.push(self.buffer.get(..n).unwrap_or_default()),
                Got::Nothing if there => {}
                Got::Nothing | Got::End => return self.lose_front(FrontExit::Died),
            }
            if !self.carry_out_orders() {
                there = false;
            }
            // Its last order may have been that it leaves. If it is gone, read everything it has sent.
            if there || present != self.fronts_lost {
                return;
            }
        }
    }

    /// Carries out the orders received so far; `false` if they were malformed.
    fn carry_out_orders(&mut self) -> bool {
        loop {
            match self.decoder.next() {
                Ok(Some(frame)) => {
                    if let Some(order) = frame.into_order() {
                        self.carry_out(order);
                    }
                }
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }

    fn carry_out(&mut self, order: KeeperOrder) {
        match order {
            KeeperOrder::Launch(launch) => self.launch(launch),
            KeeperOrder::Interrupt => self.interrupt(),
            KeeperOrder::Forward(signal) => self.forward(signal),
            KeeperOrder::Stop => self.stop(),
            KeeperOrder::Kill => self.kill(),
            KeeperOrder::Sweep => self.sweep_leftovers(),
            KeeperOrder::Resize(size) => self.size = Some(size.clamped()),
            KeeperOrder::Input(keys) => self.queue_keys(&keys),
            KeeperOrder::ScreenShown(shown) => {
                self.screen_shown = shown;
                self.asleep = (!shown).then(|| Instant::now() + LOOK_AT_SLEEPER);
            }
            KeeperOrder::Release => self.lose_front(FrontExit::Released),
            KeeperOrder::StepBack => self.lose_front(FrontExit::SteppedBack),
            KeeperOrder::Listen(path) => self.listen_for_callers(&path),
            KeeperOrder::Remember(memory) => self.memory = Some(memory),
            KeeperOrder::Describe(text) => self.described = Some(text),
            KeeperOrder::Finish => self.finishing = true,
        }
    }

    fn queue_keys(&mut self, keys: &[u8]) {
        let Some(run) = self.runs.last_mut().filter(|run| run.terminal.is_some()) else {
            return;
        };
        if run.keys.len() + keys.len() > run::MOST_KEYS {
            let (lost, told) = &mut run.lost_keys;
            *lost += keys.len();
            // A program that sends its terminal thousands of queries loses as many answers: noted
            // whenever the number has doubled.
            if *lost >= told.saturating_mul(2) {
                *told = *lost;
                self.fanout.note(format!(
                    "the program does not read its terminal: {lost} bytes of key input were dropped"
                ));
            }
        } else {
            run.keys.extend(keys);
        }
    }

    fn act_on_size(&mut self, now: Instant) {
        if let Some(size) = self.size
            && now >= self.resized + self.hello.timing.resize
        {
            self.size = None;
            self.resized = now;
            if let Some(terminal) = self.runs.last().and_then(|run| run.terminal.as_ref()) {
                // The kernel signals a change only where there is one.
                terminal.pty.resize(size);
            }
        }
    }

    /// What was written before the program made its output raw has got to the user's terminal.
    fn act_on_raw_output(&mut self) {
        if let Some(relay) = self.relay.as_mut().filter(|relay| relay.owes_raw_output())
            && self.fanout.has_written(OutputStream::Terminal)
            && let Some(terminal) = self.runs.last().and_then(|run| run.terminal.as_ref())
        {
            relay.mirror(&terminal.pty, OutputSoFar::Delivered);
        }
    }

    /// Completes the copies of a raw terminal.
    fn act_on_copied_terminals(&mut self, now: Instant) {
        if !self.copied.is_due(now) {
            return;
        }
        let tree = self.tree();
        let run = self.runs.last().filter(|run| run.pid().is_some());
        let terminal = run.and_then(|run| run.terminal.as_ref());
        match (
            terminal.and_then(|terminal| terminal.pty.slave.as_ref()),
            &self.relay,
        ) {
            (Some(slave), Some(_)) => copied_terminal::complete(&tree, slave),
            (_, _) => self.copied.expect(false, now),
        }
    }

    /// Follows who has the terminal open, and hands the relay what that tells.
    fn act_on_askers(&mut self, now: Instant) {
        let askers = self.relay.as_mut().and_then(Relay::askers);
        let Some(askers) = askers.filter(|askers| askers.due().is_some_and(|due| due <= now))
        else {
            return;
        };
        let lives = self.runs.last().is_some_and(|run| run.pid().is_some());
        // Of the tree only where it has changed who has it open.
        let stays = lives && askers.is_still_there();
        let tree = if lives && !stays {
            self.tree()
        } else {
            Vec::new()
        };
        let Some(relay) = &mut self.relay else {
            return;
        };
        let terminal = self.runs.last().and_then(|run| run.terminal.as_ref());
        if !stays && let Some(askers) = relay.askers() {
            askers.find(&tree, terminal.and_then(|terminal| terminal.pty.name()));
        }
        if let Some(terminal) = terminal
            && lives
        {
            relay.mirror(&terminal.pty, OutputSoFar::Waits);
        }
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
