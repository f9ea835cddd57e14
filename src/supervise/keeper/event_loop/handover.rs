//! From one front to the next: accepts callers, tells the current front to make way, copes with its
//! loss, and makes a caller or a new process the front. The trainer doesn't notice.

use super::KeeperLoop;
use crate::command::Word;
use crate::supervise::keeper::connections::{self, Caller, Callers, Viewer};
use crate::supervise::keeper::run::TrainerRun;
use crate::supervise::keeper::tree::Process;
use crate::supervise::keeper::{descriptor, user_stream};
use crate::supervise::messages::{Call, HeadlessFront, Io, RunStage, SessionStatus};
use crate::supervise::terminal::RESET;
use crate::supervise::wire::FirstMessage;
use crate::supervise::{KeeperReport, is_passed_on};
use nix::fcntl::OFlag;
use nix::libc;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

/// How often a suspended front is looked at.
pub(super) const LOOK_AT_SLEEPER: Duration = Duration::from_secs(1);

/// How long restoring the user's terminal may take.
const RESTORE: Duration = Duration::from_millis(100);

/// Whether a set of signals, as /proc has it, has one that a front passes on.
fn wakes(set: u64) -> bool {
    (1..=64).any(|signal| set & (1 << (signal - 1)) != 0 && is_passed_on(signal))
}

/// How the front was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FrontExit {
    /// It ended without notice, or sent nonsense.
    Died,
    /// It left on purpose and has restored its terminal.
    Released,
    /// It made way, and keeps listening.
    SteppedBack,
}

/// The front that the keeper has, or had last.
#[derive(Debug, Clone)]
pub(super) struct CurrentFront {
    kind: FrontKind,
    /// Its process, if visible from here.
    process: Option<Process>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FrontKind {
    /// The one that started us, on the terminal that we know.
    First,
    /// A front that attached.
    Attached,
    Headless,
}

impl CurrentFront {
    pub fn first(hello: &FirstMessage) -> CurrentFront {
        CurrentFront {
            kind: FrontKind::First,
            process: Process::look(hello.front.0),
        }
    }

    fn attached(caller: &Caller) -> CurrentFront {
        CurrentFront {
            kind: FrontKind::Attached,
            process: Process::look(caller.pid),
        }
    }

    /// Whether the keeper has started it.
    pub fn is_ours(&self) -> bool {
        self.kind == FrontKind::Headless
    }

    fn signal(&self, signal: i32) {
        if let Some(process) = &self.process {
            process.signal(signal);
        }
    }
}

/// A caller that will be the front.
pub(super) struct NextFront {
    caller: Caller,
    /// How long to wait for the current front.
    until: Instant,
}

impl KeeperLoop {
    pub fn listen_for_callers(&mut self, path: &Word) {
        match Callers::listen(Path::new(&path.0)) {
            Ok(callers) => self.callers = Some(callers),
            Err(error) => self.fanout.note(format!(
                "nobody can attach to this session: cannot listen on {} ({error})",
                path.to_string_lossy()
            )),
        }
    }

    pub fn serve_callers(&mut self) {
        let now = Instant::now();
        let said = match &mut self.callers {
            Some(callers) => callers.serve(now),
            None => return,
        };
        for (caller, call) in said {
            match call {
                Call::Look => caller.answer(self.status()),
                Call::Stop => self.stop_for(caller, false),
                Call::Kill => self.stop_for(caller, true),
                Call::Attach => self.offer_front(caller, now),
                Call::Forward(signal) if self.socket.is_some() => {
                    self.fanout.report(KeeperReport::Signalled(signal));
                }
                Call::Forward(signal) => self.forward(signal),
            }
        }
    }

    fn status(&self) -> SessionStatus {
        SessionStatus {
            io: self.hello.io,
            run: self.runs.last().map(TrainerRun::status),
            stopping: self.stopping,
            front: self.socket.is_some(),
            input_spent: self.input.spent().map(|spent| spent.to_string()),
            memory: None,
            described: self.described.clone(),
        }
    }

    fn stop_for(&mut self, caller: Caller, kill: bool) {
        self.fanout.followers.add(caller.socket);
        self.stopping = true;
        self.fanout.report(KeeperReport::StopAsked { kill });
        if kill {
            self.kill();
        } else {
            self.stop();
        }
    }

    fn offer_front(&mut self, caller: Caller, now: Instant) {
        if self.finishing {
            // There is nothing to follow any more, which the closed connection tells it.
            return;
        }
        if self.socket.is_none() {
            return self.adopt(caller);
        }
        if let Some(viewer) = &mut self.fanout.viewer {
            viewer.supersede();
        }
        // A suspended one (Ctrl-Z) must continue to make way.
        self.front.signal(libc::SIGCONT);
        // If two come at once, the later one stays, as it would a moment later.
        self.next_front = Some(NextFront {
            caller,
            until: now + self.hello.timing.handover,
        });
    }

    pub fn next_front_due(&self) -> Option<Instant> {
        let next_front = self.next_front.as_ref().filter(|_| self.socket.is_some());
        next_front.map(|next_front| next_front.until)
    }

    /// Kills a front that doesn't make way, because two would write to one recording. That does no harm
    /// to the training.
    pub fn act_on_next_front(&mut self, now: Instant) {
        if self.next_front_due().is_some_and(|until| until <= now) {
            self.front.signal(libc::SIGKILL);
            self.lose_front(FrontExit::Died);
        }
    }

    /// A suspended front (Ctrl-Z) passes on no signals: a pending one wakes it, as with a shell's
    /// `kill`.
    pub fn act_on_sleeping_front(&mut self, now: Instant) {
        if self.asleep.is_none_or(|due| due > now) {
            return;
        }
        self.asleep = Some(now + LOOK_AT_SLEEPER);
        let sleeper = self.front.process.as_ref();
        let stopped = sleeper.is_some_and(|p| Process::look(p.pid).is_some_and(|p| p.state == 'T'));
        if stopped && sleeper.and_then(Process::pending).is_some_and(wakes) {
            self.front.signal(libc::SIGCONT);
        }
    }

    /// The program has stopped itself, or somebody has: a shell that waits for oomph is to see that, as without us, and give
    /// its prompt. What resumes the front is passed on to the program.
    pub(super) fn stop_front_as_well(&mut self) {
        let is_first = self.front.kind == FrontKind::First && self.hello.io == Io::PassThrough;
        let process = self.front.process.as_ref().filter(|_| is_first);
        let now = process.and_then(|front| Process::look(front.pid));
        // In the foreground of a terminal: else nobody waits who would resume it.
        if now.is_some_and(|front| front.group == front.foreground) {
            self.stopped_front = true;
            self.asleep = Some(Instant::now() + LOOK_AT_SLEEPER);
            self.front.signal(libc::SIGSTOP);
        }
    }

    /// The program goes on, or has ended, without the front's doing.
    pub(super) fn wake_front_that_was_stopped(&mut self) {
        if std::mem::take(&mut self.stopped_front) {
            self.asleep = None;
            self.front.signal(libc::SIGCONT);
        }
    }

    pub(super) fn lose_front(&mut self, loss: FrontExit) {
        let Some(socket) = self.socket.take() else {
            return;
        };
        self.decoder = Default::default();
        self.fronts_lost += 1;
        self.asleep = None;
        self.stopped_front = false;
        match loss {
            FrontExit::SteppedBack => self.fanout.followers.add(socket),
            FrontExit::Died | FrontExit::Released => self.relay = None,
        }
        if loss == FrontExit::Died && self.front.kind == FrontKind::First && !self.finished {
            self.restore_terminal();
        }
        if self.finishing {
            self.next_front = None;
            self.fanout.viewer = None;
            return;
        }
        if let Some(next_front) = self.next_front.take() {
            return self.adopt(next_front.caller);
        }
        if !self.start_headless_front(loss) {
            self.fanout.viewer = None;
            self.no_front_left = true;
        }
    }

    /// Starts a front without a screen if there is something to follow; whether it did.
    fn start_headless_front(&mut self, loss: FrontExit) -> bool {
        let failed = |run: &TrainerRun| matches!(run.outcome, Some(RunStage::Failed { .. }));
        let something = self.runs.last().is_some_and(|run| !failed(run));
        let headless = match (loss, self.front.kind) {
            // It would die again.
            (FrontExit::Died, FrontKind::Headless) => return false,
            (FrontExit::Died, FrontKind::First | FrontKind::Attached) => HeadlessFront::Replaces,
            (FrontExit::Released | FrontExit::SteppedBack, _) => HeadlessFront::Follows,
        };
        if self.memory.is_none() || !something {
            return false;
        }
        let Ok((socket, pid)) = connections::start_headless(headless, self.hello.io) else {
            return false;
        };
        // Our child, not part of the trainer's tree.
        self.holders.push(pid);
        self.front = CurrentFront {
            kind: FrontKind::Headless,
            process: Process::look(pid),
        };
        self.welcome(socket);
        true
    }

    fn adopt(&mut self, caller: Caller) {
        self.front = CurrentFront::attached(&caller);
        let Caller {
            socket,
            mut decoder,
            ..
        } = caller;
        decoder.trust();
        self.decoder = decoder;
        self.welcome(socket);
    }

    /// Makes whoever is at the other end the front.
    fn welcome(&mut self, socket: OwnedFd) {
        self.no_front_left = false;
        let mut status = self.status();
        status.memory = self.memory.clone();
        let viewer = self.fanout.viewer.get_or_insert_with(Viewer::new);
        viewer.begin_anew(status, &self.fanout.recent);
        self.socket = Some(socket);
    }

    fn restore_terminal(&mut self) {
        let (Some(number), Some(line)) = (self.plan.terminal, &self.hello.line) else {
            return;
        };
        match self.hello.io {
            // Only the relay changes it, and has restored it when it was dropped.
            Io::PassThrough => {}
            Io::Screen if self.screen_shown => {
                let user = descriptor::users(number);
                // On an error the terminal is gone as well.
                let _ = line.apply(user);
                if let Ok(own) = descriptor::reopen(user, OFlag::O_WRONLY | OFlag::O_NONBLOCK) {
                    user_stream::write_within(own.as_fd(), RESET.as_bytes(), RESTORE);
                }
            }
            // The front was suspended when it died: a shell has the terminal.
            Io::Screen => {}
        }
    }
}
