//! The driver refused an allocation although far more was free than was requested: what was short is something else than the
//! GPU's memory. The figures alone show it.

use super::finding::{because, with_figures};
use super::oom_context::OomContext;
use super::{Cause, CauseSpec, Certainty, Finding, LittleUse};
use crate::units::Bytes;

pub(super) const CAUSE: CauseSpec = CauseSpec::new("refused by the driver", examine)
    .explains_capacity()
    .ineffective_against(LittleUse::UnlikelyToHelp, "there was room on the GPU");

/// As many times what was requested, and this much beside it, is more than another process gives back in between.
const FAR_ENOUGH: f64 = 2.0;
const PLENTY: Bytes = Bytes::gib(2);

/// Whether there was far more room than was needed, and no limit.
pub(super) fn applies(case: &OomContext) -> bool {
    let enough = |requested: Bytes| requested.scale(FAR_ENOUGH) + PLENTY;
    let plenty = case.free.zip(case.requested);
    case.limit.is_none() && plenty.is_some_and(|(free, requested)| free >= enough(requested))
}

fn examine(case: &OomContext) -> Option<Finding> {
    if !applies(case) {
        return None;
    }
    let (free, asked) = (case.free?, case.asked()?);
    let headline = with_figures(
        "The driver refused although there was room",
        format!("{asked}, {free} free"),
    );
    Some(
        case.finding(Cause::DriverRefused, Certainty::Possible, headline)
            .says("What was short is something else than the GPU's memory, so a smaller batch is unlikely to help.")
            .says_if(case.failed())
            .advises([
                because("what the driver says of it", "dmesg | tail -50"),
                because(
                    "a limit of addresses or of mappings",
                    "ulimit -v; sysctl vm.max_map_count",
                ),
                because(
                    "on Windows a larger page file",
                    "the driver reserves there what it gives on the GPU",
                ),
                "once more: another process may have had the memory for a moment".into(),
            ]),
    )
}
