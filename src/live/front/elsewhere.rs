//! Between the sweep of this node and the gate: where the last run had ranks on other nodes, nothing is
//! started before all of them are proven gone.

use super::Front;
use crate::collect::scheduler::{self, SlurmJob};
use crate::event::{Exit, Level};
use crate::live::link::elsewhere::{RanksGone, RemoteRankCheck, may_be_elsewhere};
use crate::live::link::{Proof, SessionPhase};
use crate::live::session::NextRun;
use crate::recognize::Reach;
use crate::units::{Moment, Pid};
use nix::errno::Errno;
use nix::sys::signal::kill;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

/// How long a step may take to end on all nodes: SLURM gives tasks 30 s (`KillWait`) and then its own
/// processes some more.
const WITH_SCHEDULER: Duration = Duration::from_secs(120);
/// How long the files of other nodes are awaited where nobody else can be asked.
const WITHOUT: Duration = Duration::from_secs(20);
/// Between two questions to the scheduler.
const ASK_AGAIN: Duration = Duration::from_secs(2);

impl Front {
    /// The processes of this node are gone. Waits for the proof if there may be others.
    pub(super) fn prove_that_all_are_gone(&mut self, exit: Exit, next: NextRun) {
        let needs_proof = (self.session.state.run())
            .is_some_and(|run| may_be_elsewhere(run, &self.reach_of_last_run()));
        if !needs_proof {
            return self.wait_at_gate(exit, next);
        }
        self.display
            .wait_for("making sure that no rank runs on any node");
        let now = self.session.clock.now();
        let proof = Proof::begun(now);
        self.link.enter(SessionPhase::Proving { exit, next, proof });
        self.prove(now);
    }

    fn reach_of_last_run(&self) -> Reach {
        let inputs = self.session.remedy_inputs();
        inputs.recognize(self.session.command()).reach()
    }

    fn inherited(&self, name: &str) -> Option<String> {
        let inputs = self.session.remedy_inputs();
        inputs.launch.inherited_value(name).map(str::to_string)
    }

    pub(super) fn prove(&mut self, now: Moment) {
        if !matches!(self.link.phase(), SessionPhase::Proving { .. }) {
            return;
        }
        let job = self.inherited("SLURM_JOB_ID").filter(|job| !job.is_empty());
        let own_step = self.inherited("SLURM_STEP_ID");
        let reach = self.reach_of_last_run();
        let scaled = self.session.handover.scaled.max(1);
        let SessionPhase::Proving { exit, next, proof } = self.link.phase_mut() else {
            return;
        };
        if let Some(job) = &job {
            ask(proof, job, now, ASK_AGAIN / scaled);
        }
        let Some(run) = self.session.state.run() else {
            return;
        };
        let verdict = match (&job, proof.answer.as_ref()) {
            (Some(_), None) => RanksGone::NotProven("SLURM has not answered yet".into()),
            (_, answer) => RemoteRankCheck {
                run,
                reach: &reach,
                job: answer,
                own_step: own_step.and_then(|step| step.parse().ok()),
                exists: &exists,
                now,
            }
            .verdict(),
        };
        let patience = match job {
            Some(_) => WITH_SCHEDULER,
            None => WITHOUT,
        } / scaled;
        let is_late = now >= proof.begun + patience;
        let (exit, next) = (*exit, next.clone());
        match verdict {
            RanksGone::Proven(by) => {
                let words = format!("no rank of run {} is left on any node: {by}", run.number);
                self.session.note(Level::Info, words);
                self.wait_at_gate(exit, next);
            }
            RanksGone::NotProven(why) if !is_late => {
                self.display
                    .wait_for(format!("making sure that no rank runs on any node: {why}"));
            }
            RanksGone::NotProven(why) => self.not_launched(format!(
                "a rank may still run on another node ({why}); nothing was started, the changed command is there to copy"
            )),
            RanksGone::Never(why) => self.not_launched(format!(
                "{why}; nothing was started, the changed command is there to copy"
            )),
        }
    }
}

/// Takes an answer in, or asks on a thread: the controller may take its time.
fn ask(proof: &mut Proof, job: &str, now: Moment, again: Duration) {
    if let Some(asked) = &proof.asked {
        let Ok(answer) = asked.try_recv() else {
            return;
        };
        proof.answer = Some(answer);
        (proof.asked, proof.ask_at) = (None, now + again);
    }
    if now < proof.ask_at {
        return;
    }
    let (done, answer) = sync_channel::<Result<SlurmJob, String>>(1);
    let job = job.to_string();
    let thread = std::thread::Builder::new().name("scheduler".into());
    let started = thread.spawn(move || {
        // If nobody waits any more, it was too late.
        let _ = done.send(scheduler::ask(&job));
    });
    if started.is_ok() {
        proof.asked = Some(answer);
    }
}

/// Whether a process of this node exists. One that may not be asked about does.
fn exists(pid: Pid) -> bool {
    kill(nix::unistd::Pid::from_raw(pid.0), None) != Err(Errno::ESRCH)
}
