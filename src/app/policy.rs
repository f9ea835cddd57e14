//! What follows a run: a person is asked, the session ends, or another run is launched unasked.
//! Policies are told how the run ended; they start, draw and order nothing.

mod ask;
pub(super) mod auto;
mod exit;
pub(super) mod fit;
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

/// A run that has ended and settled, and all that can be done about it.
pub(super) struct RunSummary<'a> {
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
    /// A dialog can wait: somebody sees it, or can attach to see it.
    pub can_wait: bool,
}

/// What is to happen now.
#[derive(Debug)]
pub(super) enum FollowUp {
    /// Nothing runs until a person chooses.
    Wait,
    /// The session ends; why, where that is to be said.
    Leave(Option<String>),
    /// This runs next; why, in words.
    Launch(Box<NextRun>, String),
}

/// What a step of a run brings about.
#[derive(Debug)]
pub(super) enum OnStep {
    /// The user may want a hint.
    Hint,
    Nothing,
    /// The run has shown enough and is stopped; why, in words.
    Stop(String),
}

/// What follows a run.
pub(super) trait Policy {
    fn after_run(&mut self, run: &RunSummary<'_>) -> FollowUp;

    /// The next run could not be launched.
    fn not_launched(&mut self, _why: &str) -> FollowUp {
        FollowUp::Wait
    }

    /// Which step of its runs says what another run would need.
    fn rehearses(&self) -> RehearsedStep {
        RehearsedStep::OutOfMemory
    }

    /// Whether it decides by what earlier sessions showed, so that those are read first.
    fn needs_earlier_sessions(&self) -> bool {
        false
    }

    fn on_step(&mut self, _state: &State) -> OnStep {
        OnStep::Hint
    }

    /// The name of a policy that acts unasked and says what it does.
    fn name(&self) -> Option<&'static str> {
        None
    }

    /// Says what the whole session was for, in place of last words, and how it then ends.
    fn conclude(&self, _ending: Ending) -> Option<Ending> {
        None
    }

    /// Whether the last screen stays when the session would end, as long as somebody sees it.
    fn holds_the_screen(&self) -> bool {
        false
    }
}

/// The same policy, but its last screen stays until a person quits.
pub(super) fn holding(policy: Box<dyn Policy>) -> Box<dyn Policy> {
    Box::new(hold::Hold(policy))
}

/// The policy for what `on_oom` says; where it says nothing, a person is asked if there is one.
pub(super) fn chosen(
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
