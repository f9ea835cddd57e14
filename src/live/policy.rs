//! What follows a run: ask the user, end the session, or launch another run unasked. A policy decides
//! from how the run ended; it has no side effects.

pub(crate) mod auto;
pub(crate) mod check;
pub(crate) mod fit;
pub(crate) mod measure;

use super::session::changes::{ChangeFate, NextRun};
use super::{Ending, OnOom};
use crate::command::CommandLine;
use crate::diagnosis::Finding;
use crate::event::Exit;
use crate::probe::RehearsedStep;
use crate::remedy::{Remedy, RemedyInputs};
use crate::state::{Run, RunOutcome, State};
use auto::AutoOptions;
use std::time::Duration;

/// A run that has ended, and its remedies.
pub(crate) struct RunSummary<'a> {
    pub exit: Exit,
    pub run: &'a Run,
    pub state: &'a State,
    pub findings: &'a [Finding],
    pub remedies: &'a [Remedy],
    /// The run's command.
    pub command: &'a CommandLine,
    pub inputs: RemedyInputs<'a>,
    /// What is on the disk beside the command could not be looked up in time: there may be checkpoints.
    pub is_disk_silent: bool,
    /// What became of the change that made this run.
    pub change: ChangeFate,
    /// The time left to the scheduler's job.
    pub time_left: Option<Duration>,
    /// A dialog can wait for an answer: somebody sees it, or can attach.
    pub can_wait: bool,
}

#[derive(Debug)]
pub(crate) enum FollowUp {
    /// Nothing runs until the user chooses.
    Wait,
    /// End the session; the reason, if it is to be printed.
    Leave(Option<String>),
    /// Launch this run; the reason.
    Launch(Box<NextRun>, String),
}

/// What follows from a step of a run.
#[derive(Debug)]
pub(crate) enum OnStep {
    /// The user may want a hint.
    Hint,
    Nothing,
    /// The run has shown enough and is stopped; the reason.
    Stop(String),
}

/// What follows a run.
pub(crate) trait Policy {
    fn after_run(&mut self, run: &RunSummary<'_>) -> FollowUp;

    /// The next run could not be launched.
    fn not_launched(&mut self, _why: &str) -> FollowUp {
        FollowUp::Wait
    }

    /// The step of its runs that shows what another run would need.
    fn rehearses(&self) -> RehearsedStep {
        RehearsedStep::OutOfMemory
    }

    fn on_step(&mut self, _state: &State) -> OnStep {
        OnStep::Hint
    }

    /// The name of a policy that acts unasked and reports what it does.
    fn name(&self) -> Option<&'static str> {
        None
    }

    /// Whether its runs run out of memory on purpose.
    fn expects_ooms(&self) -> bool {
        false
    }

    /// Whether there are several runs in any case, each of which needs the same input.
    fn runs_again(&self) -> bool {
        false
    }

    /// The run that the scheduler's job is to begin with once it is requeued, if it is to be.
    fn requeue(&self) -> Option<&NextRun> {
        None
    }

    /// The session's result, for its recording: a list and a report of it say so later.
    fn result(&self) -> Option<String> {
        None
    }

    /// Prints the session's result in place of the last lines; returns how it ends.
    fn conclude(&self, _ending: Ending) -> Option<Ending> {
        None
    }

    /// Whether the last screen stays when the session would end, as long as somebody sees it.
    fn holds_the_screen(&self) -> bool {
        false
    }
}

/// The same policy, but its last screen stays until a person quits.
pub(crate) fn holding(policy: Box<dyn Policy>) -> Box<dyn Policy> {
    Box::new(Hold(policy))
}

/// The policy for `on_oom`; without one the user is asked, if there is a user.
pub(crate) fn chosen(
    on_oom: Option<OnOom>,
    has_person: bool,
    auto: &AutoOptions,
) -> Box<dyn Policy> {
    match (on_oom, has_person) {
        (Some(OnOom::Ask), _) | (None, true) => Box::new(Ask),
        (Some(OnOom::Exit), _) | (None, false) => Box::new(ExitAtOnce),
        (Some(OnOom::Auto), _) => Box::new(auto::Auto::new(auto.clone())),
    }
}

/// `--on-oom ask`: the dialog opens, and nothing runs until a person chooses.
struct Ask;

impl Policy for Ask {
    fn after_run(&mut self, run: &RunSummary<'_>) -> FollowUp {
        let has_choice =
            run.change != ChangeFate::Kept || run.run.outcome() == RunOutcome::OutOfMemory;
        match has_choice && run.can_wait {
            true => FollowUp::Wait,
            false => FollowUp::Leave(None),
        }
    }
}

/// `--on-oom exit`: prints the diagnosis and exits as the run did.
struct ExitAtOnce;

impl Policy for ExitAtOnce {
    fn after_run(&mut self, _run: &RunSummary<'_>) -> FollowUp {
        FollowUp::Leave(None)
    }

    fn rehearses(&self) -> RehearsedStep {
        RehearsedStep::No
    }
}

/// `--hold`: any policy, but where the session would end, its last screen stays until a person quits.
struct Hold(Box<dyn Policy>);

impl Policy for Hold {
    fn after_run(&mut self, run: &RunSummary<'_>) -> FollowUp {
        held(self.0.after_run(run))
    }

    fn not_launched(&mut self, why: &str) -> FollowUp {
        held(self.0.not_launched(why))
    }

    fn rehearses(&self) -> RehearsedStep {
        self.0.rehearses()
    }

    fn on_step(&mut self, state: &State) -> OnStep {
        self.0.on_step(state)
    }

    fn name(&self) -> Option<&'static str> {
        self.0.name()
    }

    fn expects_ooms(&self) -> bool {
        self.0.expects_ooms()
    }

    fn requeue(&self) -> Option<&NextRun> {
        self.0.requeue()
    }

    fn result(&self) -> Option<String> {
        self.0.result()
    }

    fn conclude(&self, ending: Ending) -> Option<Ending> {
        self.0.conclude(ending)
    }

    fn holds_the_screen(&self) -> bool {
        true
    }
}

fn held(follow_up: FollowUp) -> FollowUp {
    match follow_up {
        FollowUp::Leave(_) => FollowUp::Wait,
        FollowUp::Wait | FollowUp::Launch(..) => follow_up,
    }
}
