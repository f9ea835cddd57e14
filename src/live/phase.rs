//! Where a session is between its first launch and its end. Every transition is a method here; one that
//! is not possible from where the session is changes nothing and says so.
//!
//! Runs follow each other through
//! `Starting → Running → Settling → Asking → Sweeping → Proving → Gating → Preparing → Starting`;
//! `Deciding` comes before `Asking` where nobody is asked and something is still to be learned. `Leaving`
//! is final.

use super::Ending;
use super::background_task::TaskId;
use super::gate::Gate;
use super::session::changes::{ChangeFate, NextRun};
use crate::collect::scheduler::SlurmJob;
use crate::event::{DeviceReading, Exit, Exited};
use crate::units::Moment;
use std::time::Duration;

/// What a session waits for.
#[derive(Debug)]
pub(crate) struct SessionPhase(SessionStage);

#[derive(Debug)]
enum SessionStage {
    /// A run was ordered; the keeper has not answered yet.
    Starting {
        then: AfterRun,
    },
    Running {
        then: AfterRun,
    },
    /// It was reaped; the last events of its probes may still be on their way.
    Settling {
        /// Applied once it has settled.
        exited: Exited,
        since: Moment,
        then: AfterRun,
        /// Whether all that the probes of its processes had to say was taken in.
        is_heard_out: bool,
    },
    /// Nothing runs, and the policy decides once it knows more.
    Deciding {
        exit: Exit,
        since: Moment,
        /// How long earlier sessions are waited for.
        until: Moment,
        /// What became of the change that made the run.
        change: ChangeFate,
    },
    /// Nothing runs: somebody chooses what follows.
    Asking {
        exit: Exit,
        since: Moment,
    },
    /// A relaunch was chosen; remaining processes of the last run are being ended.
    Sweeping {
        exit: Exit,
        next: NextRun,
    },
    /// They are gone; proof is awaited that those of other nodes are.
    Proving {
        exit: Exit,
        next: NextRun,
        proof: Proof,
    },
    /// They are gone; waiting for the device's memory.
    Gating {
        exit: Exit,
        next: NextRun,
        gate: Gate,
    },
    /// The memory is free; the next run's edited files are being written.
    Preparing {
        exit: Exit,
        next: NextRun,
    },
    /// The session ends, or continues without this process.
    Leaving(Ending, Departure),
}

/// What a transition makes of a stage, or that it is refused.
enum PhaseChange {
    To(SessionStage),
    Refused(SessionStage),
}

/// The name of a phase, for whoever decides by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PhaseName {
    Starting,
    Running,
    Settling,
    Deciding,
    Asking,
    Sweeping,
    Proving,
    Gating,
    Preparing,
    Leaving(Departure),
}

/// Why a front leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Departure {
    /// The session ends.
    Ended,
    /// The user detached; the training continues.
    Released,
    /// Another front has taken over.
    Superseded,
}

/// What follows the end of the current run.
#[derive(Debug, Clone, Default)]
pub(crate) enum AfterRun {
    /// The policy decides.
    #[default]
    Decide,
    /// The end: the user has asked to quit.
    Leave,
    /// Another run, which the user has already chosen.
    Relaunch(Box<NextRun>),
}

/// What is known by now of ranks on other nodes.
#[derive(Debug)]
pub(crate) struct Proof {
    pub begun: Moment,
    /// A question to the scheduler that has not been answered, and when the next one is due.
    pub asked: Option<TaskId>,
    pub ask_at: Moment,
    /// Its latest answer.
    pub answer: Option<Result<SlurmJob, String>>,
}

impl Proof {
    pub(crate) fn begun(now: Moment) -> Proof {
        Proof {
            begun: now,
            asked: None,
            ask_at: now,
            answer: None,
        }
    }
}

impl SessionPhase {
    /// The first run was ordered, or one is to be found; `then` follows it.
    pub(crate) fn starting(then: AfterRun) -> SessionPhase {
        SessionPhase(SessionStage::Starting { then })
    }

    pub(crate) fn name(&self) -> PhaseName {
        match &self.0 {
            SessionStage::Starting { .. } => PhaseName::Starting,
            SessionStage::Running { .. } => PhaseName::Running,
            SessionStage::Settling { .. } => PhaseName::Settling,
            SessionStage::Deciding { .. } => PhaseName::Deciding,
            SessionStage::Asking { .. } => PhaseName::Asking,
            SessionStage::Sweeping { .. } => PhaseName::Sweeping,
            SessionStage::Proving { .. } => PhaseName::Proving,
            SessionStage::Gating { .. } => PhaseName::Gating,
            SessionStage::Preparing { .. } => PhaseName::Preparing,
            SessionStage::Leaving(_, departure) => PhaseName::Leaving(*departure),
        }
    }

    /// Whether there is a run that can be signalled.
    pub(crate) fn has_run(&self) -> bool {
        matches!(
            self.0,
            SessionStage::Starting { .. } | SessionStage::Running { .. }
        )
    }

    /// Whether the last run is over and the next one has not been ordered, though it was chosen or may be.
    pub(crate) fn is_between_runs(&self) -> bool {
        match self.0 {
            SessionStage::Settling { .. }
            | SessionStage::Sweeping { .. }
            | SessionStage::Proving { .. }
            | SessionStage::Gating { .. }
            | SessionStage::Preparing { .. } => true,
            SessionStage::Starting { .. }
            | SessionStage::Running { .. }
            | SessionStage::Deciding { .. }
            | SessionStage::Asking { .. }
            | SessionStage::Leaving(..) => false,
        }
    }

    /// How the last run ended, if none runs and another may follow.
    /// How the last run has ended, also where that is not applied yet.
    pub(crate) fn exit(&self) -> Option<Exit> {
        match &self.0 {
            SessionStage::Settling { exited, .. } => Some(exited.exit),
            _ => self.ended(),
        }
    }

    pub(crate) fn ended(&self) -> Option<Exit> {
        match self.0 {
            SessionStage::Deciding { exit, .. }
            | SessionStage::Asking { exit, .. }
            | SessionStage::Sweeping { exit, .. }
            | SessionStage::Proving { exit, .. }
            | SessionStage::Gating { exit, .. }
            | SessionStage::Preparing { exit, .. } => Some(exit),
            SessionStage::Starting { .. }
            | SessionStage::Running { .. }
            | SessionStage::Settling { .. }
            | SessionStage::Leaving(..) => None,
        }
    }

    /// How the last run ended, if none is alive; also while it settles.
    pub(crate) fn last_exit(&self) -> Option<Exit> {
        match &self.0 {
            SessionStage::Settling { exited, .. } => Some(exited.exit),
            _ => self.ended(),
        }
    }

    /// Since when the user may choose what follows.
    pub(crate) fn asked_since(&self) -> Option<Moment> {
        match self.0 {
            SessionStage::Deciding { since, .. } | SessionStage::Asking { since, .. } => {
                Some(since)
            }
            _ => None,
        }
    }

    /// How the process is to exit, once it is to.
    pub(crate) fn leaving(&self) -> Option<(Ending, Departure)> {
        match self.0 {
            SessionStage::Leaving(ending, departure) => Some((ending, departure)),
            _ => None,
        }
    }

    /// The end of the run that settles.
    pub(crate) fn settling(&self) -> Option<(&Exited, Moment)> {
        match &self.0 {
            SessionStage::Settling { exited, since, .. } => Some((exited, *since)),
            _ => None,
        }
    }

    /// Whether the end of a run waits for what its probes have still to say.
    pub(crate) fn hears_out(&self) -> bool {
        matches!(
            self.0,
            SessionStage::Settling {
                is_heard_out: false,
                ..
            }
        )
    }

    /// They have said all.
    pub(crate) fn heard_out(&mut self) {
        if let SessionStage::Settling { is_heard_out, .. } = &mut self.0 {
            *is_heard_out = true;
        }
    }

    /// Until when the policy waits for earlier sessions.
    pub(crate) fn decides_by(&self) -> Option<Moment> {
        match self.0 {
            SessionStage::Deciding { until, .. } => Some(until),
            _ => None,
        }
    }

    pub(crate) fn proof(&mut self) -> Option<&mut Proof> {
        match &mut self.0 {
            SessionStage::Proving { proof, .. } => Some(proof),
            _ => None,
        }
    }

    /// The run that waits at the gate.
    pub(crate) fn gate(&mut self) -> Option<(&mut Gate, &mut NextRun)> {
        match &mut self.0 {
            SessionStage::Gating { gate, next, .. } => Some((gate, next)),
            _ => None,
        }
    }

    /// A reading of a device, for the gate.
    pub(crate) fn read(&mut self, at: Moment, reading: &DeviceReading) {
        if let SessionStage::Gating { gate, .. } = &mut self.0 {
            gate.read(at, reading);
        }
    }

    /// NVML does not answer any more, for the gate.
    pub(crate) fn lose_nvml(&mut self) {
        if let SessionStage::Gating { gate, .. } = &mut self.0 {
            gate.lose_nvml();
        }
    }

    /// The ordered run has started, or was found running.
    pub(crate) fn started(&mut self) -> bool {
        self.change(|stage| match stage {
            SessionStage::Starting { then } => PhaseChange::To(SessionStage::Running { then }),
            other => PhaseChange::Refused(other),
        })
    }

    /// The ordered run could not be started, after one that ended like this: the user may choose again. Refused where the user has asked
    /// for the end.
    pub(crate) fn not_started(&mut self, exit: Exit, now: Moment) -> bool {
        self.change(|stage| match stage {
            SessionStage::Starting {
                then: AfterRun::Decide,
            } => PhaseChange::To(SessionStage::Asking { exit, since: now }),
            other => PhaseChange::Refused(other),
        })
    }

    /// The run was reaped. One that ends at once may never have been seen to start.
    pub(crate) fn exited(&mut self, exited: Exited, since: Moment) -> bool {
        self.change(|stage| match stage {
            SessionStage::Starting { then } | SessionStage::Running { then } => {
                PhaseChange::To(SessionStage::Settling {
                    exited,
                    since,
                    then,
                    is_heard_out: false,
                })
            }
            other => PhaseChange::Refused(other),
        })
    }

    /// Sets what follows the current run, or the one that has just ended.
    pub(crate) fn follow_with(&mut self, after: AfterRun) -> bool {
        match &mut self.0 {
            SessionStage::Starting { then }
            | SessionStage::Running { then }
            | SessionStage::Settling { then, .. } => {
                *then = after;
                true
            }
            _ => false,
        }
    }

    /// The run has settled after `patience`: what ended, when, and what is to follow. From now on the user
    /// may choose.
    pub(crate) fn settled(
        &mut self,
        now: Moment,
        patience: Duration,
    ) -> Option<(Exited, Moment, AfterRun)> {
        let SessionStage::Settling { exited, since, .. } = &self.0 else {
            return None;
        };
        if now < *since + patience {
            return None;
        }
        let asking = SessionStage::Asking {
            exit: exited.exit,
            since: now,
        };
        match std::mem::replace(&mut self.0, asking) {
            SessionStage::Settling {
                exited,
                since,
                then,
                ..
            } => Some((exited, since, then)),
            _ => None,
        }
    }

    /// A run that was over before this front came: there is nothing to settle.
    pub(crate) fn found_ended(&mut self, exit: Exit, now: Moment) -> Option<AfterRun> {
        let SessionStage::Starting { then } = &mut self.0 else {
            return None;
        };
        let then = std::mem::take(then);
        self.0 = SessionStage::Asking { exit, since: now };
        Some(then)
    }

    /// Nobody is asked before `until`, unless what is missing is there earlier.
    pub(crate) fn await_more(&mut self, until: Moment, change: ChangeFate) -> bool {
        self.change(|stage| match stage {
            SessionStage::Asking { exit, since } => PhaseChange::To(SessionStage::Deciding {
                exit,
                since,
                until,
                change,
            }),
            other => PhaseChange::Refused(other),
        })
    }

    /// All is known that the policy waited for: how the run ended that it decides on, and what
    /// became of its change.
    pub(crate) fn decide(&mut self) -> Option<(Exit, ChangeFate)> {
        let SessionStage::Deciding {
            exit,
            since,
            change,
            ..
        } = self.0
        else {
            return None;
        };
        self.0 = SessionStage::Asking { exit, since };
        Some((exit, change))
    }

    /// Another run was chosen.
    pub(crate) fn sweep(&mut self, next: NextRun) -> bool {
        self.change(|stage| match stage {
            SessionStage::Deciding { exit, .. } | SessionStage::Asking { exit, .. } => {
                PhaseChange::To(SessionStage::Sweeping { exit, next })
            }
            other => PhaseChange::Refused(other),
        })
    }

    /// This node's processes are gone, and others may not be.
    pub(crate) fn prove(&mut self, now: Moment) -> bool {
        self.change(|stage| match stage {
            SessionStage::Sweeping { exit, next } => PhaseChange::To(SessionStage::Proving {
                exit,
                next,
                proof: Proof::begun(now),
            }),
            other => PhaseChange::Refused(other),
        })
    }

    /// Nothing of the last run is left: the gate is what `gate` makes of the next one.
    pub(crate) fn wait_at(&mut self, gate: impl FnOnce(&NextRun) -> Gate) -> bool {
        self.change(|stage| match stage {
            SessionStage::Sweeping { exit, next } | SessionStage::Proving { exit, next, .. } => {
                PhaseChange::To(SessionStage::Gating {
                    exit,
                    gate: gate(&next),
                    next,
                })
            }
            other => PhaseChange::Refused(other),
        })
    }

    /// The gate is open: the run whose files are to be written.
    pub(crate) fn prepare(&mut self) -> Option<&NextRun> {
        let has_opened = self.change(|stage| match stage {
            SessionStage::Gating { exit, next, .. } => {
                PhaseChange::To(SessionStage::Preparing { exit, next })
            }
            other => PhaseChange::Refused(other),
        });
        match &self.0 {
            SessionStage::Preparing { next, .. } if has_opened => Some(next),
            _ => None,
        }
    }

    /// The files are written: the run that is to be ordered.
    pub(crate) fn launch(&mut self) -> Option<NextRun> {
        if !matches!(self.0, SessionStage::Preparing { .. }) {
            return None;
        }
        let starting = SessionStage::Starting {
            then: AfterRun::Decide,
        };
        match std::mem::replace(&mut self.0, starting) {
            SessionStage::Preparing { next, .. } => Some(next),
            _ => None,
        }
    }

    /// The next run cannot be started: the user may choose again.
    pub(crate) fn ask_again(&mut self, now: Moment) -> bool {
        let Some(exit) = self.ended() else {
            return false;
        };
        self.0 = SessionStage::Asking { exit, since: now };
        true
    }

    /// The end; the first one counts.
    pub(crate) fn leave(&mut self, ending: Ending, departure: Departure) -> bool {
        if self.leaving().is_some() {
            return false;
        }
        self.0 = SessionStage::Leaving(ending, departure);
        true
    }

    /// Ends the session with the current run, or now if there is none.
    pub(crate) fn end_with_run(&mut self) -> bool {
        match self.ended() {
            Some(exit) => self.leave(Ending::Like(exit), Departure::Ended),
            None => self.follow_with(AfterRun::Leave),
        }
    }

    /// Enters the stage that `next` makes of the present one, or keeps it if that is refused.
    fn change(&mut self, next: impl FnOnce(SessionStage) -> PhaseChange) -> bool {
        let over = SessionStage::Leaving(Ending::Code(0), Departure::Ended);
        match next(std::mem::replace(&mut self.0, over)) {
            PhaseChange::To(stage) => {
                self.0 = stage;
                true
            }
            PhaseChange::Refused(stage) => {
                self.0 = stage;
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::CommandLine;
    use crate::live::gate::{GateSight, GateTiming};
    use crate::units::RunNumber;

    const NOW: Moment = Moment(5_000_000);
    const EXIT: Exit = Exit::Code(3);

    fn exited() -> Exited {
        Exited {
            run: RunNumber::FIRST,
            exit: EXIT,
            left: Vec::new(),
        }
    }

    fn next() -> NextRun {
        NextRun::plain(CommandLine::default(), Vec::new())
    }

    fn gate(_: &NextRun) -> Gate {
        let timing = GateTiming::default();
        Gate::new(NOW, timing, [], None, Vec::new(), GateSight::Blind)
    }

    /// A phase of each name, in the order of the table below.
    fn all() -> Vec<SessionPhase> {
        let mut phases = vec![SessionPhase::starting(AfterRun::Decide)];
        let steps: [fn(&mut SessionPhase); 8] = [
            |phase| assert!(phase.started()),
            |phase| assert!(phase.exited(exited(), NOW)),
            |phase| {
                assert!(phase.settled(NOW, Duration::ZERO).is_some());
                assert!(phase.await_more(NOW, ChangeFate::Kept));
            },
            |phase| assert_eq!(phase.decide(), Some((EXIT, ChangeFate::Kept))),
            |phase| assert!(phase.sweep(next())),
            |phase| assert!(phase.prove(NOW)),
            |phase| assert!(phase.wait_at(gate)),
            |phase| assert!(phase.prepare().is_some()),
        ];
        for count in 1..=steps.len() {
            let mut phase = SessionPhase::starting(AfterRun::Decide);
            steps[..count].iter().for_each(|step| step(&mut phase));
            phases.push(phase);
        }
        phases.push(SessionPhase(SessionStage::Leaving(
            Ending::Code(7),
            Departure::Released,
        )));
        phases
    }

    const NAMES: [PhaseName; 10] = [
        PhaseName::Starting,
        PhaseName::Running,
        PhaseName::Settling,
        PhaseName::Deciding,
        PhaseName::Asking,
        PhaseName::Sweeping,
        PhaseName::Proving,
        PhaseName::Gating,
        PhaseName::Preparing,
        PhaseName::Leaving(Departure::Released),
    ];

    /// A transition, where it leads, and a letter for each phase in the order of `NAMES`: `+` allowed,
    /// `-` refused.
    type TransitionRow = (
        fn(&mut SessionPhase) -> bool,
        Option<PhaseName>,
        &'static str,
    );

    #[test]
    fn each_transition_is_allowed_where_it_makes_sense_and_refused_elsewhere() {
        let table: [TransitionRow; 15] = [
            (|p| p.started(), Some(PhaseName::Running), "+---------"),
            (
                |p| p.exited(exited(), NOW),
                Some(PhaseName::Settling),
                "++--------",
            ),
            (|p| p.follow_with(AfterRun::Leave), None, "+++-------"),
            (
                |p| p.settled(NOW, Duration::ZERO).is_some(),
                Some(PhaseName::Asking),
                "--+-------",
            ),
            (
                |p| p.found_ended(EXIT, NOW).is_some(),
                Some(PhaseName::Asking),
                "+---------",
            ),
            (
                |p| p.await_more(NOW, ChangeFate::Kept),
                Some(PhaseName::Deciding),
                "----+-----",
            ),
            (
                |p| p.decide().is_some(),
                Some(PhaseName::Asking),
                "---+------",
            ),
            (|p| p.sweep(next()), Some(PhaseName::Sweeping), "---++-----"),
            (|p| p.prove(NOW), Some(PhaseName::Proving), "-----+----"),
            (|p| p.wait_at(gate), Some(PhaseName::Gating), "-----++---"),
            (
                |p| p.prepare().is_some(),
                Some(PhaseName::Preparing),
                "-------+--",
            ),
            (
                |p| p.launch().is_some(),
                Some(PhaseName::Starting),
                "--------+-",
            ),
            (|p| p.ask_again(NOW), Some(PhaseName::Asking), "---++++++-"),
            (
                |p| p.leave(Ending::Code(1), Departure::Ended),
                Some(PhaseName::Leaving(Departure::Ended)),
                "+++++++++-",
            ),
            (|p| p.end_with_run(), None, "+++++++++-"),
        ];
        for (row, (transition, leads_to, letters)) in table.iter().enumerate() {
            for ((mut phase, name), letter) in all().into_iter().zip(NAMES).zip(letters.chars()) {
                assert_eq!(phase.name(), name);
                let is_allowed = transition(&mut phase);
                assert_eq!(is_allowed, letter == '+', "row {row} from {name:?}");
                match (is_allowed, leads_to) {
                    (true, Some(to)) => assert_eq!(phase.name(), *to, "row {row} from {name:?}"),
                    (true, None) => {}
                    (false, _) => assert_eq!(phase.name(), name, "row {row}: refused"),
                }
            }
        }
    }

    #[test]
    fn what_was_asked_for_during_a_run_follows_it() {
        let mut phase = SessionPhase::starting(AfterRun::Decide);
        assert!(phase.follow_with(AfterRun::Leave));
        assert!(phase.started() && phase.exited(exited(), NOW));
        let patience = Duration::from_millis(40);
        assert!(phase.settled(NOW, patience).is_none(), "too soon");
        let settled = phase.settled(NOW + patience, patience);
        let Some((_, since, AfterRun::Leave)) = settled else {
            panic!("{settled:?}");
        };
        assert_eq!((since, phase.asked_since()), (NOW, Some(NOW + patience)));
    }

    #[test]
    fn a_session_ends_with_its_run_or_at_once_if_there_is_none() {
        let endings = all().into_iter().map(|mut phase| {
            phase.end_with_run();
            phase.leaving()
        });
        let at_once = Some((Ending::Like(EXIT), Departure::Ended));
        let before = Some((Ending::Code(7), Departure::Released));
        let expected = [None, None, None]
            .into_iter()
            .chain([at_once; 6])
            .chain([before]);
        assert!(endings.eq(expected));
    }
}
