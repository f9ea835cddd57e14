//! Signals: children that ended, and signals that are passed on to the trainer.

use super::KeeperLoop;
use crate::event::Exit;
use crate::supervise::keeper::run::{Early, Stage, TrainerRun};
use crate::supervise::keeper::tree::{self, Process, Reaction};
use crate::supervise::{KeeperReport, Sender, SentSignal, is_passed_on};
use crate::units::Pid;
use nix::errno::Errno;
use nix::libc;
use std::time::Instant;

/// The maximum number reaped in one turn: a storm of orphans must not hold up the output.
const REAPED: usize = 256;

impl KeeperLoop {
    pub(super) fn take_signals(&mut self) {
        while let Ok(Some(info)) = self.signals.read_signal() {
            if info.ssi_signo as i32 == libc::SIGCHLD {
                self.reap_more = true;
            } else if self.socket.is_none() {
                let (sent, sender) = SentSignal::of(&info);
                self.take_for_the_front(sent, sender);
            }
            // While there is a front, the rest is its business: SLURM and others signal all processes,
            // and a signal must be passed on once.
        }
        self.reap();
    }

    /// A signal to the keeper while there is no front to decide.
    pub(super) fn take_for_the_front(&mut self, sent: SentSignal, sender: Sender) {
        // A hang-up is about the front's terminal.
        let number = sent.number();
        let passes = number != libc::SIGHUP && is_passed_on(number);
        let Sender::Process(Pid(sender)) = sender else {
            return;
        };
        let step = std::env::var_os("SLURM_STEP_ID");
        let in_step = crate::supervise::step_is_signalled(step.as_deref());
        if !passes || !self.hello.forwarding.passes(in_step) {
            return;
        }
        let own = self.below(0).iter().any(|process| process.pid == sender);
        if !own && sender != std::process::id() as i32 {
            self.forward(sent);
        }
    }

    pub(super) fn reap(&mut self) {
        self.reap_more = false;
        // Before its exec we don't know the trainer's PID, and must not mistake its end for that of
        // another process.
        if let Some(TrainerRun {
            stage: Stage::Starting { .. },
            ..
        }) = self.runs.last()
        {
            return;
        }
        for _ in 0..REAPED {
            let mut status = 0;
            let flags = libc::WNOHANG | libc::WUNTRACED | libc::WCONTINUED;
            // SAFETY: the status is a local.
            let pid = unsafe { libc::waitpid(-1, &mut status, flags) };
            if pid == -1 && Errno::last() == Errno::EINTR {
                continue;
            }
            if pid <= 0 {
                return;
            }
            self.take_end(pid, status);
        }
        self.reap_more = true;
    }

    pub(super) fn take_end(&mut self, pid: i32, status: i32) {
        // Session holders and orphans only need to be reaped.
        if Exit::from_raw(status).is_some() {
            self.holders.retain(|holder| *holder != pid);
        }
        let Some(run) = self.runs.iter_mut().find(|run| run.pid() == Some(pid)) else {
            return;
        };
        match Exit::from_raw(status) {
            Some(exit) => {
                let now = Instant::now();
                run.stage = Stage::Draining { exit, since: now };
                run.heard = now;
                if let Some(terminal) = &mut run.terminal {
                    // From now on the terminal ends when no other process has it open.
                    terminal.pty.slave = None;
                }
                self.input.end_run();
            }
            None if status == 0xffff => self.fanout.report(KeeperReport::Resumed),
            None => self.fanout.report(KeeperReport::Suspended {
                signal: (status >> 8) & 0xff,
            }),
        }
    }

    pub(super) fn interrupt(&mut self) {
        let Some(run) = self.runs.last_mut() else {
            return;
        };
        if run.keep_if_early(Early::Interrupt) {
            return;
        }
        let Some(pid) = run.pid() else {
            return;
        };
        // To the foreground group, as by the key. Not by writing the byte, which a program may have
        // turned off.
        let group = run
            .terminal
            .as_ref()
            .and_then(|terminal| terminal.pty.foreground())
            .or_else(|| Process::look(pid).map(|process| process.group))
            .unwrap_or(pid);
        tree::kill_group(group, libc::SIGINT);
    }

    pub(super) fn forward(&mut self, sent: SentSignal) {
        let signal = sent.number();
        let until = Instant::now() + self.hello.timing.stop;
        let Some(run) = self.runs.last_mut() else {
            return;
        };
        if matches!(signal, libc::SIGTERM | libc::SIGHUP) {
            run.limit_readers(until);
        }
        if run.keep_if_early(Early::Signal(sent)) {
            return;
        }
        let Some(pid) = run.pid() else {
            return self.fanout.note(format!(
                "signal {signal} was not passed on: nothing is running"
            ));
        };
        match signal {
            // torchrun raises an exception on each, even during the shutdown that the first began.
            libc::SIGTERM | libc::SIGHUP | libc::SIGQUIT => {
                if run.forwarded.contains(&signal) {
                    return self.fanout.note(format!(
                        "signal {signal} arrived again; the program already has it"
                    ));
                }
                run.forwarded.push(signal);
                sent.send_to(pid);
            }
            libc::SIGUSR1 | libc::SIGUSR2 => self.forward_to_who_handles(pid, sent),
            _ => sent.send_to(pid),
        }
    }

    /// Delivers what came before the exec. The program has had no time to install a handler, but
    /// without oomph it wouldn't have either.
    pub(super) fn deliver_early(&mut self) {
        let early =
            (self.runs.last_mut()).map_or_else(Vec::new, |run| std::mem::take(&mut run.early));
        for signal in early {
            match signal {
                Early::Interrupt => self.interrupt(),
                Early::Signal(sent) => self.forward(sent),
            }
        }
    }

    /// USR1 and USR2 kill a process without a handler, such as torchrun's agent.
    pub(super) fn forward_to_who_handles(&mut self, pid: i32, sent: SentSignal) {
        let signal = sent.number();
        let child = Process::look(pid);
        match child.as_ref().and_then(|child| child.reaction(signal)) {
            Some(Reaction::Catches | Reaction::Ignores) => sent.send_to(pid),
            Some(Reaction::Default) | None => {
                let handlers: Vec<Process> = self
                    .tree()
                    .into_iter()
                    .filter(|process| process.reaction(signal) == Some(Reaction::Catches))
                    .collect();
                if handlers.is_empty() {
                    self.fanout.note(format!(
                        "signal {signal} was not passed on: no process handles it, and it would end the program"
                    ));
                } else {
                    self.fanout.note(format!(
                        "signal {signal} was passed on to its child processes ({}): the command itself does not handle it and would be killed",
                        handlers.len()
                    ));
                }
                for process in handlers {
                    process.send(sent);
                }
            }
        }
    }
}
