//! Ranks of the same training on one GPU: a whole rank by mistake, or only the CUDA contexts of the others, which a load
//! without `map_location` or a missing `set_device` makes on GPU 0.

use super::foreign_process;
use super::oom_context::OomContext;
use super::{Cause, CauseSpec, Finding};

pub(super) const CAUSE: CauseSpec = CauseSpec::new("ranks of this training on one GPU", examine);

fn examine(case: &OomContext) -> Option<Finding> {
    foreign_process::named(case).filter(|finding| finding.cause == Cause::OwnRanks)
}
