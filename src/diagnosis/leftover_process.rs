//! A worker or rank of an earlier run of the same command that is still alive and keeps its memory.

use super::foreign_process;
use super::oom_context::OomContext;
use super::{Cause, CauseSpec, Finding, Help};

pub(super) const CAUSE: CauseSpec =
    CauseSpec::new("left over from an earlier run", examine).prefers(Help::AnotherDevice);

fn examine(case: &OomContext) -> Option<Finding> {
    foreign_process::named(case).filter(|finding| finding.cause == Cause::LeftoverProcess)
}
