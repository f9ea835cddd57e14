//! `--on-oom ask`: the dialog opens, and nothing runs until a person chooses.

use super::{FollowUp, Policy, RunSummary};
use crate::state::RunOutcome;

pub(super) struct Ask;

impl Policy for Ask {
    fn after_run(&mut self, run: &RunSummary<'_>) -> FollowUp {
        let has_choice = run.change_rejected || run.run.outcome() == RunOutcome::OutOfMemory;
        match has_choice && run.can_wait {
            true => FollowUp::Wait,
            false => FollowUp::Leave(None),
        }
    }
}
