//! What is known of each remedy before it meets a command: one row each.
//!
//! A new remedy is a row here, its [`RemedyId`], and a file of its own that proposes it.

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

/// Reads a run's first message, and the device that ran out of memory before.
type EffectCheck = fn(&Hello, Option<&Uuid>) -> Option<String>;

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
    /// Where it stands among the remedies, the lowest first.
    pub(super) place: u8,
    /// Where it stands instead if the cause prefers this help.
    pub(super) earlier: Option<(Help, u8)>,
    /// What it makes of a command; `None` where it has no place in the list at all.
    pub(super) propose: fn(&Offering<'_>) -> Option<Proposal>,
    /// Says from the new run's first message that it did not take effect.
    pub(super) verify: Option<EffectCheck>,
    /// What a program or library may reject of it, beside its arguments.
    pub(super) rejects: Option<RejectedThing>,
}

/// A row with nothing of its own.
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

/// The rows, in the order of [`RemedyId`].
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
    /// All of them.
    pub(super) fn all() -> impl Iterator<Item = RemedyId> {
        SPECS.iter().map(|(id, _)| *id)
    }

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
