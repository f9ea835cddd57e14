//! The runs of `oomph fit --patch`: the command as it is, and with each patch at runtime by itself. What some of them need follows
//! from what a compiler makes then, and nothing predicts it: a short run has it. Each is stopped once it has shown enough.

use super::fit::RunShown;
use super::{FollowUp, OnStep, Policy, RunSummary};
use crate::command::{CommandLine, Word};
use crate::diagnosis;
use crate::event::{PATCHES, Patch, PatchOutcome};
use crate::live::session::changes::NextRun;
use crate::live::{Ending, print};
use crate::probe::RehearsedStep;
use crate::state::{Run, RunOutcome, State};
use crate::units::{Bytes, RunNumber};
use serde_json::{Value, json};
use std::os::fd::OwnedFd;

/// What one run has shown.
#[derive(Debug, Clone, PartialEq)]
struct MeasuredRun {
    /// `None` of the command as it is.
    patch: Option<Patch>,
    /// `None` where it ended for another reason than memory: in words.
    fits: Result<bool, String>,
    peak: Option<Bytes>,
    reserved: Option<Bytes>,
    /// Of its steps, in the middle.
    seconds: Option<f64>,
    /// Why the patch was not applied, if so.
    declined: Option<String>,
}

pub(crate) struct MeasurePatches {
    command: CommandLine,
    /// Those that are still to run, the next one first.
    next: Vec<Patch>,
    running: Option<Patch>,
    /// Optimizer steps that are enough.
    steps: u64,
    as_json: bool,
    shown: RunShown,
    /// The run that has shown enough and is being stopped.
    stopped: Option<RunNumber>,
    runs: Vec<MeasuredRun>,
    ended_early: Option<String>,
    standard_output: OwnedFd,
}

impl MeasurePatches {
    pub(crate) fn new(
        command: CommandLine,
        patches: &[Patch],
        steps: u64,
        as_json: bool,
        standard_output: OwnedFd,
    ) -> MeasurePatches {
        MeasurePatches {
            command,
            next: patches.to_vec(),
            running: None,
            steps,
            as_json,
            shown: RunShown::default(),
            stopped: None,
            runs: Vec::new(),
            ended_early: None,
            standard_output,
        }
    }

    fn learn(&mut self, run: &RunSummary<'_>) {
        let is_ours = self.stopped == Some(run.run.number);
        let trained = run.run.steps() > 0 && run.run.peak().is_some();
        let fits = match run.run.outcome() {
            RunOutcome::OutOfMemory => Ok(false),
            RunOutcome::Finished if run.run.is_hidden_failure() => Ok(false),
            RunOutcome::Finished | RunOutcome::TrainedNothing if trained => Ok(true),
            RunOutcome::Running | RunOutcome::Stopped | RunOutcome::Failed(_) if is_ours => {
                Ok(true)
            }
            RunOutcome::Finished
            | RunOutcome::TrainedNothing
            | RunOutcome::Running
            | RunOutcome::Stopped
            | RunOutcome::Failed(_) => Err(format!("ended with {}", run.exit)),
        };
        let rates = run.run.ranks.iter().filter_map(|rank| rank.steps.rate);
        let reserved = run.run.ranks.iter().map(|rank| rank.reserved_peak);
        self.runs.push(MeasuredRun {
            patch: self.running,
            fits,
            peak: run.run.peak(),
            reserved: reserved.max(),
            // Of several ranks the slowest is waited for.
            seconds: rates.reduce(f64::min).map(|rate| 1.0 / rate),
            declined: self.running.and_then(|patch| declined(run.run, patch)),
        });
    }

    /// Something is known to fit that was patched.
    fn status(&self) -> i32 {
        let fits = |run: &MeasuredRun| {
            run.patch.is_some() && run.fits == Ok(true) && run.declined.is_none()
        };
        i32::from(!self.runs.iter().any(fits))
    }

    fn in_words(&self) -> String {
        let plain = self.runs.iter().find(|run| run.patch.is_none());
        let plain = plain.and_then(|run| run.seconds);
        let lines = self.runs.iter().map(|run| run.line(plain) + "\n");
        lines.collect()
    }

    fn in_json(&self) -> Value {
        let runs: Vec<Value> = self.runs.iter().map(MeasuredRun::json).collect();
        json!({
            "version": 1,
            "argument": null,
            "patches": runs,
            "ended_early": self.ended_early,
        })
    }
}

/// Why a process of the run has not applied a patch, if so.
fn declined(run: &Run, patch: Patch) -> Option<String> {
    let said = run.ranks.iter().flat_map(|rank| &rank.patches);
    let mut of_patch = said.filter(|said| said.patch == patch.name());
    let found = of_patch.find(|said| said.outcome == PatchOutcome::Declined)?;
    Some(found.words.clone())
}

/// The command with one patch more, in the place of one of its name.
pub(crate) fn patched(command: &CommandLine, patch: Patch) -> CommandLine {
    let mut patches = Patch::of(command);
    patches.retain(|other| other.name() != patch.name());
    patches.push(patch);
    let mut command = command.clone();
    command.set_env(PATCHES, Some(Word::from(&Patch::value(&patches))));
    command
}

impl MeasuredRun {
    fn name(&self) -> String {
        self.patch
            .map_or_else(|| "as it is".to_string(), |patch| patch.to_string())
    }

    /// `budget=50    fits: peak 9.80 GiB, 10.2 GiB reserved, 0.55 s a step (+31 %)`
    fn line(&self, plain: Option<f64>) -> String {
        let mut words = match (&self.fits, &self.declined) {
            (_, Some(why)) => format!("not applied: {why}"),
            (Ok(true), None) => "fits".into(),
            (Ok(false), None) => "runs out of memory".into(),
            (Err(how), None) => format!("{how}: see its output above"),
        };
        if let (Ok(_), None, Some(peak)) = (&self.fits, &self.declined, self.peak) {
            words.push_str(&format!(": peak {peak}"));
            if let Some(reserved) = self.reserved {
                words.push_str(&format!(", {reserved} reserved"));
            }
            if let Some(seconds) = self.seconds {
                words.push_str(&format!(", {seconds:.2} s a step"));
                let more = plain.filter(|_| self.patch.is_some());
                if let Some(more) = more.map(|plain| (seconds / plain - 1.0) * 100.0) {
                    words.push_str(&format!(" ({more:+.0} %)"));
                }
            }
        }
        format!("{:<14} {words}", self.name())
    }

    fn json(&self) -> Value {
        json!({
            "patch": self.patch.map(|patch| patch.to_string()),
            "fits": self.fits.as_ref().ok(),
            "ended": self.fits.as_ref().err(),
            "not_applied": self.declined,
            "peak": self.peak,
            "reserved": self.reserved,
            "seconds_per_step": self.seconds,
        })
    }
}

impl Policy for MeasurePatches {
    fn after_run(&mut self, run: &RunSummary<'_>) -> FollowUp {
        if run.run.stop_requested.is_some() {
            self.ended_early = Some("stopped".into());
            return FollowUp::Leave(None);
        }
        self.learn(run);
        let plain = self.runs.last();
        let said = plain.map_or(String::new(), |run| run.line(None));
        if let Some(Err(how)) = plain.filter(|run| run.patch.is_none()).map(|run| &run.fits) {
            self.ended_early = Some(format!("the command as it is {how}; see its output above"));
            return FollowUp::Leave(None);
        }
        if self.next.is_empty() {
            return FollowUp::Leave(Some(said));
        }
        let patch = self.next.remove(0);
        self.running = Some(patch);
        self.shown = RunShown::default();
        let next = NextRun::plain(patched(&self.command, patch), vec![format!("fit: {patch}")]);
        FollowUp::Launch(Box::new(next), format!("{said}; next {patch}"))
    }

    fn not_launched(&mut self, why: &str) -> FollowUp {
        self.ended_early = Some(why.to_string());
        FollowUp::Leave(None)
    }

    fn rehearses(&self) -> RehearsedStep {
        RehearsedStep::No
    }

    fn on_step(&mut self, state: &State) -> OnStep {
        let Some(run) = state.run() else {
            return OnStep::Nothing;
        };
        let steps = run.steps();
        let is_enough = self.shown.by_now(run, self.steps, self.steps) && !diagnosis::may_grow(run);
        if !is_enough || self.stopped == Some(run.number) {
            return OnStep::Nothing;
        }
        self.stopped = Some(run.number);
        OnStep::Stop(format!("{steps} steps seen; stopping run {}", run.number))
    }

    fn name(&self) -> Option<&'static str> {
        Some("fit")
    }

    fn expects_ooms(&self) -> bool {
        true
    }

    fn runs_again(&self) -> bool {
        true
    }

    fn result(&self) -> Option<String> {
        let lines: Vec<String> = self.runs.iter().map(|run| run.line(None)).collect();
        (!lines.is_empty()).then(|| lines.join("; "))
    }

    fn conclude(&self, ending: Ending) -> Option<Ending> {
        if let Some(why) = &self.ended_early {
            print::complain(&format!("fit: {why}"));
        }
        let text = match self.as_json {
            true => format!("{:#}\n", self.in_json()),
            false => self.in_words(),
        };
        let text = print::text(&text);
        let mut left = text.as_bytes();
        while let Ok(written @ 1..) = nix::unistd::write(&self.standard_output, left) {
            left = &left[written..];
        }
        Some(match self.ended_early.as_deref() {
            Some("stopped") => ending,
            Some(_) | None => Ending::Code(self.status()),
        })
    }
}
