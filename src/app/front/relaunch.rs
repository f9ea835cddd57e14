//! From one run to the next: the dead run settles, the dialog opens, the tree is swept, the gate
//! opens, the keeper is told to start.

use super::Front;
use crate::app::gate::{Gate, Sight, Timing, Verdict};
use crate::app::holders;
use crate::app::leftovers;
use crate::app::phase::{After, Next, Phase};
use crate::app::screen::{Due, terminal_size};
use crate::app::{Ending, OnOom};
use crate::command::CommandLine;
use crate::event::{Event, Exit, Level, NvmlState, StopRequested, What};
use crate::forecast::ForecastInputs;
use crate::recognize::LaunchEnvironment;
use crate::remedy::{self, Leftover, Plan, Remedy, RemedyId, RemedyInputs};
use crate::state::{Run, RunOutcome};
use crate::supervise::{KeeperOrder, Launch};
use crate::ui;
use crate::units::{Bytes, Moment, Pid, Uuid};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use std::time::Duration;

/// How long a decision without anybody waits for what earlier sessions showed.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a run's probes that still live are given for their last words.
const LAST_WORDS: Duration = Duration::from_millis(40);
/// How long a dead process's words are awaited: on a busy machine our turn to read them comes late.
const LAST_WORDS_OF_THE_DEAD: Duration = Duration::from_secs(2);
/// How often time alone is looked at while a run settles.
pub(super) const SETTLING_STEP: Duration = Duration::from_millis(10);

/// Whether nothing is left of a process, not even to be waited for.
fn has_ended(pid: Pid) -> bool {
    kill(nix::unistd::Pid::from_raw(pid.0), None) == Err(Errno::ESRCH)
}

impl Front {
    /// A run that ended settles once all its probes have said goodbye, or after a moment.
    pub(super) fn settle(&mut self, now: Moment) {
        let Phase::Settling { since, .. } = &self.phase else {
            return;
        };
        // The kernel has hung up for a process that is dead: only our own turn to read is awaited.
        let patience = match self.speaking.iter().any(|pid| has_ended(*pid)) {
            true => LAST_WORDS_OF_THE_DEAD,
            false => LAST_WORDS,
        };
        if !self.speaking.is_empty() && now < *since + patience {
            return;
        }
        let Phase::Settling {
            exited,
            since,
            after,
        } = std::mem::replace(&mut self.phase, Phase::Starting)
        else {
            return;
        };
        let exit = exited.exit;
        self.phase = Phase::Asking { exit, since: now };
        self.happened(Event {
            at: since,
            what: What::Exited(exited),
        });
        self.conclude(exit, after, now);
    }

    /// What follows a run that has ended and is folded.
    pub(super) fn conclude(&mut self, exit: Exit, after: After, now: Moment) {
        self.phase = Phase::Asking { exit, since: now };
        let ran_out = self.state.run().map(Run::outcome) == Some(RunOutcome::OutOfMemory);
        if ran_out {
            self.earlier.ask(&self.command, &self.memory.header.id);
        }
        self.diagnose();
        self.say_measured();
        self.waiting = None;
        let rejected = self.take_back(exit);
        let asks = self.on_oom == OnOom::Ask && self.can_wait();
        match after {
            After::Decide if self.fitting.is_some() => self.fit_ended(exit),
            // Who decides alone decides by all that is known.
            After::Decide if ran_out && self.on_oom == OnOom::Auto => {
                self.undecided = Some((exit, now + PATIENCE));
            }
            After::Decide if ran_out && asks => self.say_that_it_waits(),
            After::Decide if rejected && asks => {
                self.say_that_it_waits();
                self.offer_again();
            }
            After::Decide | After::Leave => {
                let left = self.state.run().map(|run| run.survivors.as_slice());
                self.last_words.extend(left.and_then(holders::words));
                self.phase = Phase::Leaving(Ending::Like(exit));
            }
            After::Relaunch(next) => self.sweep(exit, *next),
        }
        self.request(Due::Now);
    }

    /// All that remedies rest on.
    pub(super) fn inputs(&self) -> RemedyInputs<'_> {
        RemedyInputs {
            launch: LaunchEnvironment {
                torch: self.torch_version(),
                copies: self.known.copies(self.run_number().next().0),
                ..self.known.launch()
            },
            forecast: ForecastInputs {
                oom: self.state.oom(),
                state: Some(&self.state),
                earlier: self.earlier.observations(),
                ..ForecastInputs::default()
            },
            findings: &self.findings,
            batch_fits: true,
            leftovers: self.known.leftovers(),
            ..RemedyInputs::default()
        }
    }

    pub(super) fn remedies_now(&self) -> Vec<Remedy> {
        self.without_rejected(remedy::remedies(&self.command, &self.inputs()))
    }

    /// The command that remedies make of the current run's.
    pub(super) fn plan(&self, ids: &[RemedyId]) -> Plan {
        let chosen: Vec<&Remedy> = self
            .remedies
            .iter()
            .filter(|remedy| ids.contains(&remedy.id))
            .collect();
        Plan::of(&self.command, &chosen)
    }

    /// torch's version: what the probe said, else what the disk says.
    fn torch_version(&self) -> Option<&str> {
        let said = self
            .state
            .runs
            .iter()
            .rev()
            .find_map(|run| run.ranks.first())
            .map(|rank| rank.hello.torch.as_str());
        said.or(self.torch.as_deref())
    }

    /// The user chose what runs next: now, where nothing runs; else as soon as it was stopped.
    pub(super) fn relaunch(&mut self, ids: &[RemedyId], edited: Option<CommandLine>) {
        let chosen = self.expanded(ids);
        let plan = self.plan(ids);
        let command = match edited {
            Some(mut command) => {
                ui::restore_masked(&mut command, &self.command);
                command
            }
            None => plan.command,
        };
        let next = Next {
            command,
            remedies: chosen.iter().map(|remedy| remedy.title.clone()).collect(),
            predicted_peak: {
                let chosen: Vec<&Remedy> = chosen.iter().collect();
                let expectation = remedy::expectation(&self.command, &self.inputs(), &chosen);
                expectation.peak.map(|peak| peak.likely)
            },
            awaited: self.awaited(ids),
            ending: self.end_leftovers(ids),
            applied: chosen,
            files: plan.files,
        };
        match &mut self.phase {
            Phase::Asking { exit, .. } => {
                let exit = *exit;
                self.sweep(exit, next);
            }
            Phase::Running { after } => {
                *after = After::Relaunch(Box::new(next));
                self.record(What::StopRequested(StopRequested {
                    signal: Signal::SIGTERM as i32,
                    from_keyboard: true,
                }));
                self.order(KeeperOrder::Stop);
            }
            Phase::Settling { after, .. } => *after = After::Relaunch(Box::new(next)),
            Phase::Starting | Phase::Sweeping { .. } | Phase::Gating { .. } | Phase::Leaving(_) => {
            }
        }
    }

    /// The processes that have to leave the device before the next run, where that was chosen.
    fn awaited(&self, ids: &[RemedyId]) -> Vec<Pid> {
        let mut awaited = Vec::new();
        if ids.contains(&RemedyId::Wait) {
            awaited.extend(
                self.findings
                    .iter()
                    .filter_map(|finding| finding.other_process),
            );
        }
        if ids.contains(&RemedyId::StopLeftover) {
            awaited.extend(self.known.leftovers().iter().map(|leftover| leftover.pid));
        }
        awaited
    }

    /// Asks what is left of earlier sessions to end, where that was chosen.
    fn end_leftovers(&mut self, ids: &[RemedyId]) -> Option<(Vec<Leftover>, Moment)> {
        if !ids.contains(&RemedyId::StopLeftover) {
            return None;
        }
        let leftovers = self.known.leftovers().to_vec();
        for leftover in &leftovers {
            let (pid, session) = (leftover.pid, &leftover.session);
            let words = match leftovers::signal(leftover, leftovers::Signal::TERM) {
                Ok(()) => format!("process {pid}, left over from {session}, was asked to end"),
                Err(error) => format!("process {pid} of {session} cannot be ended: {error}"),
            };
            self.note(Level::Warning, words);
        }
        Some((leftovers, self.clock.now() + leftovers::GRACE))
    }

    pub(super) fn sweep(&mut self, exit: Exit, next: Next) {
        self.waiting = Some("ending what is left of the last run".into());
        self.phase = Phase::Sweeping { exit, next };
        self.order(KeeperOrder::Sweep);
        self.request(Due::Now);
    }

    pub(super) fn swept(&mut self, left: &[Pid]) {
        let Phase::Sweeping { exit, next } = &self.phase else {
            return;
        };
        let (exit, next) = (*exit, next.clone());
        if !left.is_empty() {
            let pids: Vec<String> = left.iter().map(Pid::to_string).collect();
            return self.refuse(format!(
                "processes of the last run cannot be ended (pid {}); not relaunched",
                pids.join(", ")
            ));
        }
        let now = self.clock.now();
        let gate = Gate::new(
            now,
            Timing::scaled(self.scaled),
            self.devices_of_last_run(),
            next.predicted_peak,
            self.pids_of_last_run(),
            self.sight(),
        )
        .awaiting(next.awaited.clone());
        self.phase = Phase::Gating { exit, next, gate };
        self.pass_gate(now);
    }

    fn sight(&self) -> Sight {
        match self.state.nvml {
            Some(NvmlState::Live { .. }) => Sight::Nvml,
            Some(NvmlState::Unavailable { .. } | NvmlState::Stale | NvmlState::Off) | None => {
                Sight::Blind
            }
        }
    }

    /// The devices that the last run used, with their use before the first run. A run that died
    /// before its first sample is known by its out-of-memory, or by what it could see.
    fn devices_of_last_run(&self) -> Vec<(Uuid, Option<Bytes>)> {
        let Some(run) = self.state.run() else {
            return Vec::new();
        };
        let of_ooms = run.ooms.iter().filter_map(|oom| oom.device.as_ref());
        let mut devices: Vec<Uuid> = run
            .ranks
            .iter()
            .filter_map(|rank| rank.device.as_ref())
            .chain(of_ooms)
            .cloned()
            .collect();
        if devices.is_empty() {
            let seen = run.ranks.iter().flat_map(|rank| &rank.hello.devices);
            devices.extend(seen.filter_map(|device| device.uuid.clone()));
        }
        devices.sort();
        devices.dedup();
        devices
            .into_iter()
            .map(|uuid| {
                let baseline = self.baselines.get(&uuid).copied();
                (uuid, baseline)
            })
            .collect()
    }

    fn pids_of_last_run(&self) -> Vec<Pid> {
        self.state
            .run()
            .map(|run| run.ranks.iter().map(|rank| rank.hello.pid).collect())
            .unwrap_or_default()
    }

    /// The use of a device before any process of ours touched it.
    pub(super) fn learn_baseline(&mut self, uuid: Uuid, used: Option<Bytes>) {
        let untouched = self.state.runs.iter().all(|run| run.ranks.is_empty());
        if let (true, Some(used)) = (untouched, used) {
            self.baselines.insert(uuid, used);
        }
    }

    pub(super) fn nvml_changed(&mut self, state: NvmlState) {
        if let (Phase::Gating { gate, .. }, NvmlState::Unavailable { .. } | NvmlState::Stale) =
            (&mut self.phase, state)
        {
            gate.lose_nvml();
        }
    }

    pub(super) fn pass_gate(&mut self, now: Moment) {
        let Phase::Gating { gate, next, .. } = &mut self.phase else {
            return;
        };
        if let Some((leftovers, _)) = next.ending.take_if(|(_, until)| now >= *until) {
            for leftover in &leftovers {
                // One that has ended by now is what was wanted.
                let _ = leftovers::signal(leftover, leftovers::Signal::KILL);
            }
        }
        match gate.verdict(now) {
            Verdict::Wait(why) => {
                if self.waiting.as_deref() != Some(why.as_str()) {
                    self.waiting = Some(why);
                    self.request(Due::Now);
                }
            }
            Verdict::Refused(why) => self.refuse(why),
            Verdict::Open => {
                let next = next.clone();
                self.start_next(next);
            }
        }
    }

    /// Back to the dialog, with the reason.
    fn refuse(&mut self, why: String) {
        if let Phase::Sweeping { exit, .. } | Phase::Gating { exit, .. } = self.phase {
            if let Some(fitting) = &mut self.fitting {
                fitting.given_up = Some(why);
                self.phase = Phase::Leaving(Ending::Like(exit));
                return;
            }
            if self.on_oom == OnOom::Auto {
                self.phase = Phase::Leaving(Ending::Like(exit));
                return self.say_unattended(format!("not relaunched: {why}"));
            }
            self.waiting = Some(why.clone());
            let since = self.clock.now();
            self.phase = Phase::Asking { exit, since };
            self.note(Level::Warning, why);
            self.request(Due::Now);
        }
    }

    fn start_next(&mut self, next: Next) {
        if let Err(why) = self.write_copies(&next) {
            return self.refuse(why);
        }
        let run = self.run_number().next();
        self.begin_change(&next);
        self.waiting = None;
        self.hinted = None;
        self.command = next.command;
        self.memory.chosen = (next.remedies, next.predicted_peak);
        self.remember();
        self.phase = Phase::Starting;
        let size = match &mut self.screen {
            Some(screen) => Some(screen.begin_run()),
            None => terminal_size(),
        };
        let command = self.surround.around(&self.command, run);
        self.order(KeeperOrder::Launch(Launch { run, command, size }));
    }
}
