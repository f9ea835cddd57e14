//! Reads the output from the terminal, the pipes and the user's files, to the last byte.

use super::{KeeperLoop, READ};
use crate::supervise::keeper::descriptor::{self, Got};
use crate::supervise::keeper::output_fanout::TailRead;
use crate::supervise::keeper::pty::{FromTerminal, TerminalChange};
use crate::supervise::keeper::relay::OutputSoFar;
use crate::supervise::keeper::run::{Stage, TrainerRun};
use crate::supervise::keeper::user_stream::Passed;
use crate::supervise::terminal::LineSettings;
use crate::supervise::{KeeperReport, OutputStream, RunStage};
use crate::units::Pid;
use std::time::{Duration, Instant};

/// Read from one source before the others get their turn.
const TURN: usize = 256 << 10;

/// How long a program may look whether its terminal has taken what it has set: `stty sane` fails otherwise.
const SETTLES: Duration = Duration::from_millis(20);

impl KeeperLoop {
    /// Reads from a terminal, for one turn.
    pub fn drain_terminal(&mut self, index: usize) {
        let last = index + 1 == self.runs.len();
        let Some(run) = self.runs.get_mut(index) else {
            return;
        };
        let Some(terminal) = &mut run.terminal else {
            return;
        };
        let mut relay = self.relay.as_mut().filter(|_| last);
        let (mut taken, mut is_all) = (0, false);
        while taken < TURN {
            let room = self.fanout.room(OutputStream::Terminal).min(READ);
            if room == 0 {
                return;
            }
            match terminal.pty.read(&mut self.buffer, room) {
                FromTerminal::Bytes(bytes) => {
                    taken += bytes.len();
                    run.heard = Instant::now();
                    let settings = LineSettings::read(&terminal.pty.master);
                    let adds_returns = settings.is_some_and(|line| line.adds_returns());
                    self.fanout.deliver_terminal(bytes, adds_returns, last);
                }
                FromTerminal::Changed(change) => {
                    if terminal.pty.has_lost_relaying() {
                        let settled = Instant::now() + SETTLES;
                        self.relays_again.get_or_insert(settled);
                    }
                    if let Some(relay) = &mut relay {
                        relay.mirror(&terminal.pty, OutputSoFar::Waits);
                        self.copied.expect(terminal.pty.is_raw(), Instant::now());
                        if change == TerminalChange::ThrewKeysAway {
                            run.keys.clear();
                            relay.throw_away();
                        }
                    }
                }
                FromTerminal::Nothing => {
                    self.fanout.end_of_terminal(last);
                    is_all = true;
                    break;
                }
                FromTerminal::End => {
                    // While the trainer lives, we hold its end open too. So it has ended, and no other
                    // process has the terminal open.
                    run.give_up_terminal();
                    return;
                }
            }
        }
        if let Some(relay) = relay {
            // Where the kernel doesn't tell of changes, there may have been one.
            let output = match is_all && self.fanout.has_written(OutputStream::Terminal) {
                true => OutputSoFar::Delivered,
                false => OutputSoFar::Waits,
            };
            relay.mirror(&terminal.pty, output);
            if taken > 0
                && let Some(askers) = relay.askers()
            {
                askers.was_spoken_on();
            }
        }
    }

    /// Sets again what a program has taken from its terminal without knowing.
    pub fn act_on_lost_relaying(&mut self, now: Instant) {
        if self.relays_again.is_none_or(|due| due > now) {
            return;
        }
        self.relays_again = None;
        let run = self.runs.last();
        if let Some(terminal) = run.and_then(|run| run.terminal.as_ref()) {
            terminal.pty.keep_relaying();
            // Of what was set since, nobody has told us.
            if let Some(relay) = &mut self.relay {
                relay.mirror(&terminal.pty, OutputSoFar::Waits);
            }
            self.copied.expect(terminal.pty.is_raw(), now);
        }
    }

    /// Reads from a pipe, for one turn.
    pub fn drain_pipe(&mut self, index: usize, number: usize) {
        let last = index + 1 == self.runs.len();
        let Some(run) = self.runs.get_mut(index) else {
            return;
        };
        let Some(pipe) = run.pipes.get(number) else {
            return;
        };
        let mut taken = 0;
        while taken < TURN {
            let room = self.fanout.room(pipe.stream).min(READ);
            let Some(buffer) = self.buffer.get_mut(..room).filter(|b| !b.is_empty()) else {
                return;
            };
            let passed = match self.fanout.pass(pipe.stream, &pipe.fd, buffer.len()) {
                Passed::Bytes(n) => Some(n),
                Passed::Full => return,
                Passed::Nothing => None,
            };
            let most = passed.unwrap_or(buffer.len());
            match descriptor::read(&pipe.fd, buffer.get_mut(..most).unwrap_or_default()) {
                Got::Bytes(n) => {
                    taken += n;
                    run.heard = Instant::now();
                    let bytes = self.buffer.get(..n).unwrap_or_default();
                    match passed {
                        Some(_) => self.fanout.record(pipe.stream, bytes, last),
                        None => self.fanout.deliver(pipe.stream, bytes, last),
                    }
                }
                Got::Nothing => return,
                Got::End => {
                    // Removed later: the poll tokens are indices.
                    if let Some(pipe) = run.pipes.get_mut(number) {
                        pipe.ended = true;
                    }
                    return;
                }
            }
        }
    }

    /// Reads what is new in the user's files, for one turn; whether there may be more.
    fn follow(&mut self, index: usize) -> bool {
        let last = index + 1 == self.runs.len();
        let Some(run) = self.runs.get_mut(index) else {
            return false;
        };
        let mut more = false;
        for tail in &mut run.tails {
            let mut taken = 0;
            loop {
                if taken >= TURN {
                    more = true;
                    break;
                }
                match tail.read(&mut self.buffer) {
                    TailRead::Bytes(n) => {
                        taken += n;
                        run.heard = Instant::now();
                        let bytes = self.buffer.get(..n).unwrap_or_default();
                        self.fanout.record(tail.stream, bytes, last);
                    }
                    TailRead::Skipped(bytes) => self.fanout.note(format!(
                        "the program's output file grows faster than oomph can read it: {bytes} bytes were skipped here; the file has them"
                    )),
                    TailRead::CutOff => self.fanout.note(
                        "the program's output file was truncated; following it from the start again"
                            .into(),
                    ),
                    TailRead::Nothing => break,
                }
            }
        }
        more
    }

    pub fn type_keys(&mut self, index: usize) {
        let Some(run) = self.runs.get_mut(index) else {
            return;
        };
        let Some(terminal) = &mut run.terminal else {
            return;
        };
        let n = terminal.pty.put(run.keys.as_slices().0);
        run.keys.drain(..n.min(run.keys.len()));
    }

    pub fn act_on_tails(&mut self, now: Instant) {
        let blind = self
            .runs
            .last()
            .is_some_and(|run| run.tails.iter().any(|tail| tail.watch.is_none()));
        if blind || self.tail_due.is_some_and(|due| due <= now) {
            let more = self.follow(self.runs.len().saturating_sub(1));
            self.tail_due = more.then_some(now);
        }
    }

    /// A reader that reads nothing holds up no end that was asked for.
    pub fn act_on_readers(&mut self, now: Instant) {
        if self.readers_due().is_some_and(|until| until <= now) {
            self.fanout.give_up_readers();
            // What is still read of the run's output is counted with it: one report says all.
            let is_draining = |run: &TrainerRun| matches!(run.stage, Stage::Draining { .. });
            if !self.runs.last().is_some_and(is_draining) {
                self.fanout.report_undelivered();
            }
        }
    }

    /// Until when readers are waited for, if that is limited and something waits for one.
    pub fn readers_due(&self) -> Option<Instant> {
        let until = self
            .runs
            .last()
            .filter(|run| run.has_ended())?
            .readers_until?;
        let index = self.runs.len().saturating_sub(1);
        (self.is_blocked(index) || !self.fanout.all_written()).then_some(until)
    }

    /// After the trainer's end: reads the rest of its output, then reports the end.
    pub fn act_on_drain(&mut self, now: Instant) {
        let timing = self.hello.timing;
        let index = self.runs.len().saturating_sub(1);
        let Some(Stage::Draining { exit, .. }) = self.runs.last().map(|run| &run.stage) else {
            return;
        };
        let exit = *exit;
        self.drain_terminal(index);
        let pipes = self.runs.last().map_or(0, |run| run.pipes.len());
        for number in 0..pipes {
            self.drain_pipe(index, number);
        }
        let more = self.follow(index);
        let blocked = self.is_blocked(index);
        let Some(run) = self.runs.last_mut() else {
            return;
        };
        let Stage::Draining { since, .. } = &mut run.stage else {
            return;
        };
        if blocked || more {
            // The user's own pipe is full: start the timeouts over.
            *since = now;
            run.heard = now;
            return;
        }
        let ended = run.terminal.is_none() && run.pipes.iter().all(|pipe| pipe.ended);
        let quiet = now >= run.heard + timing.quiet;
        let late = now >= *since + timing.drain;
        if !(ended || quiet || late) {
            return;
        }
        run.stage = Stage::Over;
        run.tails.clear();
        run.keys.clear();
        let number = run.number;
        self.tail_due = None;
        self.fanout.end_line();
        self.fanout.report_log_now(now);
        self.fanout.report_undelivered();
        let left: Vec<Pid> = self.tree().iter().map(|p| Pid(p.pid)).collect();
        if let Some(run) = self.runs.last_mut() {
            run.outcome = Some(RunStage::Ended {
                exit,
                left: left.clone(),
            });
        }
        self.fanout.report(KeeperReport::Exited {
            run: number,
            exit,
            left,
        });
        if let Some(relay) = &mut self.relay {
            relay.put_right();
        }
    }

    fn is_blocked(&self, index: usize) -> bool {
        self.runs.get(index).is_some_and(|run| {
            (run.terminal.is_some() && self.fanout.room(OutputStream::Terminal) == 0)
                || run
                    .pipes
                    .iter()
                    .any(|pipe| !pipe.ended && self.fanout.room(pipe.stream) == 0)
        })
    }
}
