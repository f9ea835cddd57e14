//! The link to the run: the keeper, what is read of its output, and the phase that the session is
//! in. It knows what the session is, but neither terminal nor policy.

mod environment;
pub(super) mod gate;
pub(super) mod holders;
mod phase;
mod scanners;

pub(super) use environment::ProbeSetup;
pub(super) use phase::{AfterRun, SessionPhase};

use super::Ending;
use super::OnHup;
use super::session::{Activity, HandoverState, NextRun, Session, Summary};
use super::signals::SignalRules;
use crate::event::{Exited, What};
use crate::probe::RehearsedStep;
use crate::supervise::{
    HeldRun, Keeper, KeeperOrder, KeeperTimeouts, Launch, OutputStream, Reports, Size,
    TrainerStreams,
};
use crate::units::{Moment, Pid, RunNumber};
use gate::Gate;
use nix::errno::Errno;
use nix::sys::signal::kill;
use scanners::OutputScanners;
use std::collections::BTreeSet;
use std::time::Duration;

/// How long a run's probes that still live are given for their last words.
const LAST_WORDS: Duration = Duration::from_millis(40);
/// How long a dead process's words are awaited: on a busy machine our turn to read them comes late.
const LAST_WORDS_OF_THE_DEAD: Duration = Duration::from_secs(2);
/// How often others are told of figures that have changed. Of another activity they are told at
/// once.
const FIGURES: Duration = Duration::from_secs(2);

/// How a process came to be the front.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// It started the session: a shell, a script or a scheduler waits for it.
    First,
    /// A person attached.
    Attached,
    /// The keeper started it, to go on without a screen.
    Headless,
}

/// Why the loop ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Departure {
    /// The session does.
    Ended,
    /// The user left; the training goes on.
    Released,
    /// Another front has taken over.
    Superseded,
}

/// One front's link to its session's runs.
pub(super) struct Link {
    pub role: Role,
    pub departure: Departure,
    pub rules: SignalRules,
    /// Somebody asked for the session to end.
    pub stop_asked: bool,
    pub keeper_lost: bool,
    keeper: Keeper,
    environment: ProbeSetup,
    scanners: OutputScanners,
    phase: SessionPhase,
    /// The run that goes on, held against the keeper's death.
    held: Option<HeldRun>,
    /// The keeper has died, the run goes on without it.
    orphaned: bool,
    /// Processes whose probes are connected.
    speaking: BTreeSet<Pid>,
    /// What others were told of the session, and when.
    described: Option<(Moment, Summary)>,
    /// Orders that the keeper did not take.
    refused: Vec<String>,
}

impl Link {
    pub(super) fn new(
        role: Role,
        keeper: Keeper,
        environment: ProbeSetup,
        handover: &HandoverState,
    ) -> Link {
        Link {
            role,
            departure: Departure::Ended,
            rules: match role {
                // What hangs up is not the terminal that the session was started on.
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
            scanners: OutputScanners::default(),
            phase: SessionPhase::Starting,
            held: None,
            orphaned: false,
            speaking: BTreeSet::new(),
            described: None,
            refused: Vec::new(),
        }
    }

    pub(super) fn phase(&self) -> &SessionPhase {
        &self.phase
    }

    /// Enters a phase; the one before. Nothing assigns `phase` but this, and who is leaving leaves.
    pub(super) fn enter(&mut self, next: SessionPhase) -> SessionPhase {
        match self.phase {
            SessionPhase::Leaving(ending) => SessionPhase::Leaving(ending),
            _ => std::mem::replace(&mut self.phase, next),
        }
    }

    pub(super) fn leave(&mut self, ending: Ending) {
        self.enter(SessionPhase::Leaving(ending));
    }

    /// The session goes on without us.
    pub(super) fn depart(&mut self, departure: Departure) {
        self.departure = departure;
        self.leave(Ending::Code(0));
    }

    /// A run has started, or was found running.
    pub(super) fn enter_running(&mut self) {
        let then = self.then();
        self.enter(SessionPhase::Running { then });
    }

    /// What follows a run that nothing else was said of.
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

    /// Says what follows the run that goes on or has just ended; whether there is one.
    pub(super) fn follow_with(&mut self, after: AfterRun) -> bool {
        match &mut self.phase {
            SessionPhase::Running { then } | SessionPhase::Settling { then, .. } => {
                *then = after;
                true
            }
            _ => false,
        }
    }

    /// Ends the session with the run that goes on; at once, where none does.
    pub(super) fn end_with_run(&mut self) {
        match self.phase.ended() {
            Some(exit) => self.leave(Ending::Like(exit)),
            None => {
                self.follow_with(AfterRun::Leave);
            }
        }
    }

    /// The run that has settled by now, if one has: all its probes have said goodbye, or have had a
    /// moment for it.
    pub(super) fn settled(&mut self, now: Moment) -> Option<(Exited, Moment, AfterRun)> {
        let SessionPhase::Settling { exited, since, .. } = &self.phase else {
            return None;
        };
        // The kernel has hung up for a process that is dead: only our own turn to read is awaited.
        let patience = match self.speaking.iter().any(|pid| has_ended(*pid)) {
            true => LAST_WORDS_OF_THE_DEAD,
            false => LAST_WORDS,
        };
        if !self.speaking.is_empty() && now < *since + patience {
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

    /// The probe lies somewhere else from now on.
    pub(super) fn use_probe(&mut self, environment: ProbeSetup) {
        self.environment = environment;
    }

    pub(super) fn gate(&mut self) -> Option<&mut Gate> {
        match &mut self.phase {
            SessionPhase::Gating { gate, .. } => Some(gate),
            _ => None,
        }
    }

    /// The run that the open or closed gate is for.
    pub(super) fn gated(&mut self) -> Option<(&mut Gate, &mut NextRun)> {
        match &mut self.phase {
            SessionPhase::Gating { gate, next, .. } => Some((gate, next)),
            _ => None,
        }
    }

    /// What the output says of the run.
    pub(super) fn scan(&mut self, stream: OutputStream, bytes: &[u8], at: Moment) -> Vec<What> {
        self.scanners.feed(stream, bytes, at)
    }

    pub(super) fn scan_end(&mut self, at: Moment) -> Vec<What> {
        self.scanners.finish(at)
    }

    pub(super) fn scan_recent(&mut self, recent: &[u8], latest_epoch: Option<u64>) -> Vec<What> {
        self.scanners.catch_up(recent, latest_epoch)
    }

    pub(super) fn probe_spoke(&mut self, pid: Pid) {
        self.speaking.insert(pid);
    }

    pub(super) fn probe_gone(&mut self, pid: Pid) {
        self.speaking.remove(&pid);
    }

    pub(super) fn keeper_pid(&self) -> Pid {
        self.keeper.pid()
    }

    /// Holds a run, so that it outlives the keeper. Who has attached leaves that to who started it.
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

    /// Stands in for a keeper that has died, where the run goes on.
    pub(super) fn stand_in(&mut self, scaled: u32) -> Option<Reports> {
        let held = self.held.take().filter(|_| self.phase.has_run())?;
        let (keeper, reports) = held.follow(KeeperTimeouts::scaled(scaled))?;
        self.keeper = keeper;
        self.orphaned = true;
        Some(reports)
    }

    /// Whether the run goes on without its keeper.
    pub(super) fn is_orphaned(&self) -> bool {
        self.orphaned
    }

    /// Orders something; what the keeper does not take is said at the loop's next turn.
    pub(super) fn order(&mut self, order: KeeperOrder) {
        if let Err(error) = self.keeper.send(order) {
            self.refused
                .push(format!("cannot send to the keeper process ({error})"));
        }
    }

    pub(super) fn take_refused(&mut self) -> Vec<String> {
        std::mem::take(&mut self.refused)
    }

    /// Starts the session's command as run `run`.
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

    /// Tells the keeper what the next front must know.
    pub(super) fn hand_over(&mut self, handover: &HandoverState) {
        self.order(KeeperOrder::Remember(handover.text()));
    }

    /// Tells the keeper what others may know, if that has changed.
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
            SessionPhase::Sweeping { .. } | SessionPhase::Gating { .. } => Activity::Relaunching,
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

    /// Waits until the keeper has taken all orders, but no longer than `limit`.
    pub(super) async fn flush(&self, limit: Duration) {
        self.keeper.flush(limit).await;
    }
}

/// Whether nothing is left of a process, not even to be waited for.
fn has_ended(pid: Pid) -> bool {
    kill(nix::unistd::Pid::from_raw(pid.0), None) == Err(Errno::ESRCH)
}
