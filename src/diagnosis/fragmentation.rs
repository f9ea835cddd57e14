//! Fragmentation: the allocator holds enough that no tensor uses, but no piece of it is large
//! enough, and what lies in partly used segments cannot be given back.

use super::case::{Case, number, text};
use super::{Cause, Certainty, Finding};
use crate::measured::EXPANDABLE;
use crate::units::Bytes;

pub(super) fn examine(case: &Case) -> Option<Finding> {
    let (unallocated, requested) = (case.unallocated?, case.requested?);
    let notable = case.cache_is_notable()?;
    let free = case.free.unwrap_or(Bytes::ZERO);
    if case.by_last_sample || (unallocated < requested && unallocated + free < requested) {
        return None;
    }
    if free >= requested {
        // The device had room: it was refused for another reason.
        return None;
    }
    if case
        .allocated
        .zip(case.capacity)
        .is_some_and(|(allocated, capacity)| allocated > capacity)
    {
        // Windows has moved some of it to the host: the pieces are not the GPU's.
        return None;
    }
    if !notable && case.capacity.is_none() {
        return None;
    }
    let expandable = case.expandable_segments();
    let in_pieces = case.largest_free.map(|piece| piece < requested);
    let enough_alone = unallocated >= requested;
    let certainty = match (notable, enough_alone, in_pieces) {
        (false, _, _) => Certainty::Possible,
        (true, true, Some(true)) if expandable != Some(true) => Certainty::Certain,
        (true, true, Some(true)) => Certainty::Likely,
        (true, true, None | Some(false)) | (true, false, _) => Certainty::Likely,
    };
    let small = case.kind.is_small_segment(requested);
    let note = if small {
        " (a small allocation's segment)"
    } else {
        ""
    };
    let asked = format!("the {requested} requested{note}");
    let headline = match (enough_alone, in_pieces) {
        (true, Some(false)) => {
            format!("{unallocated} is cached by PyTorch, but not usable for {asked}.")
        }
        (true, Some(true) | None) => {
            format!("{unallocated} is cached by PyTorch, but in pieces too small for {asked}.")
        }
        (false, _) => format!(
            "{unallocated} is cached by PyTorch and {free} is free on the GPU: together enough for {asked}."
        ),
    };
    let mut finding = case.finding(Cause::Fragmentation, certainty, headline);
    finding.explanation = text([
        case.largest_free.map(|piece| {
            if piece < requested {
                format!("The largest free piece is {piece}.")
            } else {
                format!(
                    "The largest free piece is {piece}, but it belongs to another stream or pool."
                )
            }
        }),
        (!notable)
            .then(|| "It is a small part of what is reserved: the GPU is practically full.".into()),
        in_one_piece(case),
        given_back(case).map(|bytes| format!("Expandable segments would give back about {bytes}.")),
        private_pools(case),
        match expandable {
            Some(true) => Some("Expandable segments are already on.".into()),
            Some(false) | None => None,
        },
    ]);
    finding.evidence = case.evidence();
    if let Some(piece) = case.largest_free {
        finding.evidence.push(number("largest free piece", piece));
    }
    let inactive = case
        .oom
        .record
        .as_ref()
        .and_then(|record| record.sample.inactive_split);
    // With expandable segments the figure is 0 always and says nothing.
    if let Some(inactive) = inactive.filter(|_| expandable != Some(true)) {
        finding.evidence.push(number("inactive split", inactive));
    }
    if let Some(bytes) = given_back(case) {
        finding
            .evidence
            .push(number("expandable segments would give back", bytes));
    }
    finding.advice = match expandable {
        Some(true) => vec![
            "torch.cuda.empty_cache() between phases of different shape (training, evaluation)"
                .into(),
            "inputs of fewer different shapes (padding to a few lengths)".into(),
        ],
        Some(false) | None => vec![
            "expandable segments (PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True)".into(),
            "inputs of fewer different shapes (padding to a few lengths)".into(),
        ],
    };
    Some(finding)
}

/// What would be left if every free piece could be used.
fn in_one_piece(case: &Case) -> Option<String> {
    let (needed, room) = (case.needed()?, case.own_room()? - case.foreign?);
    (needed <= room)
        .then(|| format!("Would fit without fragmentation: {needed} needed, {room} available."))
}

/// What an allocator with expandable segments would not hold: all that is unallocated but the little
/// that it was measured to need itself.
fn given_back(case: &Case) -> Option<Bytes> {
    if case.expandable_segments() == Some(true) {
        return None;
    }
    let (allocated, unallocated) = (case.allocated?, case.unallocated?);
    let back = unallocated + allocated - allocated.scale(EXPANDABLE.1);
    (back > Bytes::ZERO).then_some(back)
}

fn private_pools(case: &Case) -> Option<String> {
    let pooled = case.oom.report.as_ref()?.private_pools?;
    Some(format!(
        "{pooled} are in private pools (CUDA graphs), which nothing else can use."
    ))
}
