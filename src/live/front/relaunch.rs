//! From one run to the next: the ended run settles, the policy decides what follows, remaining
//! processes are ended (those of other nodes are proven gone), the gate waits for free memory, and the
//! keeper starts the run.

use super::Front;
use crate::event::{Event, EventKind, Exit, Level};
use crate::live::Ending;
use crate::live::display::screen::Due;
use crate::live::link::gate::{Gate, GateSight, GateTiming, GateVerdict};
use crate::live::link::{AfterRun, SessionPhase, holders};
use crate::live::policy::{FollowUp, RunSummary};
use crate::live::session::{LeftoverSignal, NextRun, signal_leftover};
use crate::report;
use crate::supervise::KeeperOrder;
use crate::units::{Moment, Pid};
use std::time::Duration;

/// How long an unattended decision waits for the observations of earlier sessions.
const EARLIER_PATIENCE: Duration = Duration::from_secs(2);

impl Front {
    /// Applies the end of a run that has settled.
    pub(super) fn settle(&mut self, now: Moment) {
        let awaits_files = self.awaits_files();
        if let Some((exited, since, then)) = self.link.settled(now, awaits_files) {
            let exit = exited.exit;
            self.session.apply(&Event {
                at: since,
                what: EventKind::Exited(exited),
            });
            self.conclude(exit, then, now);
        }
    }

    /// Whether there may be files of other nodes that were not seen yet.
    fn awaits_files(&self) -> bool {
        let SessionPhase::Settling { exited, .. } = self.link.phase() else {
            return false;
        };
        let run = self.session.state.run().filter(|_| self.spool.is_some());
        run.is_some_and(|run| match run.ranks.is_empty() {
            true => !exited.exit.is_success(),
            false => !run.unseen().is_empty(),
        })
    }

    /// Lets the policy decide what follows a run that has ended.
    pub(super) fn conclude(&mut self, exit: Exit, then: AfterRun, now: Moment) {
        self.link.enter(SessionPhase::asking(exit, now));
        let ran_out = self.session.ran_out();
        if ran_out {
            self.session.ask_earlier();
        }
        self.session.diagnose();
        self.session.record_what_came_of_the_prediction();
        if let Some(words) = self.session.state.run().and_then(report::score::verdict) {
            self.announce(&words, true);
        }
        if let Some(words) = report::hidden_oom(&self.session.state) {
            self.session.note(Level::Warning, words);
        }
        self.display.waiting = None;
        let change_rejected = self.session.take_back(exit);
        match then {
            AfterRun::Decide if ran_out && self.waits_for_more() => {
                self.link.enter(SessionPhase::Asking {
                    exit,
                    since: now,
                    decide_by: Some(now + EARLIER_PATIENCE),
                });
            }
            AfterRun::Decide => self.ask_policy(exit, change_rejected),
            AfterRun::Leave => self.leave_after(exit),
            AfterRun::Relaunch(next) => self.sweep(exit, *next),
        }
        self.display.request(Due::Now);
    }

    /// Whether the policy needs to know more than what is known by now.
    fn waits_for_more(&self) -> bool {
        let earlier = self.policy.needs_earlier_sessions() && self.session.is_reading_earlier();
        earlier || self.session.is_finding_remedies()
    }

    /// Once the remedies are there and earlier sessions have been read, or have taken too long.
    pub(super) fn decide_when_known(&mut self, now: Moment) {
        if let SessionPhase::Asking {
            exit,
            since,
            decide_by: Some(until),
        } = *self.link.phase()
            && (!self.waits_for_more() || now >= until && !self.session.is_finding_remedies())
        {
            self.link.enter(SessionPhase::asking(exit, since));
            self.ask_policy(exit, false);
        }
    }

    fn ask_policy(&mut self, exit: Exit, change_rejected: bool) {
        let can_wait = self.can_wait();
        let session = &self.session;
        let Some(run) = session.state.run() else {
            return self.leave_after(exit);
        };
        let follow_up = self.policy.after_run(&RunSummary {
            exit,
            run,
            state: &session.state,
            findings: &session.findings,
            remedies: session.remedies(),
            command: session.command(),
            inputs: session.remedy_inputs(),
            change_rejected,
            can_wait,
        });
        match follow_up {
            FollowUp::Wait => {
                self.say_that_it_waits();
                if change_rejected {
                    self.display.open_remedies(&self.session);
                }
            }
            other => self.follow_up(exit, other),
        }
    }

    fn follow_up(&mut self, exit: Exit, follow_up: FollowUp) {
        match follow_up {
            FollowUp::Wait => {}
            FollowUp::Leave(why) => {
                if let Some(why) = why {
                    self.announce(&why, true);
                }
                self.leave_after(exit);
            }
            FollowUp::Launch(next, why) => {
                if let Some(spent) = self.link.input_spent.clone() {
                    return self.not_launched(spent);
                }
                self.announce(&why, true);
                self.sweep(exit, *next);
            }
        }
    }

    fn leave_after(&mut self, exit: Exit) {
        let left = self.session.state.run().map(|run| run.survivors.as_slice());
        if let Some(words) = left.and_then(holders::words) {
            self.display.say_last(words);
        }
        self.link.leave(Ending::Like(exit));
    }

    pub(super) fn sweep(&mut self, exit: Exit, next: NextRun) {
        if let Some(spent) = self.link.input_spent.clone() {
            return self.not_launched(spent);
        }
        self.display
            .wait_for("ending the remaining processes of the last run");
        self.link.enter(SessionPhase::Sweeping { exit, next });
        self.link.order(KeeperOrder::Sweep);
    }

    pub(super) fn swept(&mut self, left: &[Pid]) {
        let SessionPhase::Sweeping { exit, next } = self.link.phase() else {
            return;
        };
        let (exit, next) = (*exit, next.clone());
        if !left.is_empty() {
            let pids: Vec<String> = left.iter().map(Pid::to_string).collect();
            return self.not_launched(format!(
                "processes of the last run cannot be ended (pid {}); not relaunched",
                pids.join(", ")
            ));
        }
        self.prove_that_all_are_gone(exit, next);
    }

    /// Nothing of the last run is left: the device's memory is awaited.
    pub(super) fn wait_at_gate(&mut self, exit: Exit, next: NextRun) {
        let (now, session) = (self.session.clock.now(), &self.session);
        let gate = Gate::new(
            now,
            GateTiming::scaled(session.handover.scaled),
            session.devices_of_last_run(),
            next.prediction.as_ref().and_then(|said| said.peak),
            session.pids_of_last_run(),
            match session.sees_devices() {
                true => GateSight::Nvml,
                false => GateSight::Blind,
            },
        )
        .awaiting(next.awaited.clone());
        self.link.enter(SessionPhase::Gating { exit, next, gate });
        self.pass_gate(now);
    }

    pub(super) fn pass_gate(&mut self, now: Moment) {
        let Some((gate, next)) = self.link.gated() else {
            return;
        };
        if let Some((leftovers, _)) = next.ending.take_if(|(_, until)| now >= *until) {
            for leftover in &leftovers {
                // If it has ended by now, all the better.
                let _ = signal_leftover(leftover, LeftoverSignal::KILL);
            }
        }
        match gate.verdict(now) {
            GateVerdict::Wait(why) => self.display.wait_for(why),
            GateVerdict::Refused(why) => self.not_launched(why),
            GateVerdict::Open => {
                let next = next.clone();
                match next.write_copies() {
                    Ok(()) => self.launch(next),
                    Err(why) => self.not_launched(why),
                }
            }
        }
    }

    /// The next run could not be started: back to the dialog with the reason, or what the policy decides.
    pub(super) fn not_launched(&mut self, why: String) {
        let Some(exit) = self.link.phase().ended() else {
            return;
        };
        match self.policy.not_launched(&why) {
            FollowUp::Wait => {
                let now = self.session.clock.now();
                self.link.enter(SessionPhase::asking(exit, now));
                self.session.note(Level::Warning, why.clone());
                self.display.wait_for(why);
            }
            other => self.follow_up(exit, other),
        }
    }

    fn launch(&mut self, next: NextRun) {
        let run = self.session.run_number().next();
        self.display.waiting = None;
        self.session.begin_run(next);
        self.link.hand_over(&self.session.handover);
        let size = self.display.begin_run();
        let rehearses = self.policy.rehearses();
        self.link.launch(&self.session, rehearses, run, size);
    }
}
