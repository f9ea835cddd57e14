//! The link to the run: the keeper, the scanners of its output, and the session's phase. Independent of
//! terminal and policy.

pub(super) mod elsewhere;
mod environment;
pub(super) mod gate;
pub(super) mod holders;
mod phase;
mod scanners;

pub(super) use environment::ProbeSetup;
pub(super) use phase::{AfterRun, Proof, SessionPhase};

use super::Ending;
use super::OnHup;
use super::session::{Activity, HandoverState, NextRun, Session, Summary};
use super::signals::SignalRules;
use crate::collect::probe_socket::ProbeRequests;
use crate::event::Exited;
use crate::probe::RehearsedStep;
use crate::supervise::{
    HeldRun, Keeper, KeeperOrder, KeeperTimeouts, Launch, Reports, Size, TrainerStreams,
};
use crate::units::{Moment, Pid, RunNumber};
use gate::Gate;
use nix::errno::Errno;
use nix::sys::signal::kill;
use scanners::OutputScanners;
use std::collections::BTreeSet;
use std::time::Duration;

/// After a run's end: how long to wait for the last events of probes that are still alive.
const LAST_WORDS: Duration = Duration::from_millis(40);
/// The same for probes of dead processes: on a busy machine we get to read them late.
const LAST_WORDS_OF_THE_DEAD: Duration = Duration::from_secs(2);
/// The same for probes of other nodes, whose files we read late: a network file system shows a change
/// after seconds.
const LAST_WORDS_FROM_AFAR: Duration = Duration::from_secs(4);
/// How often changed figures are published; a change of activity is published at once.
const FIGURES: Duration = Duration::from_secs(2);

/// How this process became the front.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// It started the session: a shell, a script or a scheduler waits for it.
    First,
    /// A person attached.
    Attached,
    /// The keeper started it, without a screen.
    Headless,
}

/// Why the loop ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Departure {
    /// The session ends.
    Ended,
    /// The user detached; the training continues.
    Released,
    /// Another front has taken over.
    Superseded,
}

pub(super) struct Link {
    pub role: Role,
    pub departure: Departure,
    pub rules: SignalRules,
    /// A caller asked for the session to end.
    pub stop_asked: bool,
    pub keeper_lost: bool,
    pub keeper: Keeper,
    pub environment: ProbeSetup,
    /// The way to the probes.
    pub requests: ProbeRequests,
    pub scanners: OutputScanners,
    phase: SessionPhase,
    /// The current run, held in case the keeper dies.
    held: Option<HeldRun>,
    /// The keeper has died and the run continues without it.
    pub orphaned: bool,
    /// Processes whose probes are connected.
    pub speaking: BTreeSet<Pid>,
    /// What was published about the session, and when.
    described: Option<(Moment, Summary)>,
    /// Orders that the keeper did not take, in words.
    pub refused: Vec<String>,
    /// Why there can't be another run with the same standard input, if so.
    pub input_spent: Option<String>,
}

impl Link {
    pub(super) fn new(
        role: Role,
        keeper: Keeper,
        environment: ProbeSetup,
        requests: ProbeRequests,
        handover: &HandoverState,
    ) -> Link {
        Link {
            role,
            departure: Departure::Ended,
            rules: match role {
                // Another terminal than the one that the session was started on.
                Role::Attached => SignalRules {
                    on_hup: OnHup::Keep,
                    ..handover.rules
                },
                Role::First | Role::Headless => handover.rules,
            },
            stop_asked: false,
            keeper_lost: false,
            keeper,
            environment,
            requests,
            scanners: OutputScanners::default(),
            phase: SessionPhase::Starting,
            held: None,
            orphaned: false,
            speaking: BTreeSet::new(),
            described: None,
            refused: Vec::new(),
            input_spent: None,
        }
    }

    pub(super) fn phase(&self) -> &SessionPhase {
        &self.phase
    }

    /// To go on with what a phase waits for.
    pub(super) fn phase_mut(&mut self) -> &mut SessionPhase {
        &mut self.phase
    }

    /// Enters a phase and returns the previous one. Only this assigns `phase`; `Leaving` is final.
    pub(super) fn enter(&mut self, next: SessionPhase) -> SessionPhase {
        match self.phase {
            SessionPhase::Leaving(ending) => SessionPhase::Leaving(ending),
            _ => std::mem::replace(&mut self.phase, next),
        }
    }

    pub(super) fn leave(&mut self, ending: Ending) {
        self.enter(SessionPhase::Leaving(ending));
    }

    /// The session continues without us.
    pub(super) fn depart(&mut self, departure: Departure) {
        self.departure = departure;
        self.leave(Ending::Code(0));
    }

    /// A run has started, or was found running.
    pub(super) fn enter_running(&mut self) {
        let then = self.then();
        self.enter(SessionPhase::Running { then });
    }

    /// What follows a run unless something else was requested.
    pub(super) fn then(&self) -> AfterRun {
        match self.stop_asked {
            true => AfterRun::Leave,
            false => AfterRun::Decide,
        }
    }

    /// A run was reaped.
    pub(super) fn enter_settling(&mut self, exited: Exited, since: Moment) {
        let then = match &mut self.phase {
            SessionPhase::Running { then } => std::mem::take(then),
            _ => self.then(),
        };
        self.enter(SessionPhase::Settling {
            exited,
            since,
            then,
        });
    }

    /// Sets what follows the current run, or the one that has just ended; whether there is one.
    pub(super) fn follow_with(&mut self, after: AfterRun) -> bool {
        match &mut self.phase {
            SessionPhase::Running { then } | SessionPhase::Settling { then, .. } => {
                *then = after;
                true
            }
            _ => false,
        }
    }

    /// Ends the session with the current run, or now if there is none.
    pub(super) fn end_with_run(&mut self) {
        match self.phase.ended() {
            Some(exit) => self.leave(Ending::Like(exit)),
            None => {
                self.follow_with(AfterRun::Leave);
            }
        }
    }

    /// The run that has settled by now: all its probes have disconnected, or had time to. With
    /// `awaits_files` there may be some on other nodes that nothing was read of yet.
    pub(super) fn settled(
        &mut self,
        now: Moment,
        awaits_files: bool,
    ) -> Option<(Exited, Moment, AfterRun)> {
        let SessionPhase::Settling { exited, since, .. } = &self.phase else {
            return None;
        };
        // The kernel has closed a dead process's connection: we only have to get to read it.
        let speaking = || self.speaking.iter();
        let patience = match speaking().any(|pid| has_ended(*pid)) {
            _ if awaits_files || speaking().any(|pid| !pid.is_here()) => LAST_WORDS_FROM_AFAR,
            true => LAST_WORDS_OF_THE_DEAD,
            false => LAST_WORDS,
        };
        let is_awaited = awaits_files || !self.speaking.is_empty();
        if is_awaited && now < *since + patience {
            return None;
        }
        let exit = exited.exit;
        match self.enter(SessionPhase::asking(exit, now)) {
            SessionPhase::Settling {
                exited,
                since,
                then,
            } => Some((exited, since, then)),
            _ => None,
        }
    }

    /// The run that waits at the gate.
    pub(super) fn gated(&mut self) -> Option<(&mut Gate, &mut NextRun)> {
        match &mut self.phase {
            SessionPhase::Gating { gate, next, .. } => Some((gate, next)),
            _ => None,
        }
    }

    /// Holds a run so that it can outlive the keeper. An attached front leaves that to the one that
    /// started the session.
    pub(super) fn hold(
        &mut self,
        run: RunNumber,
        trainer: Pid,
        start_time: u64,
        streams: &TrainerStreams,
    ) {
        self.held = (self.role != Role::Attached)
            .then(|| HeldRun::hold(self.keeper.pid(), run, trainer, start_time, streams));
    }

    /// Stands in for a dead keeper if the run continues.
    pub(super) fn stand_in(&mut self, scaled: u32) -> Option<Reports> {
        let held = self.held.take().filter(|_| self.phase.has_run())?;
        let (keeper, reports) = held.follow(KeeperTimeouts::scaled(scaled))?;
        self.keeper = keeper;
        self.orphaned = true;
        Some(reports)
    }

    /// Sends an order; if the keeper doesn't take it, that is reported in the loop's next turn.
    pub(super) fn order(&mut self, order: KeeperOrder) {
        if let Err(error) = self.keeper.send(order) {
            self.refused
                .push(format!("cannot send to the keeper process ({error})"));
        }
    }

    pub(super) fn launch(
        &mut self,
        session: &Session,
        rehearses: RehearsedStep,
        run: RunNumber,
        size: Option<Size>,
    ) {
        let command = (self.environment).around(session.command(), run, rehearses);
        self.enter(SessionPhase::Starting);
        self.order(KeeperOrder::Launch(Launch { run, command, size }));
    }

    /// Gives the keeper the handover state.
    pub(super) fn hand_over(&mut self, handover: &HandoverState) {
        self.order(KeeperOrder::Remember(handover.text()));
    }

    /// Gives the keeper the public summary, if it has changed.
    pub(super) fn describe(
        &mut self,
        session: &Session,
        attached: bool,
        is_stopping: bool,
        now: Moment,
    ) {
        let activity = match &self.phase {
            SessionPhase::Starting => Activity::Starting,
            SessionPhase::Running { .. } if is_stopping => Activity::Stopping,
            SessionPhase::Running { .. } => Activity::Running,
            SessionPhase::Asking { .. } => Activity::Waiting,
            SessionPhase::Sweeping { .. }
            | SessionPhase::Proving { .. }
            | SessionPhase::Gating { .. } => Activity::Relaunching,
            SessionPhase::Settling { .. } | SessionPhase::Leaving(_) => Activity::Ending,
        };
        let said = self.described.as_ref();
        let same = said.is_some_and(|(at, said)| {
            (said.activity, said.attached) == (activity, attached) && now < *at + FIGURES
        });
        if same {
            return;
        }
        let summary = Summary::of(&session.state, activity, attached);
        if said.is_none_or(|(_, said)| *said != summary) {
            self.order(KeeperOrder::Describe(summary.text()));
        }
        self.described = Some((now, summary));
    }
}

/// Whether a process doesn't exist any more, not even as a zombie.
fn has_ended(pid: Pid) -> bool {
    kill(nix::unistd::Pid::from_raw(pid.0), None) == Err(Errno::ESRCH)
}
