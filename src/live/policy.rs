//! What follows a run: ask the user, end the session, or launch another run unasked. A policy decides
//! from how the run ended; it has no side effects.

mod ask;
pub(crate) mod auto;
mod exit;
pub(crate) mod fit;
mod hold;

use super::session::NextRun;
use super::{Ending, OnOom};
use crate::command::CommandLine;
use crate::diagnosis::Finding;
use crate::event::Exit;
use crate::probe::RehearsedStep;
use crate::remedy::{Remedy, RemedyInputs};
use crate::state::{Run, State};
use auto::AutoOptions;

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
    /// The program rejected the change that made this run.
    pub change_rejected: bool,
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

    /// Whether it needs the observations of earlier sessions, so that those are read first.
    fn needs_earlier_sessions(&self) -> bool {
        false
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
    Box::new(hold::Hold(policy))
}

/// The policy for `on_oom`; without one the user is asked, if there is a user.
pub(crate) fn chosen(
    on_oom: Option<OnOom>,
    has_person: bool,
    auto: &AutoOptions,
) -> Box<dyn Policy> {
    match (on_oom, has_person) {
        (Some(OnOom::Ask), _) | (None, true) => Box::new(ask::Ask),
        (Some(OnOom::Exit), _) | (None, false) => Box::new(exit::ExitAtOnce),
        (Some(OnOom::Auto), _) => Box::new(auto::Auto::new(auto.clone())),
    }
}
