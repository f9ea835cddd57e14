//! A run from the order to its end: it is started, gets signals, is reaped, and is stopped, from SIGTERM to
//! SIGKILL; and which processes belong to it.

use super::KeeperLoop;
use crate::event::Exit;
use crate::supervise::keeper::descriptor::{self, Got};
use crate::supervise::keeper::run::{Early, Failed, Stage, Stop, TrainerRun};
use crate::supervise::keeper::spawn::{self, SpawnMessage, SpawnStep};
use crate::supervise::keeper::sweep::{self, Sweep, SweepScope};
use crate::supervise::keeper::tree::{self, Process, Reaction};
use crate::supervise::{
    Forwarding, Io, KeeperReport, Launch, Missing, RunStage, Sender, SentSignal, StopStage,
    is_passed_on,
};
use crate::units::{Pid, RunNumber};
use nix::errno::Errno;
use nix::libc;
use std::path::Path;
use std::time::{Duration, Instant};

const KEPT: &str = "standard input is a pipe: what the program reads of it is kept in memory, up to 1 MiB, for another run";

/// The maximum number reaped in one turn: a storm of orphans must not hold up the output.
const REAPED: usize = 256;

/// The most processes that are named in one line.
const NAMED: usize = 5;

/// A signal that comes again within this time is the same one.
const ONE_SIGNAL: Duration = Duration::from_secs(1);

/// Who reads keys has read one by then.
const READ_WITHIN: Duration = Duration::from_millis(300);

impl KeeperLoop {
    pub fn launch(&mut self, launch: Launch) {
        let number = launch.run;
        if let Some(busy) = self.runs.last().filter(|run| !run.is_over()) {
            let reason = format!("run {} is still alive", busy.number);
            self.fail(number, Failed::ours(&reason, libc::EBUSY, Path::new("")));
            return;
        }
        self.sweep = None;
        self.swept = None;
        self.fanout.recent.clear();
        let is_first = self.runs.is_empty();
        let input = match self.input.begin_run() {
            Ok(input) => input,
            Err(spent) => {
                // The front was told, and knows better than to ask.
                let reason = spent.to_string();
                self.fail(number, Failed::ours(&reason, libc::ESPIPE, Path::new("")));
                return;
            }
        };
        if is_first && self.input.is_kept() {
            self.fanout.note(KEPT.into());
        }
        match TrainerRun::begin(launch, &self.hello, self.plan, input.as_ref()) {
            Ok((run, note)) => {
                if let Some(note) = note {
                    self.fanout.note(note);
                }
                self.holders.extend(run.holder);
                self.runs.push(run);
            }
            Err(failed) => {
                self.input.end_run();
                self.fail(number, failed);
            }
        }
    }

    fn fail(&mut self, run: RunNumber, failed: Failed) {
        self.fanout.report(KeeperReport::SpawnFailed {
            run,
            errno: failed.errno,
            path: failed.path.to_string_lossy().into_owned(),
            reason: failed.reason,
            status: failed.status,
        });
    }

    /// Reads what a process reports between fork and exec.
    pub fn listen(&mut self, index: usize) {
        let Some(run) = self.runs.get_mut(index) else {
            return;
        };
        let Stage::Starting { pipe, said } = &mut run.stage else {
            return;
        };
        let mut chunk = [0; 64];
        loop {
            match descriptor::read(&*pipe, &mut chunk) {
                Got::Bytes(n) => said.extend_from_slice(chunk.get(..n).unwrap_or_default()),
                Got::Nothing => return,
                Got::End => break,
            }
        }
        let (mut pid, mut failure) = (None, None);
        for message in spawn::messages(said) {
            match message {
                SpawnMessage::Pid(number) => pid = Some(number),
                SpawnMessage::Failed(step, errno) => failure = Some((step, errno)),
            }
        }
        // Without a session holder the forked process is the trainer itself.
        if run.holder == pid {
            run.holder = None;
            self.holders.retain(|holder| Some(*holder) != pid);
        }
        match (pid, failure) {
            (Some(pid), None) => {
                let start = Process::look(pid).map_or(0, |process| process.start);
                run.stage = Stage::Running(pid);
                run.trainer = Some((pid, start));
                run.since = start;
                run.heard = Instant::now();
                self.fanout.report(KeeperReport::Started {
                    run: run.number,
                    pid: Pid(pid),
                    start_time: start,
                    streams: run.streams(),
                });
                // Orders and signals may have come before the exec.
                let stop = run.stop.take();
                self.deliver_early();
                if stop.is_some() {
                    self.stop();
                }
            }
            (_, failure) => {
                let failed = match failure {
                    Some((SpawnStep::Exec, errno)) => {
                        Missing::explain(&run.cwd, &run.path, errno).into()
                    }
                    Some((SpawnStep::Directory, errno)) => Failed {
                        status: 126,
                        ..Failed::ours(
                            &format!("{}: cannot change to this directory", run.cwd.display()),
                            errno,
                            &run.cwd,
                        )
                    },
                    Some((SpawnStep::Setup, errno)) => {
                        Failed::ours("cannot set up a terminal for the command", errno, &run.path)
                    }
                    None => Failed::ours(
                        "the process ended before it could start the program",
                        libc::EIO,
                        &run.path,
                    ),
                };
                run.give_up_terminal();
                run.pipes.clear();
                run.tails.clear();
                self.input.end_run();
                run.stage = Stage::Over;
                run.outcome = Some(RunStage::Failed {
                    status: failed.status,
                });
                let number = run.number;
                self.fail(number, failed);
            }
        }
        // It may have ended meanwhile.
        self.reap();
    }

    pub fn take_signals(&mut self) {
        while let Ok(Some(info)) = self.signals.read_signal() {
            if info.ssi_signo as i32 == libc::SIGCHLD {
                self.reap_more = true;
                continue;
            }
            let (sent, sender) = SentSignal::read(&info);
            if sender.is_service_manager() {
                self.sent_to_all.insert(sent.number(), Instant::now());
            } else if self.socket.is_none() || self.is_asked_to_end(sent) {
                self.take_for_the_front(sent, sender);
            }
            // While there is a front, the rest is its business: SLURM and others signal all processes,
            // and a signal must be passed on once.
        }
        self.reap();
    }

    /// Whether a signal asks for the end where the only front is one that we have started: whoever wants to end the session
    /// finds this process sooner than that one. If both get it, the program still gets it once, as in [`Self::forward`].
    fn is_asked_to_end(&self, sent: SentSignal) -> bool {
        self.front.is_ours() && matches!(sent.number(), libc::SIGTERM | libc::SIGQUIT)
    }

    /// A signal to the keeper while there is no front to decide, or none of the user's.
    fn take_for_the_front(&mut self, sent: SentSignal, sender: Sender) {
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
        if own || sender == std::process::id() as i32 {
            return;
        }
        match self.socket {
            // What follows, at a dialog too, is the front's to decide.
            Some(_) => self.fanout.report(KeeperReport::Signalled(sent)),
            None => self.forward(sent),
        }
    }

    pub fn reap(&mut self) {
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

    fn take_end(&mut self, pid: i32, status: i32) {
        // Session holders and orphans only need to be reaped.
        if Exit::from_raw(status).is_some() {
            self.holders.retain(|holder| *holder != pid);
            self.runs.iter_mut().for_each(|run| run.holder_is_gone(pid));
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
                run.dismiss_holder();
                self.input.end_run();
                self.wake_front_that_was_stopped();
            }
            None if status == 0xffff => {
                self.fanout.report(KeeperReport::Resumed);
                self.wake_front_that_was_stopped();
            }
            None => {
                self.fanout.report(KeeperReport::Suspended {
                    signal: (status >> 8) & 0xff,
                });
                self.stop_front_as_well();
            }
        }
    }

    pub fn interrupt(&mut self) {
        let Some(run) = self.runs.last_mut() else {
            return;
        };
        if run.keep_if_early(Early::Interrupt) {
            return;
        }
        if run.pid().is_none() {
            return;
        }
        if self.hello.io == Io::Screen
            && let Some(terminal) = &mut run.terminal
            && terminal.pty.put_interrupt_as_a_key()
        {
            run.unread_interrupt = Some(Instant::now() + READ_WITHIN);
            return;
        }
        self.signal_interrupt();
    }

    /// An interrupt that was given as a key, and that nobody has read: the program only left its terminal like that.
    pub fn act_on_unread_interrupt(&mut self, now: Instant) {
        let Some(run) = self.runs.last_mut() else {
            return;
        };
        if run.unread_interrupt.is_none_or(|until| until > now) {
            return;
        }
        run.unread_interrupt = None;
        let terminal = run.terminal.as_ref();
        if terminal.is_some_and(|terminal| terminal.pty.takes_back_unread_key()) {
            self.signal_interrupt();
        }
    }

    fn signal_interrupt(&mut self) {
        let Some(run) = self.runs.last_mut() else {
            return;
        };
        run.unread_interrupt = None;
        let Some(pid) = run.pid() else {
            return;
        };
        // To the foreground group, as by the key. A program that has left that group has left nobody there but the
        // session holder.
        let foreground = (run.terminal.as_ref()).and_then(|terminal| terminal.pty.foreground());
        let group = foreground
            .filter(|group| self.tree().iter().any(|process| process.group == *group))
            .or_else(|| Process::look(pid).map(|process| process.group))
            .unwrap_or(pid);
        tree::kill_group(group, libc::SIGINT);
    }

    pub fn forward(&mut self, sent: SentSignal) {
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
        let to_all = self.sent_to_all.get(&signal);
        if to_all.is_some_and(|at| Instant::now() < *at + ONE_SIGNAL)
            && self.hello.forwarding == Forwarding::Auto
        {
            return self.fanout.note(format!(
                "signal {signal} was not passed on: the service manager has sent it to every process, so the program has it"
            ));
        }
        let Some(pid) = run.pid() else {
            return self.fanout.note(format!(
                "signal {signal} was not passed on: nothing is running"
            ));
        };
        match signal {
            // Who would die of it goes on without a terminal, as after a hang-up.
            libc::SIGHUP
                if Process::look(pid)
                    .is_none_or(|child| child.reaction(signal) != Some(Reaction::Catches)) =>
            {
                self.fanout.note(
                    "SIGHUP was not passed on: the program does not handle it, and it would end the program".into(),
                );
            }
            // torchrun raises an exception on each, even during the shutdown that the first began: what several of our
            // processes get at once is one signal. Whoever sends it again later means another.
            libc::SIGTERM | libc::SIGHUP | libc::SIGQUIT => {
                let now = Instant::now();
                let before = run.forwarded.get(&signal);
                if before.is_some_and(|before| now < *before + ONE_SIGNAL) {
                    return self.fanout.note(format!(
                        "signal {signal} arrived again; the program already has it"
                    ));
                }
                run.forwarded.insert(signal, now);
                match Process::look(pid).filter(|child| child.is_a_shell_that_dies_of(signal)) {
                    // What it has started would go on with the GPU's memory, and nobody would wait for it. Whoever signals a
                    // group means that as well (`timeout`, `kill -- -PGID`), and comes to us as one signal, like who
                    // signals one process. Of those nobody means a shell alone but who types `kill PID`: scancel and
                    // systemd signal each process, `docker stop` the container's first one, where a shell without oomph
                    // ignores it. (The session holder, which is in this group, blocks all signals.)
                    Some(shell) => tree::kill_group(shell.group, signal),
                    None => sent.send_to(pid),
                }
            }
            libc::SIGUSR1 | libc::SIGUSR2 => self.forward_to_who_handles(pid, sent),
            _ => sent.send_to(pid),
        }
    }

    /// Delivers what came before the exec. The program has had no time to install a handler, but
    /// without oomph it wouldn't have either.
    fn deliver_early(&mut self) {
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
    fn forward_to_who_handles(&mut self, pid: i32, sent: SentSignal) {
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

    pub fn stop(&mut self) {
        let now = Instant::now();
        let timing = self.hello.timing;
        let Some(run) = self.runs.last_mut() else {
            self.swept = Some(Vec::new());
            return;
        };
        run.limit_readers(now + timing.stop);
        match (&run.stage, run.stop) {
            // One TERM: a second would disturb a launcher in its own shutdown.
            (_, Some(Stop::Asked(_) | Stop::Sweeping)) => {}
            (Stage::Starting { .. }, _) => run.stop = Some(Stop::Asked(now)),
            (Stage::Running(pid), _) => {
                tree::kill(*pid, libc::SIGTERM);
                // A stopped process gets no TERM before it continues.
                tree::kill(*pid, libc::SIGCONT);
                run.forwarded.insert(libc::SIGTERM, now);
                run.stop = Some(Stop::Asked(now + timing.stop));
                self.fanout.report(KeeperReport::Stopping {
                    rung: StopStage::Asked,
                    within: timing.stop,
                });
            }
            (Stage::Draining { .. } | Stage::Over, _) => self.begin_sweep(SweepScope::All),
        }
    }

    pub fn kill(&mut self) {
        let timing = &self.hello.timing;
        self.sweep = Some(Sweep::kill(SweepScope::All, Instant::now(), timing));
        if let Some(run) = self.runs.last_mut() {
            run.limit_readers(Instant::now() + timing.unkillable);
            run.stop = Some(Stop::Sweeping);
        }
        self.fanout.report(KeeperReport::Stopping {
            rung: StopStage::Killed,
            within: timing.unkillable,
        });
    }

    fn begin_sweep(&mut self, scope: SweepScope) {
        if let Some(run) = self.runs.last_mut()
            && scope == SweepScope::All
        {
            run.stop = Some(Stop::Sweeping);
        }
        self.sweep = Some(Sweep::ask(scope, Instant::now(), &self.hello.timing));
    }

    pub fn sweep_leftovers(&mut self) {
        match self.runs.last().and_then(TrainerRun::pid) {
            Some(pid) => {
                self.fanout
                    .note("the program is still running; nothing was cleaned up".into());
                self.fanout.report(KeeperReport::Swept {
                    left: vec![Pid(pid)],
                });
            }
            // A stop in progress ends more than this would.
            None if self.sweep.is_some() => {}
            None => self.begin_sweep(SweepScope::Training),
        }
    }

    pub fn act_on_stop(&mut self, now: Instant) {
        let Some(run) = self.runs.last() else {
            return;
        };
        if let Some(Stop::Asked(until)) = run.stop {
            let gone = matches!(run.stage, Stage::Draining { .. } | Stage::Over);
            if gone || (run.pid().is_some() && until <= now) {
                if !gone {
                    self.fanout.report(KeeperReport::Stopping {
                        rung: StopStage::TreeAsked,
                        within: self.hello.timing.sweep,
                    });
                }
                self.begin_sweep(SweepScope::All);
            }
        }
    }

    pub fn act_on_sweep(&mut self, now: Instant) {
        let Some(scope) = self
            .sweep
            .as_ref()
            .filter(|sweep| sweep.due() <= now)
            .map(|sweep| sweep.scope)
        else {
            return;
        };
        let living = self.tree();
        let (targets, others): (Vec<Process>, Vec<Process>) =
            (living.into_iter()).partition(|process| match (scope, self.runs.last()) {
                (SweepScope::All, _) | (_, None) => true,
                (SweepScope::Training, Some(run)) => {
                    sweep::is_of_the_training(process, run.ranked, &run.words)
                }
            });
        let (targets, out_of_reach): (Vec<Process>, Vec<Process>) =
            targets.into_iter().partition(Process::can_be_signalled);
        let Some(sweep) = &mut self.sweep else {
            return;
        };
        let round = sweep.round(now, targets.clone());
        if round.killing {
            self.fanout.report(KeeperReport::Stopping {
                rung: StopStage::Killed,
                within: self.hello.timing.unkillable,
            });
        }
        if round.signal() {
            for process in &targets {
                self.fanout.note(unkillable(process));
            }
            for Process { pid, name, .. } in out_of_reach.iter().take(NAMED) {
                self.fanout.note(format!(
                    "process {pid} ({name}) runs as another user, whose processes oomph may not end"
                ));
            }
            self.sweep = None;
            if !others.is_empty() {
                let names: Vec<String> = others
                    .iter()
                    .take(NAMED)
                    .map(|process| format!("{} ({})", process.pid, process.name))
                    .collect();
                let more = if others.len() > NAMED { ", …" } else { "" };
                (self.fanout).note(format!("left to finish: {}{more}", names.join(", ")));
            }
            self.swept = Some([targets, out_of_reach].concat());
            if let Some(run) = self.runs.last_mut()
                && run.stop.is_some()
            {
                run.stop = Some(Stop::Swept);
            }
        }
    }

    pub fn tell_swept(&mut self) {
        // Report the run's end first, unless its process can't be ended.
        let draining = matches!(
            self.runs.last().map(|run| &run.stage),
            Some(Stage::Draining { .. } | Stage::Starting { .. })
        );
        if !draining && let Some(left) = self.swept.take() {
            self.fanout.report(KeeperReport::Swept {
                left: left.iter().map(|process| Pid(process.pid)).collect(),
            });
        }
    }

    /// The living processes below us that aren't older than the run: an upload that an earlier run left
    /// isn't part of it.
    fn below(&self, since: u64) -> Vec<Process> {
        let me = std::process::id() as i32;
        let all = tree::below(me, &self.holders);
        let mut strangers: Vec<i32> = Vec::new();
        all.into_iter()
            .filter(|process| {
                let older = process.start < since || strangers.contains(&process.parent);
                if older {
                    strangers.push(process.pid);
                }
                !older
            })
            .collect()
    }

    pub fn tree(&self) -> Vec<Process> {
        self.below(self.runs.last().map_or(0, |run| run.since))
    }
}

fn unkillable(process: &Process) -> String {
    let now = Process::look(process.pid);
    let Process {
        pid, name, state, ..
    } = now.as_ref().unwrap_or(process);
    match state {
        'D' => format!(
            "process {pid} ({name}) cannot be killed: it is in uninterruptible sleep (D), in a driver or on a file system; the host may need a reboot"
        ),
        _ => format!("process {pid} ({name}) did not end after SIGKILL (state {state})"),
    }
}
