//! What is known of each remedy before it meets a command: one row each.
//!
//! A new remedy is a row here and a file of its own that drafts its edits.

use super::plan::{Alteration, RemedyId};

/// What a remedy does to the memory that the run needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemedyEffect {
    /// Less is allocated.
    LessAllocated,
    /// As much is allocated with less fragmentation.
    LessFragmentation,
    /// As much is allocated where or when more is free.
    MoreFree,
    /// The device's memory stays as it is.
    None,
}

/// How a remedy is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemedyAction {
    /// By edits of the command, its environment or a patch at runtime.
    Edit,
    /// By something that is done before the next run.
    Act,
}

/// How it is said what the next run needs with a remedy alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NeedFrom {
    /// By the forecast of the whole step.
    Forecast,
    /// The same where the forecast knows a need; the remedy's own words otherwise.
    ForecastIfKnown,
    /// By the allocation that failed alone.
    FailedAllocation,
    /// By the remedy's own words.
    Itself,
}

/// A remedy's row.
#[derive(Debug)]
pub struct RemedySpec {
    /// Its key in the dialog.
    pub key: char,
    /// Its name: "smaller batch".
    pub title: &'static str,
    /// What it does to memory.
    pub effect: RemedyEffect,
    /// What it changes in the training by its nature. A batch says itself whether it does.
    pub alters: Option<Alteration>,
    /// How it is carried out.
    pub action: RemedyAction,
    /// Where its need comes from.
    pub need: NeedFrom,
}

const fn row(
    key: char,
    title: &'static str,
    effect: RemedyEffect,
    alters: Option<Alteration>,
    action: RemedyAction,
    need: NeedFrom,
) -> RemedySpec {
    RemedySpec {
        key,
        title,
        effect,
        alters,
        action,
        need,
    }
}

use Alteration::{Precision, Recomputation};
use NeedFrom::{FailedAllocation, Forecast, ForecastIfKnown, Itself};
use RemedyAction::{Act, Edit};
use RemedyEffect::{LessAllocated, LessFragmentation, MoreFree};

/// The rows, in the order of [`RemedyId`].
#[rustfmt::skip]
static SPECS: [(RemedyId, RemedySpec); 11] = [
    (RemedyId::Batch, row('b', "smaller batch", LessAllocated, None, Edit, Forecast)),
    (RemedyId::ExpandableSegments, row('e', "expandable segments", LessFragmentation, None, Edit, Forecast)),
    (RemedyId::Amp, row('a', "mixed precision", LessAllocated, Some(Precision), Edit, Forecast)),
    (RemedyId::Recompute, row('r', "recomputation", LessAllocated, Some(Recomputation), Edit, ForecastIfKnown)),
    (RemedyId::Device, row('g', "another GPU", MoreFree, None, Edit, Itself)),
    (RemedyId::Resume, row('c', "resume", RemedyEffect::None, None, Edit, Itself)),
    (RemedyId::MaxSplitSize, row('m', "largest split", LessFragmentation, None, Edit, FailedAllocation)),
    (RemedyId::DataloaderWorkers, row('l', "fewer loaders", RemedyEffect::None, None, Edit, Itself)),
    (RemedyId::Wait, row('w', "wait", MoreFree, None, Act, Itself)),
    (RemedyId::StopLeftover, row('s', "stop the leftover", MoreFree, None, Act, Itself)),
    (RemedyId::Without, row('u', "without it", RemedyEffect::None, None, Act, Itself)),
];

impl RemedyId {
    /// Its row.
    pub fn spec(self) -> &'static RemedySpec {
        &SPECS[self as usize].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_stands_at_its_remedys_place_and_has_a_key_of_its_own() {
        for (at, (id, spec)) in SPECS.iter().enumerate() {
            assert_eq!(*id as usize, at);
            assert_eq!(
                SPECS
                    .iter()
                    .filter(|(_, other)| other.key == spec.key)
                    .count(),
                1
            );
        }
    }
}
