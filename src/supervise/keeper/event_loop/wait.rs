//! What is polled, for how long, and what to do when something is ready.

use super::KeeperLoop;
use crate::supervise::OutputStream;
use crate::supervise::keeper::relay::Relay;
use crate::supervise::keeper::run::{Stage, Stop};
use crate::supervise::keeper::sweep::Sweep;
use crate::supervise::keeper::{descriptor, tail};
use nix::libc;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::time::{Duration, Instant};

#[derive(Debug, Clone, Copy)]
pub(super) enum PollToken {
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
    pub(super) fn list(
        &mut self,
        now: Instant,
        polled: &mut Vec<libc::pollfd>,
        tokens: &mut Vec<PollToken>,
    ) {
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
        if let Some(run) = self.runs.last()
            && run.pid().is_some()
            && run.terminal.is_some()
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
                if !run.keys.is_empty() {
                    events |= libc::POLLOUT;
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
    pub(super) fn timeout(&self, now: Instant) -> i32 {
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
            self.readers_due(),
            self.input.due(now),
        ];
        if let Some(run) = self.runs.last() {
            if let Some(Stop::Asked(until)) = run.stop
                && run.pid().is_some()
            {
                due.push(Some(until));
            }
            if let Stage::Draining { since, .. } = run.stage {
                due.push(Some((since + timing.drain).min(run.heard + timing.quiet)));
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

    pub(super) fn serve(&mut self, token: PollToken, events: libc::c_short) {
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
                    run.tails.iter().for_each(tail::FollowedFile::calm);
                }
                self.tail_due = Some(Instant::now() + tail::PAUSE);
            }
        }
    }
}
