//! One front after another: callers let in, the present front told to make way, its loss borne, its
//! place given to the next. The trainer notices nothing of it.

use super::Watch;
use crate::command::Word;
use crate::supervise::Report;
use crate::supervise::keeper::callers::{Caller, Callers};
use crate::supervise::keeper::deputy;
use crate::supervise::keeper::run::Run;
use crate::supervise::keeper::tree::Process;
use crate::supervise::keeper::viewer::Viewer;
use crate::supervise::standing::{Call, Deputy, RunStage, Standing};
use crate::supervise::wire::Hello;
use nix::libc;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

/// How often a front that is stopped is looked at.
pub(super) const LOOK_AT_SLEEPER: Duration = Duration::from_secs(1);

/// The signals that a front passes on, as a set.
const WAKING: u64 = (1 << (libc::SIGTERM - 1))
    | (1 << (libc::SIGINT - 1))
    | (1 << (libc::SIGQUIT - 1))
    | (1 << (libc::SIGHUP - 1))
    | (1 << (libc::SIGUSR1 - 1))
    | (1 << (libc::SIGUSR2 - 1));

/// How the front was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loss {
    /// It ended without a word, or talks nonsense.
    Died,
    /// It went on purpose, its terminal in order.
    Released,
    /// It made way, and goes on listening.
    SteppedBack,
}

/// Who a front is.
#[derive(Debug, Clone)]
pub(super) struct Incumbent {
    kind: Kind,
    /// Its process, where it can be seen from here.
    process: Option<Process>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The one that started us: on the terminal that we know.
    First,
    /// One that attached.
    Attached,
    /// One that we started.
    Deputy,
}

impl Incumbent {
    /// The front that started us.
    pub(super) fn first(hello: &Hello) -> Incumbent {
        Incumbent {
            kind: Kind::First,
            process: Process::look(hello.front.0),
        }
    }

    fn attached(caller: &Caller) -> Incumbent {
        Incumbent {
            kind: Kind::Attached,
            process: Process::look(caller.pid),
        }
    }

    fn signal(&self, signal: i32) {
        if let Some(process) = &self.process {
            process.signal(signal);
        }
    }
}

/// A caller that is to be the front.
pub(super) struct Heir {
    caller: Caller,
    /// When the present front is not waited for any longer.
    until: Instant,
}

impl Watch {
    pub(super) fn listen_for_callers(&mut self, path: &Word) {
        match Callers::listen(Path::new(&path.0)) {
            Ok(callers) => self.callers = Some(callers),
            Err(error) => self.outlets.note(format!(
                "nobody can attach to this session: {} cannot be listened at ({error})",
                path.to_string_lossy()
            )),
        }
    }

    pub(super) fn serve_callers(&mut self) {
        let now = Instant::now();
        let said = match &mut self.callers {
            Some(callers) => callers.serve(now),
            None => return,
        };
        for (caller, call) in said {
            match call {
                Call::Look => caller.answer(self.standing()),
                Call::Stop => self.stop_for(caller, false),
                Call::Kill => self.stop_for(caller, true),
                Call::Attach => self.make_heir(caller, now),
                Call::Forward(signal) if self.socket.is_some() => {
                    self.outlets.report(Report::Signalled(signal));
                }
                Call::Forward(signal) => self.forward(signal),
            }
        }
    }

    /// How things stand, for anybody of this user.
    fn standing(&self) -> Standing {
        Standing {
            io: self.hello.io,
            run: self.runs.last().map(Run::standing),
            stopping: self.stopping,
            front: self.socket.is_some(),
            memory: None,
            described: self.described.clone(),
        }
    }

    fn stop_for(&mut self, caller: Caller, kill: bool) {
        self.outlets.followers.add(caller.socket);
        self.stopping = true;
        self.outlets.report(Report::StopAsked { kill });
        if kill {
            self.kill();
        } else {
            self.stop();
        }
    }

    fn make_heir(&mut self, caller: Caller, now: Instant) {
        if self.finishing {
            // There is nothing to follow any more; that it is hung up on says so.
            return;
        }
        if self.socket.is_none() {
            return self.adopt(caller);
        }
        if let Some(viewer) = &mut self.outlets.viewer {
            viewer.supersede();
        }
        // One that is stopped (Ctrl-Z) has to be awake to make way.
        self.front.signal(libc::SIGCONT);
        // Of two that come at once the later one stays, as it would a moment later.
        self.heir = Some(Heir {
            caller,
            until: now + self.hello.timing.handover,
        });
    }

    pub(super) fn heir_due(&self) -> Option<Instant> {
        let heir = self.heir.as_ref().filter(|_| self.socket.is_some());
        heir.map(|heir| heir.until)
    }

    /// A front that does not make way is ended: two would write to one recording. It is made to be
    /// ended without harm.
    pub(super) fn act_on_heir(&mut self, now: Instant) {
        if self.heir_due().is_some_and(|until| until <= now) {
            self.front.signal(libc::SIGKILL);
            self.lose_front(Loss::Died);
        }
    }

    /// A front that the user has stopped (Ctrl-Z) passes no signals on: one that waits for it wakes
    /// it, as a shell's `kill` would.
    pub(super) fn act_on_sleeping_front(&mut self, now: Instant) {
        if self.asleep.is_none_or(|due| due > now) {
            return;
        }
        let sleeper = self.front.process.as_ref();
        let stopped = sleeper.is_some_and(|p| Process::look(p.pid).is_some_and(|p| p.state == 'T'));
        if stopped
            && sleeper
                .and_then(Process::pending)
                .is_some_and(|set| set & WAKING != 0)
        {
            self.front.signal(libc::SIGCONT);
        }
    }

    /// The front is gone, or went on purpose: the trainer does not notice.
    pub(super) fn lose_front(&mut self, loss: Loss) {
        let Some(socket) = self.socket.take() else {
            return;
        };
        self.decoder = Default::default();
        self.fronts_lost += 1;
        self.asleep = None;
        match loss {
            Loss::SteppedBack => self.outlets.followers.add(socket),
            Loss::Died | Loss::Released => self.relay = None,
        }
        if loss == Loss::Died && self.front.kind == Kind::First && !self.finished {
            self.restore_terminal();
        }
        if self.finishing {
            self.heir = None;
            self.outlets.viewer = None;
            return;
        }
        if let Some(heir) = self.heir.take() {
            return self.adopt(heir.caller);
        }
        if !self.appoint_deputy(loss) {
            self.outlets.viewer = None;
            self.forsaken = true;
        }
    }

    /// Starts a front without a screen where there is something to follow; whether it did.
    fn appoint_deputy(&mut self, loss: Loss) -> bool {
        let failed = |run: &Run| matches!(run.outcome, Some(RunStage::Failed { .. }));
        let something = self.runs.last().is_some_and(|run| !failed(run));
        let deputy = match (loss, self.front.kind) {
            // One that died twice would die a third time.
            (Loss::Died, Kind::Deputy) => return false,
            (Loss::Died, Kind::First | Kind::Attached) => Deputy::Replaces,
            (Loss::Released | Loss::SteppedBack, _) => Deputy::Follows,
        };
        if self.memory.is_none() || !something {
            return false;
        }
        let Ok((socket, pid)) = deputy::start(deputy, self.hello.io) else {
            return false;
        };
        // A child of ours, and none of the trainer's tree.
        self.holders.push(pid);
        self.front = Incumbent {
            kind: Kind::Deputy,
            process: Process::look(pid),
        };
        self.welcome(socket);
        true
    }

    fn adopt(&mut self, caller: Caller) {
        self.front = Incumbent::attached(&caller);
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
        self.forsaken = false;
        let mut standing = self.standing();
        standing.memory = self.memory.clone();
        let viewer = self.outlets.viewer.get_or_insert_with(Viewer::new);
        viewer.begin_anew(standing, &self.outlets.recent);
        self.socket = Some(socket);
    }
}
