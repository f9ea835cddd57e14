//! Workers that end with their epoch, if the host's memory ran out: those of the training no longer wait while those of an
//! evaluation work, and what they have piled up goes with them.

use super::loader::{compared, is_of_host};
use super::plan::Expectation;
use super::proposal::{Draft, Offering, Proposal};
use super::ram::RamAtOom;
use super::{NeedFrom, RemedyEffect, RemedyId, RemedySpec};
use crate::diagnosis::Help;
use crate::event::Patch;
use crate::recognize::family::LoaderFlag;

pub(super) const REMEDY: RemedySpec = RemedySpec {
    comes_before: Some((Help::LessHostMemory, RemedyId::Wait)),
    of_loader: Some(|before, now| {
        let stays = |loader: &crate::event::LoaderSettings| Some(u32::from(loader.persistent));
        compared("DataLoaders that keep their workers", stays, before, now)
    }),
    ..RemedySpec::new(
        't',
        "no persistent workers",
        RemedyEffect::None,
        NeedFrom::Itself,
        propose,
    )
};

fn without(offering: &Offering<'_>) -> Result<Draft, String> {
    offering.off_in_loader(
        LoaderFlag::Persistent,
        "persistent_workers",
        |loader| match loader.persistent {
            true => Ok((
                Patch::PersistentWorkers,
                "DataLoader persistent_workers True→False".to_string(),
            )),
            false => Err("no DataLoader keeps its workers".into()),
        },
    )
}

fn propose(offering: &Offering<'_>) -> Option<Proposal> {
    is_of_host(offering.inputs.cause()).then(|| {
        let cost = [
            "same numerics in the first epoch, other random numbers from the second on",
            "each epoch starts its workers",
        ];
        let expectation = (RamAtOom::of(offering.inputs))
            .and_then(|ram| ram.without_waiting_workers())
            .unwrap_or_else(|| Expectation::unknown("workers end with their epoch"));
        Proposal::new(without(offering), cost).expecting(expectation)
    })
}
