//! The one run of `oomph check`: stopped once it has shown enough, and told in one line.

use super::fit::RunShown;
use super::{FollowUp, OnStep, Policy, RunSummary};
use crate::live::{Ending, print};
use crate::probe::RehearsedStep;
use crate::report::check::{CheckBaseline, CheckResult, CheckedRun, MemoryLimit};
use crate::state::{RunOutcome, State};
use crate::units::RunNumber;
use std::os::fd::OwnedFd;

/// What a check holds its run to, and how it is told.
#[derive(Debug, Clone, Default)]
pub(crate) struct CheckTerms {
    pub limit: Option<MemoryLimit>,
    /// The file's name, and what is in it.
    pub against: Option<(String, CheckBaseline)>,
    /// As a share.
    pub tolerance: f64,
    pub alloc_conf: Option<String>,
    pub json: bool,
    /// Annotations for GitHub.
    pub annotates: bool,
}

impl CheckTerms {
    pub(crate) fn result(&self, run: CheckedRun) -> CheckResult {
        let growth = self.against.as_ref().map(|(name, baseline)| {
            let growth = run.since(name, baseline, self.tolerance);
            growth.ok_or_else(|| format!("no peak to compare with that of {name}"))
        });
        CheckResult {
            growth,
            limit: self.limit.clone(),
            run,
        }
    }

    /// What goes to standard output.
    pub(crate) fn answer(&self, result: &CheckResult) -> String {
        match self.json {
            true => result.json() + "\n",
            false => format!("check: {}\n", result.line()),
        }
    }
}

pub(crate) struct CheckRun {
    terms: CheckTerms,
    /// Optimizer steps that are enough.
    steps: u64,
    shown: RunShown,
    /// The run that has shown enough and is being stopped.
    stopped: Option<RunNumber>,
    checked: Option<CheckedRun>,
    standard_output: OwnedFd,
}

impl CheckRun {
    pub(crate) fn new(terms: CheckTerms, steps: u64, standard_output: OwnedFd) -> CheckRun {
        CheckRun {
            terms,
            steps,
            standard_output,
            shown: RunShown::default(),
            stopped: None,
            checked: None,
        }
    }
}

impl Policy for CheckRun {
    fn after_run(&mut self, run: &RunSummary<'_>) -> FollowUp {
        let is_ours = self.stopped == Some(run.run.number);
        let conf = self.terms.alloc_conf.as_deref();
        let why = match run.run.outcome() {
            RunOutcome::Finished | RunOutcome::TrainedNothing | RunOutcome::OutOfMemory => None,
            RunOutcome::Running | RunOutcome::Stopped | RunOutcome::Failed(_) if is_ours => None,
            RunOutcome::Stopped => Some("it was stopped".to_string()),
            RunOutcome::Running | RunOutcome::Failed(_) => Some(format!(
                "the command ended by itself ({}), for another reason than memory; see its output above",
                run.exit
            )),
        };
        self.checked = Some(match why {
            None => CheckedRun::new(run.state, conf),
            Some(why) => CheckedRun {
                why_unknown: Some(why),
                ..CheckedRun::default()
            },
        });
        FollowUp::Leave(None)
    }

    fn rehearses(&self) -> RehearsedStep {
        RehearsedStep::Second
    }

    fn on_step(&mut self, state: &State) -> OnStep {
        let Some(run) = state.run() else {
            return OnStep::Nothing;
        };
        let steps = run.steps();
        let is_enough = self.shown.by_now(run, self.steps, self.steps);
        if !is_enough || self.stopped == Some(run.number) {
            return OnStep::Nothing;
        }
        self.stopped = Some(run.number);
        OnStep::Stop(format!("{steps} steps seen; stopping the run"))
    }

    fn name(&self) -> Option<&'static str> {
        Some("check")
    }

    fn expects_ooms(&self) -> bool {
        true
    }

    fn conclude(&self, _ending: Ending) -> Option<Ending> {
        let checked = self.checked.clone().unwrap_or_else(|| CheckedRun {
            why_unknown: Some("the command did not run".into()),
            ..CheckedRun::default()
        });
        let result = self.terms.result(checked);
        let text = self.terms.answer(&result);
        let text = print::text(&text);
        let mut left = text.as_bytes();
        while let Ok(written @ 1..) = nix::unistd::write(&self.standard_output, left) {
            left = &left[written..];
        }
        if let Some(said) = result.annotation().filter(|_| self.terms.annotates) {
            print::aside(&said);
        }
        Some(Ending::Code(result.verdict().status()))
    }
}
