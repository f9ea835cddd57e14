//! What is known of each remedy before it is applied to a command.
//!
//! To add a remedy: the recipe in `src/README.md`.

use super::effect::{NeedFrom, RemedyAction, RemedyEffect};
use super::plan::{Alteration, RemedyId};
use super::proposal::{Offering, Proposal};
use super::rejected::RejectedThing;
use super::{
    amp, batch, checkpointing, device, expandable_segments, max_split_size, resume, stop_leftover,
    wait, workers,
};
use crate::diagnosis::Help;
use crate::event::Hello;
use crate::units::Uuid;

/// Reads the first message of a run's probe; the second argument is the device that ran out of
/// memory before.
type EffectCheck = fn(&Hello, Option<&Uuid>) -> Option<String>;

#[derive(Debug)]
pub struct RemedySpec {
    /// Its key in the dialog.
    pub key: char,
    /// For display: "smaller batch".
    pub title: &'static str,
    pub effect: RemedyEffect,
    /// What it always changes in the training. A batch decides for itself.
    pub alters: Option<Alteration>,
    pub action: RemedyAction,
    pub need: NeedFrom,
    /// Its rank among the remedies, lowest first.
    pub(super) place: u8,
    /// Its rank if the cause prefers this kind of help.
    pub(super) earlier: Option<(Help, u8)>,
    /// What it does to a command; `None` to leave it out of the list.
    pub(super) propose: fn(&Offering<'_>) -> Option<Proposal>,
    /// Checks the new run's first message, and says if the remedy did not take effect.
    pub(super) verify: Option<EffectCheck>,
    /// What a program or library may reject, apart from its arguments.
    pub(super) rejects: Option<RejectedThing>,
}

/// The defaults of a row.
const PLAIN: RemedySpec = RemedySpec {
    key: ' ',
    title: "",
    effect: RemedyEffect::None,
    alters: None,
    action: RemedyAction::Edit,
    need: NeedFrom::Itself,
    place: 0,
    earlier: None,
    propose: |_| None,
    verify: None,
    rejects: None,
};

use Alteration::{Precision, Recomputation};
use Help::{AnotherDevice, LessHostMemory, NoFragmentation};
use NeedFrom::{FailedAllocation, Forecast, ForecastIfKnown};
use RejectedThing::{Allocator, Checkpoint};
use RemedyAction::Act;
use RemedyEffect::{LessAllocated, LessFragmentation, MoreFree};

/// In the order of [`RemedyId`].
#[rustfmt::skip]
static SPECS: &[(RemedyId, RemedySpec)] = &[
    (RemedyId::Batch, RemedySpec { key: 'b', title: "smaller batch", effect: LessAllocated, need: Forecast, place: 7, propose: batch::propose, ..PLAIN }),
    (RemedyId::ExpandableSegments, RemedySpec { key: 'e', title: "expandable segments", effect: LessFragmentation, need: Forecast, place: 8, earlier: Some((NoFragmentation, 5)), propose: expandable_segments::propose, verify: Some(expandable_segments::verify), rejects: Some(Allocator), ..PLAIN }),
    (RemedyId::Amp, RemedySpec { key: 'a', title: "mixed precision", effect: LessAllocated, alters: Some(Precision), need: Forecast, place: 10, propose: amp::propose, rejects: Some(RejectedThing::Precision), ..PLAIN }),
    (RemedyId::Recompute, RemedySpec { key: 'r', title: "activation checkpointing", effect: LessAllocated, alters: Some(Recomputation), need: ForecastIfKnown, place: 9, propose: checkpointing::propose, ..PLAIN }),
    (RemedyId::Device, RemedySpec { key: 'g', title: "another GPU", effect: MoreFree, place: 12, earlier: Some((AnotherDevice, 3)), propose: device::propose, verify: Some(device::verify), ..PLAIN }),
    (RemedyId::Resume, RemedySpec { key: 'c', title: "resume", place: 14, propose: resume::propose, rejects: Some(Checkpoint), ..PLAIN }),
    (RemedyId::MaxSplitSize, RemedySpec { key: 'm', title: "max split size", effect: LessFragmentation, need: FailedAllocation, place: 11, earlier: Some((NoFragmentation, 6)), propose: max_split_size::propose, verify: Some(max_split_size::verify), rejects: Some(Allocator), ..PLAIN }),
    (RemedyId::DataloaderWorkers, RemedySpec { key: 'l', title: "fewer DataLoader workers", place: 13, earlier: Some((LessHostMemory, 2)), propose: workers::propose, ..PLAIN }),
    (RemedyId::Wait, RemedySpec { key: 'w', title: "wait", effect: MoreFree, action: Act, place: 4, propose: wait::propose, ..PLAIN }),
    (RemedyId::StopLeftover, RemedySpec { key: 's', title: "stop leftover processes", effect: MoreFree, action: Act, place: 1, propose: stop_leftover::propose, ..PLAIN }),
    (RemedyId::Without, RemedySpec { key: 'u', title: "undo the change", action: Act, ..PLAIN }),
];

impl RemedyId {
    pub fn all() -> impl Iterator<Item = RemedyId> {
        SPECS.iter().map(|(id, _)| *id)
    }

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
