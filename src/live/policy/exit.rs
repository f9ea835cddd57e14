//! `--on-oom exit`: prints the diagnosis and exits as the run did.

use super::{FollowUp, Policy, RunSummary};
use crate::probe::RehearsedStep;

pub(super) struct ExitAtOnce;

impl Policy for ExitAtOnce {
    fn after_run(&mut self, _run: &RunSummary<'_>) -> FollowUp {
        FollowUp::Leave(None)
    }

    fn rehearses(&self) -> RehearsedStep {
        RehearsedStep::No
    }
}
