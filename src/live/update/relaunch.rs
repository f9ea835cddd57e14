//! From one run to the next: the ended run settles, the policy decides what follows, remaining
//! processes are ended (those of other nodes are proven gone), the gate waits for free memory, the edited
//! files are written, and the keeper starts the run.

use super::SessionController;
use crate::collect::scheduler;
use crate::command::{Change, CommandLine, Word, difference};
use crate::event::{
    Event, EventKind, Exit, Level, Note, NoteSubject, Prediction, SourceEdit, SpawnFailed,
};
use crate::live::Ending;
use crate::live::background_task::{TaskId, TaskResult};
use crate::live::display::screen::Due;
use crate::live::gate::{Gate, GateSight, GateTiming, GateVerdict};
use crate::live::message::SessionEffect;
use crate::live::other_nodes::{RanksGone, RemoteRankCheck, may_be_elsewhere};
use crate::live::phase::{AfterRun, Departure, PhaseName};
use crate::live::policy::{FollowUp, RunSummary};
use crate::live::session::changes::{ChangeFate, CommandAuthor, NextRun, write_copies};
use crate::live::session::leftovers;
use crate::recognize::Reach;
use crate::remedy::{self, Plan, Remedy, RemedyId};
use crate::state::Run;
use crate::supervise::KeeperOrder;
use crate::units::{Bytes, Moment, Pid};
use crate::{report, ui};
use nix::sys::signal::Signal;
use std::collections::BTreeSet;
use std::time::Duration;

/// After a run's end: how long to wait for the last events of probes that are still alive.
const LAST_WORDS: Duration = Duration::from_millis(40);
/// How long to wait for those of processes that are dead: on a busy machine we get to read them late.
const LAST_WORDS_OF_THE_DEAD: Duration = Duration::from_secs(2);
/// How long to wait for probes of other nodes, whose files we read late: a network file system shows a change
/// after seconds.
const LAST_WORDS_FROM_AFAR: Duration = Duration::from_secs(4);

/// How long a decision waits for the observations of earlier sessions.
const EARLIER_PATIENCE: Duration = Duration::from_secs(2);
/// And for the disk: where it does not answer, the session goes on without.
const DISK_PATIENCE: Duration = Duration::from_secs(10);

/// How long a step may take to end on all nodes: SLURM gives tasks 30 s (`KillWait`) and then its own
/// processes some more.
const WITH_SCHEDULER: Duration = Duration::from_secs(120);
/// How long the files of other nodes are awaited where nobody else can be asked.
const WITHOUT: Duration = Duration::from_secs(20);
/// Between two questions to the scheduler.
const ASK_AGAIN: Duration = Duration::from_secs(2);

/// How often to look while a run settles, and whether its probes have said all.
const SETTLING: Duration = Duration::from_millis(5);
/// While waiting for other nodes, or for the device's memory.
const GATING: Duration = Duration::from_millis(100);

impl SessionController {
    /// When time alone may change something.
    pub(crate) fn next_wake(&self) -> Option<Moment> {
        let now = self.session.now;
        match self.phase.name() {
            PhaseName::Settling => Some(now + SETTLING),
            PhaseName::Proving | PhaseName::Gating => Some(now + GATING),
            PhaseName::Deciding => {
                let disk = self.disk_due().filter(|_| self.session.is_looking_up());
                let earlier = self.phase.decides_by().filter(|by| *by > now);
                [disk, earlier].into_iter().flatten().min()
            }
            PhaseName::Starting
            | PhaseName::Running
            | PhaseName::Asking
            | PhaseName::Sweeping
            | PhaseName::Preparing
            | PhaseName::Leaving(_) => None,
        }
    }

    /// Applies the end of a run that has settled: all its probes have disconnected, or had time to.
    pub(super) fn settle(&mut self) {
        let Some((exited, _)) = self.phase.settling() else {
            return;
        };
        let is_success = exited.exit.is_success();
        // There may be files of other nodes that were not seen yet.
        let run = (self.session.state.run()).filter(|_| self.place.follows_files);
        let awaits_files = run.is_some_and(|run| match run.ranks.is_empty() {
            true => !is_success,
            false => !run.unseen().is_empty(),
        });
        let speaking: Vec<Pid> = self.speaking.iter().copied().collect();
        // The kernel has closed a dead process's connection: we only have to get to read it.
        let are_dead = |gone: &BTreeSet<Pid>| speaking.iter().any(|pid| gone.contains(pid));
        let patience = match self.gone.as_ref().is_none_or(are_dead) {
            _ if awaits_files || speaking.iter().any(|pid| !pid.is_here()) => LAST_WORDS_FROM_AFAR,
            _ if speaking.is_empty() && !self.phase.hears_out() => Duration::ZERO,
            // One that has not been read at all: it may be dead as well.
            _ if speaking.is_empty() => LAST_WORDS_OF_THE_DEAD,
            true => LAST_WORDS_OF_THE_DEAD,
            false => LAST_WORDS,
        };
        match self.phase.settled(self.session.now, patience) {
            Some((exited, since, then)) => {
                let exit = exited.exit;
                let what = EventKind::Exited(exited);
                self.session.apply(Event { at: since, what });
                self.conclude(exit, then);
            }
            None if speaking.is_empty() => {}
            None => self.session.push(SessionEffect::LookAtProcesses(speaking)),
        }
    }

    /// Lets the policy decide what follows a run that has ended.
    pub(super) fn conclude(&mut self, exit: Exit, then: AfterRun) {
        let ran_out = self.session.ran_out();
        if ran_out {
            self.session.ask_earlier();
        }
        self.session.diagnose();
        self.session.withdraw_warnings();
        self.session.record_what_came_of_the_prediction();
        let state = &self.session.state;
        let verdict = state
            .run()
            .and_then(|run| report::score::at_end(&state.runs, run));
        if let Some(words) = verdict {
            self.announce(&words, true);
        }
        if let Some(words) = report::hidden_oom(&self.session.state) {
            self.session.note(Level::Warning, words);
        }
        self.session.record_room();
        self.session.stop_waiting();
        let change = self.session.take_back(exit);
        match then {
            AfterRun::Decide
                if (ran_out || change != ChangeFate::Kept) && self.waits_for_more() =>
            {
                let until = self.session.now + EARLIER_PATIENCE;
                self.phase.await_more(until, change);
                // No dialog opens before there is something to choose.
                if self.session.is_looking_up() {
                    self.session.wait_for("reading the command's files");
                }
            }
            AfterRun::Decide => self.ask_policy(exit, change),
            AfterRun::Leave => self.leave_after(exit),
            AfterRun::Relaunch(next) => self.sweep(*next),
        }
        self.session.push(SessionEffect::Draw(Due::Now));
    }

    /// Whether more is to be known before anything is told: what a remedy needs is to be told once, as whoever reads the recording
    /// is told it.
    fn waits_for_more(&self) -> bool {
        self.session.is_reading_earlier() || self.session.is_finding_remedies()
    }

    fn disk_due(&self) -> Option<Moment> {
        Some(self.phase.asked_since()? + DISK_PATIENCE)
    }

    /// Once the remedies are there and earlier sessions have been read, or have taken too long.
    pub(super) fn decide_when_known(&mut self) {
        let now = self.session.now;
        let Some(until) = self.phase.decides_by() else {
            return;
        };
        if self.disk_due().is_some_and(|due| now >= due) {
            self.session.stop_looking();
        }
        if !self.session.is_looking_up() {
            self.session.stop_waiting();
        }
        let is_late = now >= until && !self.session.is_finding_remedies();
        if (!self.waits_for_more() || is_late)
            && let Some((exit, change)) = self.phase.decide()
        {
            self.ask_policy(exit, change);
        }
    }

    fn ask_policy(&mut self, exit: Exit, change: ChangeFate) {
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
            is_disk_silent: session.is_disk_silent(),
            change,
            time_left: session.job_time_left(),
            can_wait,
        });
        match follow_up {
            // Whoever typed the command has left.
            FollowUp::Wait if change == ChangeFate::FailedAtOnce && !self.has_screen() => {
                self.leave_after(exit);
            }
            FollowUp::Wait => {
                self.say_that_it_waits();
                match change {
                    ChangeFate::Kept => {}
                    ChangeFate::Rejected | ChangeFate::WithoutEffect => {
                        self.session.push(SessionEffect::OpenRemedies);
                    }
                    ChangeFate::FailedAtOnce => self.offer_editor(),
                }
            }
            other => self.follow_up(exit, other),
        }
    }

    /// The keeper could not start the ordered run. After an earlier run that leads back to the editor, where somebody sees it: a mistyped
    /// name is no reason to end the session.
    pub(super) fn not_started(&mut self, failed: SpawnFailed, status: i32) {
        let why = failed.reason.clone();
        self.session.record(EventKind::SpawnFailed(failed));
        let now = self.session.now;
        let before = self.session.state.run().and_then(|run| run.ended);
        let before = before.filter(|_| self.has_screen());
        if before.is_some_and(|(_, exit)| self.phase.not_started(exit, now)) {
            return self.open_editor(why);
        }
        self.session.push(SessionEffect::SayLast(why));
        self.phase.leave(Ending::Code(status), Departure::Ended);
    }

    /// Whoever typed the command sees why it failed, and mends it there.
    fn offer_editor(&mut self) {
        let Some(words) = self.session.failed_at_once() else {
            return;
        };
        self.session.note(Level::Warning, words.clone());
        self.open_editor(words);
    }

    fn open_editor(&mut self, words: String) {
        self.session.foresee(self.session.command().clone());
        self.session.push(SessionEffect::OpenEditor(words));
    }

    fn follow_up(&mut self, exit: Exit, follow_up: FollowUp) {
        match follow_up {
            FollowUp::Wait => {}
            FollowUp::Leave(why) => {
                if let Some(why) = why {
                    self.announce(&why, true);
                }
                if let Some(found) = self.policy.result() {
                    self.session.record(EventKind::Note(Note {
                        about: Some(NoteSubject::Fitted),
                        ..Note::new(Level::Info, found)
                    }));
                }
                self.leave_after(exit);
            }
            FollowUp::Launch(next, why) => {
                if let Some(spent) = self.input_spent.clone() {
                    return self.not_launched(spent);
                }
                self.announce(&why, true);
                self.sweep(*next);
            }
        }
    }

    /// The user chose the next run: it starts now, or once the current one has stopped.
    pub(super) fn relaunch(&mut self, ids: &[RemedyId], edited: Option<CommandLine>) {
        let next = self.next_run(ids, edited);
        match self.phase.name() {
            PhaseName::Deciding | PhaseName::Asking => self.sweep(next),
            // The run isn't stopped for a relaunch that can't be.
            PhaseName::Running if self.input_spent.is_some() => {
                let spent = self.input_spent.clone().unwrap_or_default();
                self.session.note(Level::Warning, spent.clone());
                self.session.wait_for(spent);
            }
            PhaseName::Running => {
                self.phase.follow_with(AfterRun::Relaunch(Box::new(next)));
                self.stop_requested(Signal::SIGTERM, true);
                self.session.order(KeeperOrder::Stop);
            }
            PhaseName::Settling => {
                self.phase.follow_with(AfterRun::Relaunch(Box::new(next)));
            }
            PhaseName::Starting
            | PhaseName::Sweeping
            | PhaseName::Proving
            | PhaseName::Gating
            | PhaseName::Preparing
            | PhaseName::Leaving(_) => {}
        }
    }

    /// The run that the user has chosen: by remedies, or as an edited command.
    fn next_run(&mut self, ids: &[RemedyId], edited: Option<CommandLine>) -> NextRun {
        let session = &self.session;
        let remedies = session.remedies().iter();
        let mut chosen: Vec<&Remedy> = remedies.filter(|remedy| ids.contains(&remedy.id)).collect();
        let plan = Plan::new(session.command(), &chosen);
        let (command, author) = match edited {
            Some(mut command) => {
                ui::restore_masked(&mut command, session.command());
                (command, CommandAuthor::Person)
            }
            None => (plan.command.clone(), CommandAuthor::Oomph),
        };
        let is_as_planned = command == plan.command;
        if !is_as_planned {
            let alone = |remedy: &Remedy| Plan::new(session.command(), &[remedy]).command;
            chosen.retain(|remedy| has_changes(session.command(), &alone(remedy), &command));
        }
        // Of a command that the user has changed further nothing was predicted.
        let prediction = match (chosen.as_slice(), is_as_planned) {
            (_, false) => None,
            // What is expected of one alone is known already.
            ([one], true) if one.expectation.peak.is_some() => one.expectation.prediction(),
            (several, true) => {
                let inputs = session.remedy_inputs();
                remedy::expectation(session.command(), &inputs, several).prediction()
            }
        };
        // Processes that must leave the device first, if that was chosen, and those that are made to.
        let ends = ids.contains(&RemedyId::StopLeftover);
        let leftovers = ends.then(|| session.remedy_inputs().leftovers.to_vec());
        let others = session
            .findings
            .iter()
            .filter(|_| ids.contains(&RemedyId::Wait));
        let mut awaited: Vec<Pid> = others.filter_map(|finding| finding.other_process).collect();
        awaited.extend(leftovers.iter().flatten().map(|leftover| leftover.pid));
        let killed_at = session.now + leftovers::GRACE;
        let next = NextRun {
            command,
            author,
            remedies: chosen.iter().map(|remedy| remedy.title.clone()).collect(),
            prediction,
            awaited,
            ending: leftovers.clone().map(|leftovers| (leftovers, killed_at)),
            // What else the user wrote may be what the program refuses.
            applied: match is_as_planned {
                true => (chosen.iter().flat_map(|remedy| remedy.each()).cloned()).collect(),
                false => Vec::new(),
            },
            files: plan.files,
        };
        if let Some(leftovers) = leftovers {
            self.session.push(SessionEffect::EndLeftovers(leftovers));
        }
        next
    }

    fn leave_after(&mut self, exit: Exit) {
        let left = self.session.state.run().map(|run| run.survivors.clone());
        let left = left.filter(|left| !left.is_empty());
        if let Some(left) = left {
            self.session.push(SessionEffect::NameHolders(left));
        }
        self.phase.leave(Ending::Like(exit), Departure::Ended);
    }

    pub(super) fn sweep(&mut self, next: NextRun) {
        if let Some(spent) = self.input_spent.clone() {
            return self.not_launched(spent);
        }
        if self.phase.sweep(next) {
            self.session
                .wait_for("ending the remaining processes of the last run");
            self.session.order(KeeperOrder::Sweep);
        }
    }

    pub(super) fn swept(&mut self, left: &[Pid]) {
        if self.phase.name() != PhaseName::Sweeping {
            return;
        }
        if !left.is_empty() {
            let pids: Vec<String> = left.iter().map(Pid::to_string).collect();
            return self.not_launched(format!(
                "processes of the last run cannot be ended (pid {}); not relaunched",
                pids.join(", ")
            ));
        }
        // The processes of this node are gone. There may be others.
        let needs_proof = (self.session.state.run())
            .is_some_and(|run| may_be_elsewhere(run, &self.reach_of_last_run()));
        if !needs_proof {
            return self.wait_at_gate();
        }
        self.session
            .wait_for("making sure that no rank runs on any node");
        self.phase.prove(self.session.now);
        self.prove();
    }

    fn reach_of_last_run(&self) -> Reach {
        let inputs = self.session.remedy_inputs();
        inputs.recognize(self.session.command()).reach()
    }

    fn inherited(&self, name: &str) -> Option<String> {
        let inputs = self.session.remedy_inputs();
        inputs.launch.inherited_value(name).map(str::to_string)
    }

    /// Waits for the proof that all ranks of the last run are gone: two trainings must never write to one
    /// checkpoint directory.
    pub(super) fn prove(&mut self) {
        if self.phase.name() != PhaseName::Proving {
            return;
        }
        let now = self.session.now;
        let job = self.inherited("SLURM_JOB_ID").filter(|job| !job.is_empty());
        let own_step = self.inherited("SLURM_STEP_ID");
        let reach = self.reach_of_last_run();
        let scaled = self.session.handover.config.scaled.max(1);
        let (Some(proof), Some(run)) = (self.phase.proof(), self.session.state.run()) else {
            return;
        };
        let verdict = match (&job, proof.answer.as_ref()) {
            (Some(_), None) => RanksGone::NotProven("SLURM has not answered yet".into()),
            (_, answer) => RemoteRankCheck {
                run,
                reach: &reach,
                job: answer,
                own_step: own_step.and_then(|step| step.parse().ok()),
                // One that was not looked at yet may exist.
                exists: &|pid| !self.gone.as_ref().is_some_and(|gone| gone.contains(&pid)),
                now,
            }
            .verdict(),
        };
        let patience = match job {
            Some(_) => WITH_SCHEDULER,
            None => WITHOUT,
        } / scaled;
        let is_late = now >= proof.begun + patience;
        let asks = proof.asked.is_none() && now >= proof.ask_at;
        let here = run.ranks.iter().map(|rank| rank.hello.pid);
        let here: Vec<Pid> = here.filter(|pid| pid.is_here()).collect();
        let number = run.number;
        match verdict {
            RanksGone::Proven(by) => {
                let words = format!("no rank of run {number} is left on any node: {by}");
                self.session.note(Level::Info, words);
                return self.wait_at_gate();
            }
            RanksGone::NotProven(why) if !is_late => {
                let words = format!("making sure that no rank runs on any node: {why}");
                self.session.wait_for(words);
            }
            RanksGone::NotProven(why) => {
                return self.not_launched(format!(
                    "a rank may still run on another node ({why}); nothing was started, the changed command is there to copy"
                ));
            }
            RanksGone::Never(why) => {
                return self.not_launched(format!(
                    "{why}; nothing was started, the changed command is there to copy"
                ));
            }
        }
        self.session.push(SessionEffect::LookAtProcesses(here));
        if let Some(job) = job.filter(|_| asks) {
            // The controller may take its time.
            let ask = move || TaskResult::Job(scheduler::ask(&job));
            let asked = self.session.begin("scheduler", ask);
            if let Some(proof) = self.phase.proof() {
                proof.asked = Some(asked);
            }
        }
    }

    pub(super) fn scheduler_answered(&mut self, id: TaskId, result: Option<TaskResult>) {
        let again = ASK_AGAIN / self.session.handover.config.scaled.max(1);
        let now = self.session.now;
        let proof = self.phase.proof();
        if let Some(proof) = proof.filter(|proof| proof.asked == Some(id)) {
            (proof.asked, proof.ask_at) = (None, now + again);
            if let Some(TaskResult::Job(answer)) = result {
                proof.answer = Some(answer);
            }
        }
    }

    /// Nothing of the last run is left: the device's memory is awaited.
    fn wait_at_gate(&mut self) {
        let session = &self.session;
        let is_waiting = self.phase.wait_at(|next| {
            Gate::new(
                session.now,
                GateTiming::scaled(session.handover.config.scaled),
                session.devices_of_last_run(),
                wanted(next.prediction.as_ref(), session.state.run()),
                session.pids_of_last_run(),
                match session.sees_devices() {
                    true => GateSight::Nvml,
                    false if session.may_have_used_a_device() => GateSight::Blind,
                    false => GateSight::NoDevice,
                },
            )
            .awaiting(next.awaited.clone())
        });
        if is_waiting {
            self.pass_gate();
        }
    }

    pub(super) fn pass_gate(&mut self) {
        let now = self.session.now;
        let Some((gate, next)) = self.phase.gate() else {
            return;
        };
        let late = next.ending.take_if(|(_, until)| now >= *until);
        let verdict = gate.verdict(now);
        if let Some((leftovers, _)) = late {
            self.session.push(SessionEffect::KillLeftovers(leftovers));
        }
        match verdict {
            GateVerdict::Wait(why) => self.session.wait_for(why),
            GateVerdict::Refused(why) => self.not_launched(why),
            GateVerdict::Open => self.prepare(),
        }
    }

    /// The memory is free: writes the next run's files, if it has any.
    fn prepare(&mut self) {
        let next = self.phase.prepare();
        let next = next.map(|next| (next.files.clone(), SourceEdit::of(&next.command)));
        match next.unwrap_or_default() {
            (files, edits) if files.is_empty() && edits.is_empty() => self.launch(),
            (files, edits) => {
                let write = move || TaskResult::Copies(write_copies(&files, &edits));
                self.copies = Some(self.session.begin("copies", write));
            }
        }
    }

    pub(super) fn copied(&mut self, written: Result<(), String>) {
        match written {
            Ok(()) => self.launch(),
            Err(why) => self.not_launched(why),
        }
    }

    /// The next run could not be started: back to the dialog with the reason, or what the policy decides.
    fn not_launched(&mut self, why: String) {
        let Some(exit) = self.phase.ended() else {
            return;
        };
        self.phase.ask_again(self.session.now);
        match self.policy.not_launched(&why) {
            FollowUp::Wait => {
                self.session.note(Level::Warning, why.clone());
                self.session.wait_for(why);
            }
            other => self.follow_up(exit, other),
        }
    }

    fn launch(&mut self) {
        let Some(next) = self.phase.launch() else {
            return;
        };
        let run = self.session.run_number().next();
        self.session.begin_run(next);
        self.session.hand_over();
        self.session.push(SessionEffect::Launch {
            run,
            command: self.session.command().clone(),
            rehearses: self.policy.rehearses(),
        });
    }
}

/// What must be free for the next run, on each device: its predicted peak; where that is unknown, no more than the last run wanted,
/// since what is changed for a relaunch is to need less.
fn wanted(prediction: Option<&Prediction>, last: Option<&Run>) -> Option<Bytes> {
    if let Some(peak) = prediction.and_then(|said| said.peak) {
        return Some(peak);
    }
    let at_most = prediction.and_then(|said| Some(said.within?.1));
    let had = last.and_then(Run::most_wanted);
    at_most.into_iter().chain(had).min()
}

/// Whether a command has what a remedy alone changes in the one that ran.
fn has_changes(ran: &CommandLine, remedied: &CommandLine, command: &CommandLine) -> bool {
    let has = |words: &[Word]| words.iter().all(|word| command.argv.contains(word));
    difference(ran, remedied).iter().all(|change| match change {
        Change::Replaced { to, .. } => has(std::slice::from_ref(to)),
        Change::Added { words, .. } => has(words),
        Change::Removed { words, .. } => !has(words),
        Change::Env { name, to, .. } => command.env_value(name) == to.as_ref(),
    })
}
