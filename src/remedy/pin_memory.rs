//! No pinned memory for batches, if the host's memory ran out: pinned pages are never given back, and a second copy.

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
        let pins = |loader: &crate::event::LoaderSettings| Some(u32::from(loader.pin_memory));
        compared("DataLoaders that pin memory", pins, before, now)
    }),
    ..RemedySpec::new(
        'p',
        "no pinned memory",
        RemedyEffect::None,
        NeedFrom::Itself,
        propose,
    )
};

fn without(offering: &Offering<'_>) -> Result<Draft, String> {
    offering.off_in_loader(LoaderFlag::PinMemory, "pin_memory", |loader| {
        match loader.pin_memory {
            true => Ok((
                Patch::PinMemory,
                "DataLoader pin_memory True→False".to_string(),
            )),
            false => Err("no DataLoader pins memory".into()),
        }
    })
}

fn propose(offering: &Offering<'_>) -> Option<Proposal> {
    is_of_host(offering.inputs.cause()).then(|| {
        let cost = ["same numerics", "copies to the GPU become slower"];
        let expectation = (RamAtOom::of(offering.inputs))
            .and_then(|ram| ram.without_pinned())
            .unwrap_or_else(|| Expectation::unknown("batches are not copied into pinned memory"));
        Proposal::new(without(offering), cost).expecting(expectation)
    })
}
