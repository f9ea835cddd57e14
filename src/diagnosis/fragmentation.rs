//! Fragmentation: PyTorch's cache is large enough but its free pieces are too small, and partly
//! used segments can't be released.

use super::finding::{because, with_figures};
use super::oom_context::OomContext;
use super::unused_block;
use super::{Cause, CauseSpec, Certainty, Finding, Help};
use crate::calibration::EXPANDABLE;
use crate::event::Phase;
use crate::oom::OomKind;
use crate::units::Bytes;

pub(super) const CAUSE: CauseSpec =
    CauseSpec::new("fragmentation", examine).prefers(Help::NoFragmentation);

/// A message's figures are rounded: what is free may be a little less than what was requested though it reads the same.
const ROUNDING: Bytes = Bytes::mib(11);

fn examine(case: &OomContext) -> Option<Finding> {
    let (cached, requested) = (case.cached?, case.requested?);
    let notable = case.cache_is_notable()?;
    let free = case.free.unwrap_or(Bytes::ZERO);
    if case.by_last_sample || cached + free < requested || unused_block::is_unused(case) {
        return None;
    }
    if free > requested + ROUNDING {
        // The device had enough free memory: the request failed for another reason.
        return None;
    }
    let allocated_of = case.allocated.zip(case.capacity);
    if allocated_of.is_some_and(|(allocated, capacity)| allocated > capacity) {
        // Windows has moved some memory to the host: the pieces aren't the GPU's.
        return None;
    }
    if !notable && case.capacity.is_none() {
        return None;
    }
    let expandable = case.expandable_segments();
    let in_pieces = case.largest_free.map(|piece| piece < requested);
    let enough_alone = cached >= requested;
    let certainty = match (notable, enough_alone, in_pieces) {
        (false, _, _) => Certainty::Possible,
        (true, true, Some(true)) if !expandable => Certainty::Certain,
        (true, _, _) => Certainty::Likely,
    };
    let note = match case.kind.is_small_segment(requested) {
        true => " (a small allocation's segment)",
        false => "",
    };
    let asked = format!("the {requested} requested{note}");
    let headline = match (enough_alone, in_pieces) {
        (true, _) => format!(
            "Fragmentation: {cached} is cached by PyTorch, in pieces too small for {asked}."
        )
        .into(),
        (false, _) => with_figures(
            &format!("Fragmentation: {cached} is cached by PyTorch and {free} is free on the GPU"),
            format!("together enough for {asked}"),
        ),
    };
    let inactive = case
        .record()
        .and_then(|record| record.sample.inactive_split);
    let numbers = [
        ("largest free piece", case.largest_free),
        // With expandable segments this is always 0; where it is all that is cached it has been told.
        (
            "fragments",
            inactive.filter(|bytes| !expandable && Some(*bytes) != case.cached),
        ),
        ("recoverable with expandable segments", given_back(case)),
    ];
    let finding =
        case.finding(Cause::Fragmentation, certainty, headline)
            .says_if(
                case.largest_free
                    .map(|piece| format!("The largest free piece is {piece}.")),
            )
            .says_if((!notable).then_some(
                "It is a small part of the reserved memory: the GPU is practically full.",
            ))
            .says_if(in_one_piece(case))
            .says_if(
                given_back(case)
                    .map(|bytes| format!("Expandable segments would recover about {bytes}.")),
            )
            .says_if(private_pools(case))
            .says_if(expandable.then_some("Expandable segments are already on."))
            .shows(numbers.into_iter().filter_map(|(what, n)| Some((what, n?))));
    let first = match expandable || !case.has_expandable_segments() {
        true if case.kind == OomKind::NpuOom => because(
            "expandable segments",
            "PYTORCH_NPU_ALLOC_CONF=expandable_segments:True",
        ),
        true if !expandable && case.is_worded_before_2_1() => because(
            "large blocks that stay whole",
            "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:512; torch 2.1 and later have expandable segments",
        ),
        true => {
            let module = match case.kind {
                OomKind::XpuOom => "xpu",
                OomKind::MpsOom => "mps",
                _ => "cuda",
            };
            because(
                &format!("torch.{module}.empty_cache() between phases with different shapes"),
                "training, evaluation",
            )
        }
        false => because(
            "expandable segments",
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        ),
    };
    let second = match case.phase {
        // Training leaves blocks of its own sizes in the cache.
        Phase::Evaluation => "torch.cuda.empty_cache() between training and evaluation".into(),
        Phase::Load | Phase::Forward | Phase::Backward | Phase::Optimizer | Phase::Unknown => {
            because("fewer distinct input shapes", "pad to a few lengths")
        }
    };
    Some(finding.advises([first, second]))
}

/// What would be left if all free memory could be used.
fn in_one_piece(case: &OomContext) -> Option<String> {
    let (needed, room) = (case.needed()?, case.own_room()? - case.other_processes?);
    let others = case.other_processes.filter(|bytes| *bytes > Bytes::ZERO);
    let words = match (case.capacity, case.sum(case.outside()), others) {
        // The sum that says how full the GPU is.
        (Some(capacity), Some(sum), None) => sum(capacity),
        (_, _, _) => format!("{needed} needed, {room} available"),
    };
    // Where the GPU is nearly full, too, that is told as another finding of the same figures.
    let barely = match case.is_full() {
        Some(true) if case.fits_barely() => "barely ",
        Some(_) | None => "",
    };
    (needed <= room)
        .then(|| format!("Without fragmentation this request would {barely}have fit: {words}."))
}

/// What expandable segments would recover: the whole cache except their own measured overhead.
fn given_back(case: &OomContext) -> Option<Bytes> {
    if case.expandable_segments() || !case.has_expandable_segments() {
        return None;
    }
    let (allocated, cached) = (case.allocated?, case.cached?);
    let back = cached + allocated - allocated.scale(EXPANDABLE.1);
    (back > Bytes::ZERO).then_some(back)
}

fn private_pools(case: &OomContext) -> Option<String> {
    let words = super::private_pools::sentence(case)?;
    Some(format!("{words}. Nothing else can use them."))
}
