//! `--hold`: where the session would end, its last screen stays until a person quits.

use super::{FollowUp, OnStep, Policy, RunSummary};
use crate::live::Ending;
use crate::probe::RehearsedStep;
use crate::state::State;

/// Any policy, but for its end.
pub(super) struct Hold(pub(super) Box<dyn Policy>);

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

    fn needs_earlier_sessions(&self) -> bool {
        self.0.needs_earlier_sessions()
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
