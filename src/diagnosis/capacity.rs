//! Capacity: what is allocated plus what was requested does not fit on the device, even without
//! other processes and fragmentation.

use super::case::OomContext;
use super::other_process::{self, NOTABLE_UNNAMED};
use super::sum::Sum;
use super::unexplained::{outside_the_allocator, unexplained, without_figures};
use super::wording::{sentence, with_figures};
use super::{Cause, Certainty, Finding};
use crate::calibration::NON_TORCH_AT_MOST;
use crate::event::Phase;
use crate::forecast::WholeStep;
use crate::oom::{OomKind, OomSource};
use crate::units::Bytes;

/// Up to this share of a forward pass the rest is more than rounding.
const NEARLY_THROUGH: f64 = 0.95;

/// The share of allocated memory from which a part is called most of it.
const MOST: f64 = 0.5;

pub(super) fn examine(case: &OomContext) -> Option<Finding> {
    match (
        case.kind.spec().source,
        case.needed(),
        case.capacity,
        case.requested,
    ) {
        (OomSource::DriverCall, None, _, _) => Some(outside_the_allocator(case)),
        (_, _, Some(capacity), Some(requested)) if requested > capacity => {
            Some(larger_than_the_gpu(case, requested, capacity))
        }
        (_, Some(needed), Some(capacity), _) => compared(case, needed, capacity),
        (_, _, _, _) => Some(without_figures(case)),
    }
}

fn compared(case: &OomContext, needed: Bytes, capacity: Bytes) -> Option<Finding> {
    let allocated = case.allocated?;
    let own_room = case.own_room()?;
    if let Some(whole) = case.far_too_much() {
        return Some(whole_step(case, whole, own_room));
    }
    let (spare, tight) = (case.spare(), case.is_full() == Some(true));
    let done = case
        .record()
        .and_then(|record| record.progress)
        .filter(|share| *share < NEARLY_THROUGH);
    let others_are_why = case.other_processes.unwrap_or(Bytes::ZERO) > NON_TORCH_AT_MOST;
    let fails = match case.phase {
        // Only the model has been loaded.
        Phase::Load => "The model itself does not fit",
        Phase::Forward
        | Phase::Backward
        | Phase::Optimizer
        | Phase::Evaluation
        | Phase::Unknown => "It does not fit",
    };
    let (certainty, opening) = if needed > own_room {
        (Certainty::Certain, fails)
    } else if others_are_why {
        // It would have fit without the other process: that is another finding.
        return None;
    } else if case.limit.is_some_and(|limit| limit < capacity) {
        // Under a cap the GPU's capacity is irrelevant.
        return None;
    } else if spare.is_some_and(|spare| spare < 0) {
        // Exact at that moment, and not enough; but memory of unknown origin may be another
        // process's.
        match case.elsewhere {
            Some(elsewhere) if elsewhere <= NON_TORCH_AT_MOST => (Certainty::Certain, fails),
            Some(elsewhere) if elsewhere <= NON_TORCH_AT_MOST + capacity.scale(NOTABLE_UNNAMED) => {
                (Certainty::Likely, fails)
            }
            Some(_) | None => (Certainty::Possible, fails),
        }
    } else if tight && done.is_some() {
        // More would be needed later in the step.
        (Certainty::Likely, fails)
    } else if tight {
        (
            Certainty::Likely,
            "Would barely fit even without fragmentation",
        )
    } else if case.free.is_none() && case.others.is_none() {
        // Nothing says what else is on the GPU; by the known numbers it should have fit.
        return Some(unexplained(case, needed, capacity));
    } else if spare.is_some_and(|_| case.free > case.requested) {
        return Some(unexplained(case, needed, capacity));
    } else {
        return None;
    };
    let is_mps = case.kind == OomKind::MpsOom;
    let sum = case.sum(match (case.non_pytorch, case.elsewhere) {
        // The sum is too large even without it.
        (_, _) if needed > capacity => None,
        (Some(outside), Some(elsewhere))
            if needed + outside <= capacity && needed + elsewhere > capacity =>
        {
            Some((elsewhere, "used elsewhere"))
        }
        (Some(outside), _) => Some((outside, "non-PyTorch")),
        (None, Some(elsewhere)) => Some((elsewhere, "used elsewhere")),
        (None, None) => None,
    })?;
    // Apple's GPUs share the host's memory, and MPS limits itself to a part of it.
    let allowed = if is_mps { " allowed" } else { "" };
    // What was requested would just have found room, what came after it would not.
    let rest = (certainty == Certainty::Likely && opening == fails)
        .then_some(done)
        .flatten()
        .map_or(String::new(), |share| {
            format!(", with the forward pass {:.0} % done", share * 100.0)
        });
    let headline = with_figures(opening, format!("{}{allowed}{rest}", sum(capacity)));
    // Windows' driver moves what does not fit to the host's memory.
    let spilled = (allocated > capacity).then_some(
        "More is allocated than the GPU has: the driver may have moved memory to the host (Windows).",
    );
    let mut finding = case
        .finding(Cause::Capacity, certainty, headline)
        .says_if((!is_mps).then(|| ruled_out(case)))
        .says_if(spilled)
        .says_if(case.failed())
        .says_if(done.map(|share| {
            let percent = share * 100.0;
            format!("The forward pass was {percent:.0} % done; the rest needed more.")
        }))
        .says_if(made_of(case, allocated))
        .says_if(case.caveat());
    if let (Some(structure), Some(other)) = (case.structure, case.unnamed()) {
        finding = finding.shows([
            ("parameters", structure.parameters),
            ("gradients", structure.gradients),
            ("optimizer state", structure.optimizer_state),
            ("activations + other", other),
        ]);
    }
    finding.advice = super::advice::advice(case);
    Some(finding)
}

/// The step was rehearsed, so the need of the whole step is known, not only what it had allocated.
fn whole_step(case: &OomContext, whole: WholeStep, room: Bytes) -> Finding {
    let named = [
        ("activations", whole.activations),
        ("parameters", whole.parameters),
        ("gradients", whole.gradients),
        ("optimizer state", whole.optimizer),
        ("other", whole.other),
    ];
    let parts: Vec<(&str, Bytes)> = named
        .into_iter()
        .filter(|(_, n)| *n > Bytes::ZERO)
        .collect();
    let summands: Vec<(Bytes, &str)> = parts.iter().map(|(name, n)| (*n, *name)).collect();
    let sum = Sum(&summands).against(room);
    let headline = with_figures("The whole step does not fit", sum);
    let mut finding = case
        .finding(Cause::Capacity, Certainty::Certain, headline)
        .says_if(
            case.allocated
                .zip(case.asked())
                .map(|(allocated, asked)| format!("It failed at {allocated} allocated + {asked}.")),
        )
        .says_if(case.failed())
        .says("Rehearsed: the step's allocations, computed without running it.")
        .shows(parts);
    finding.advice = super::advice::advice(case);
    finding
}

/// "Only 7 MiB is cached, so this is not fragmentation; no other process is on the GPU."
fn ruled_out(case: &OomContext) -> String {
    let fragments = match (case.cached, case.requested) {
        (Some(cached), Some(requested)) => {
            let with_free = cached + case.free.unwrap_or(Bytes::ZERO);
            if with_free < requested {
                format!("only {cached} is cached, so this is not fragmentation")
            } else {
                format!("{cached} is cached")
            }
        }
        (_, _) => "the size of the cache is unknown".into(),
    };
    sentence(&format!("{fragments}; {}", other_process::clause(case)))
}

fn made_of(case: &OomContext, allocated: Bytes) -> Option<String> {
    if case.phase == Phase::Load {
        return None;
    }
    let (structure, unnamed) = (case.structure?, case.unnamed()?);
    let baseline = structure.total();
    if unnamed.fraction_of(allocated)? >= MOST {
        return Some(format!(
            "{unnamed} of it is activations and other tensors that grow with the batch."
        ));
    }
    Some(format!(
        "{baseline} of it is parameters, gradients and optimizer state, which a smaller batch does not reduce."
    ))
}

fn larger_than_the_gpu(case: &OomContext, requested: Bytes, capacity: Bytes) -> Finding {
    let one = format!("One allocation of {requested} is more than the GPU has");
    let headline = with_figures(&one, capacity.to_string());
    case.finding(Cause::Capacity, Certainty::Certain, headline)
        .says("It would fail on an empty GPU too.")
        .advises(["check the size of the tensor at that line"])
}
