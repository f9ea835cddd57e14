//! Capacity: what is allocated and what was asked for do not fit on the device together, whoever
//! else is there and however well the pieces were laid.
//!
//! It is also the rule that speaks when the figures are missing, or explain nothing: then it says
//! that, and no more.

use super::case::{Case, number, text};
use super::other_process::{self, NOTABLE_UNNAMED};
use super::{Cause, Certainty, Evidence, Finding};
use crate::event::{Phase, Structure};
use crate::measured::NON_TORCH_AT_MOST;
use crate::oom::{OomKind, OomSource};
use crate::units::Bytes;

/// The share of the GPU from which PyTorch's own cache is why a library found no memory.
const NEARLY_ALL: f64 = 0.8;

/// Up to this share of a forward what is still to come is more than rounding.
const NEARLY_THROUGH: f64 = 0.95;

/// The share of what is allocated from which a part is called the most of it.
const MOST: f64 = 0.5;

pub(super) fn examine(case: &Case) -> Option<Finding> {
    match (
        case.kind.spec().source,
        case.needed(),
        case.capacity,
        case.requested,
    ) {
        (OomSource::DriverCall, None, _, _) => Some(outside_the_allocator(case)),
        (_, _, Some(capacity), Some(requested)) if requested > capacity => {
            Some(larger_than_the_card(case, requested, capacity))
        }
        (_, Some(needed), Some(capacity), _) => compared(case, needed, capacity),
        (_, _, _, _) => Some(without_figures(case)),
    }
}

fn compared(case: &Case, needed: Bytes, capacity: Bytes) -> Option<Finding> {
    let (allocated, asked) = (case.allocated?, case.asked()?);
    let own_room = case.own_room()?;
    let (spare, tight) = (case.spare(), case.is_full() == Some(true));
    let come_to = (case.oom.record.as_ref())
        .and_then(|record| record.progress)
        .filter(|share| *share < NEARLY_THROUGH);
    let others_are_why = other_process::held(case) > NON_TORCH_AT_MOST;
    let fails = match case.phase {
        // Nothing but the model is there yet.
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
        // With the GPU to itself it would have fitted: that is the other process's finding.
        return None;
    } else if case.limit.is_some_and(|limit| limit < capacity) {
        // Under a cap the GPU's capacity decides nothing.
        return None;
    } else if spare.is_some_and(|spare| spare < 0) {
        // Exact at that moment, and not enough; if it is not known who has the rest, it may be
        // another process.
        match case.elsewhere() {
            Some(elsewhere) if elsewhere <= NON_TORCH_AT_MOST => (Certainty::Certain, fails),
            Some(elsewhere) if elsewhere <= NON_TORCH_AT_MOST + capacity.scale(NOTABLE_UNNAMED) => {
                (Certainty::Likely, fails)
            }
            Some(_) | None => (Certainty::Possible, fails),
        }
    } else if tight && come_to.is_some() {
        // What is missing now is the least of it.
        (Certainty::Likely, fails)
    } else if tight {
        (
            Certainty::Likely,
            "Would barely fit even without fragmentation",
        )
    } else if case.free.is_none() && case.others.is_none() {
        // Nothing says what else is on the GPU; by what is known it should have fitted.
        return Some(unexplained(case, needed, capacity));
    } else if spare.is_some_and(|_| case.free > case.requested) {
        return Some(unexplained(case, needed, capacity));
    } else {
        return None;
    };
    let outside = match (case.non_pytorch, case.elsewhere()) {
        // Without it the sum is too much already.
        (_, _) if needed > capacity => String::new(),
        (Some(outside), _) => format!(" + {outside} outside PyTorch"),
        (None, Some(elsewhere)) => format!(" + {elsewhere} used elsewhere"),
        (None, None) => String::new(),
    };
    let mut finding = case.finding(
        Cause::Capacity,
        certainty,
        if case.kind == OomKind::MpsOom {
            // Apple's GPUs share the host's memory; MPS allows itself a part of it.
            format!("{opening}: {allocated} allocated + {asked}, {capacity} allowed.")
        } else {
            format!("{opening}: {allocated} allocated + {asked}{outside}, {capacity} on the GPU.")
        },
    );
    finding.explanation = text([
        (case.kind != OomKind::MpsOom).then(|| ruled_out(case)),
        spilled(allocated, capacity),
        case.place()
            .map(|place| sentence(&format!("failed {place}"))),
        come_to.map(|share| {
            format!(
                "The forward pass was {:.0} % done; the rest needed more.",
                share * 100.0
            )
        }),
        made_of(case, allocated),
        case.caveat(),
    ]);
    finding.evidence = case.evidence();
    finding.evidence.extend(parts(case));
    finding.advice = super::advice::advice(case);
    Some(finding)
}

/// "0.3 GiB lies unallocated, so it is not fragmentation; no other process is on the GPU."
fn ruled_out(case: &Case) -> String {
    let fragments = match (case.unallocated, case.requested) {
        (Some(unallocated), Some(requested)) => {
            let with_free = unallocated + case.free.unwrap_or(Bytes::ZERO);
            if with_free < requested {
                format!("only {unallocated} is cached, so this is not fragmentation")
            } else {
                format!("{unallocated} is cached")
            }
        }
        (_, _) => "how much is cached is not known".into(),
    };
    sentence(&format!("{fragments}; {}", other_process::sentence(case)))
}

/// More allocated than there is: Windows' driver moves what does not fit to the host's memory.
fn spilled(allocated: Bytes, capacity: Bytes) -> Option<String> {
    (allocated > capacity).then(|| {
        "More is allocated than the GPU has, as where the driver moves memory to the host's \
         (Windows)."
            .into()
    })
}

fn made_of(case: &Case, allocated: Bytes) -> Option<String> {
    if case.phase == Phase::Load {
        return None;
    }
    let (structure, unnamed) = (case.structure?, case.unnamed()?);
    let baseline = kept(structure);
    if unnamed.fraction_of(allocated)? >= MOST {
        return Some(format!(
            "{unnamed} of it are activations and other tensors that grow with the batch."
        ));
    }
    Some(format!(
        "{baseline} of it are parameters, gradients and optimizer state, which a smaller batch does not reduce."
    ))
}

/// What is allocated, by what it is.
fn parts(case: &Case) -> Vec<Evidence> {
    let (Some(structure), Some(rest)) = (case.structure, case.unnamed()) else {
        return Vec::new();
    };
    vec![
        number("parameters", structure.parameters),
        number("gradients", structure.gradients),
        number("optimizer state", structure.optimizer_state),
        number("activations + other", rest),
    ]
}

fn kept(structure: &Structure) -> Bytes {
    structure.parameters + structure.gradients + structure.optimizer_state
}

fn larger_than_the_card(case: &Case, requested: Bytes, capacity: Bytes) -> Finding {
    let mut finding = case.finding(
        Cause::Capacity,
        Certainty::Certain,
        format!("One allocation of {requested} is more than the GPU has: {capacity}."),
    );
    finding.explanation = "Nothing else had to be on the GPU for that.".into();
    finding.evidence = case.evidence();
    finding.advice = vec!["look at the sizes of the tensor at that line".into()];
    finding
}

/// A library beside PyTorch (or PyTorch itself, where its message failed) found no memory.
fn outside_the_allocator(case: &Case) -> Finding {
    if case.kind == OomKind::NvmlAssert {
        return message_lost(case);
    }
    let who = case.kind.spec().component;
    let share = case
        .reserved
        .zip(case.capacity)
        .and_then(|(reserved, capacity)| reserved.fraction_of(capacity));
    let mut finding = match (share, case.reserved, case.capacity) {
        (Some(share), Some(reserved), Some(capacity)) if share >= NEARLY_ALL => case.finding(
            Cause::Capacity,
            Certainty::Likely,
            format!(
                "PyTorch had reserved {reserved} of {capacity} which left too little for {who}."
            ),
        ),
        (_, _, _) => case.finding(
            Cause::Capacity,
            Certainty::Possible,
            format!("{who} found no memory on the GPU; its message has no figures."),
        ),
    };
    finding.explanation = text([
        Some("The allocation that failed was outside PyTorch's allocator.".into()),
        Some(sentence(&other_process::sentence(case))),
        case.caveat(),
    ]);
    finding.evidence = case.evidence();
    finding.advice = vec![
        "a smaller batch".into(),
        "leave room beside PyTorch: torch.cuda.set_per_process_memory_fraction(0.9)".into(),
    ];
    finding
}

/// torch 2.1 to 2.12 may fail on NVML while the message of an out-of-memory is put together.
fn message_lost(case: &Case) -> Finding {
    let headline = match (case.allocated, case.capacity) {
        (Some(allocated), Some(capacity)) => {
            format!("PyTorch ran out of memory: {allocated} allocated, {capacity} on the GPU.")
        }
        (_, _) => "PyTorch ran out of memory.".into(),
    };
    let mut finding = case.finding(Cause::Capacity, Certainty::Possible, headline);
    finding.explanation = text([
        Some("It failed on NVML while it put its message together, so that the message and its figures are lost.".into()),
        Some(sentence(&other_process::sentence(case))),
        case.caveat(),
    ]);
    finding.evidence = case.evidence();
    finding.advice = vec!["a smaller batch".into()];
    finding
}

/// vLLM looks at what the weights and one trial run leave for its cache of keys and values.
fn no_room_for_the_cache(case: &Case) -> Finding {
    let headline = "vLLM found too little memory left for its cache of keys and values.";
    let mut finding = case.finding(Cause::Capacity, Certainty::Likely, headline.into());
    finding.explanation = text([
        Some(
            "It takes a set share of the GPU for weights, activations and this cache together."
                .into(),
        ),
        Some(sentence(&other_process::sentence(case))),
    ]);
    finding.evidence = case.evidence();
    finding.advice = vec![
        "a larger share of the GPU (--gpu-memory-utilization), where nobody else is on it".into(),
        "shorter requests (--max-model-len)".into(),
        "quantized weights, or more GPUs (--tensor-parallel-size)".into(),
    ];
    finding
}

fn without_figures(case: &Case) -> Finding {
    if case.kind == OomKind::Vllm {
        return no_room_for_the_cache(case);
    }
    let wanted = match case.asked() {
        Some(asked) => format!("It ran out of memory: {asked}."),
        None => "It ran out of memory.".into(),
    };
    let missing: Vec<&str> = [
        ("what was requested", case.requested),
        ("what was allocated", case.allocated),
        ("the GPU's capacity", case.capacity),
    ]
    .into_iter()
    .filter(|(_, bytes)| bytes.is_none())
    .map(|(what, _)| what)
    .collect();
    let mut finding = case.finding(Cause::Capacity, Certainty::Possible, wanted);
    finding.explanation = text([
        Some(sentence(&format!(
            "{} {} not known, so that the cause cannot be told",
            missing.join(" and "),
            if missing.len() > 1 { "are" } else { "is" }
        ))),
        case.place()
            .map(|place| sentence(&format!("failed {place}"))),
    ]);
    finding.evidence = case.evidence();
    finding.advice = vec!["a smaller batch".into()];
    finding
}

/// What is said where no rule has anything to say.
pub(super) fn nothing_else(case: &Case) -> Finding {
    match case.needed().zip(case.capacity) {
        Some((needed, capacity)) => unexplained(case, needed, capacity),
        None => without_figures(case),
    }
}

/// All figures are there, and by them it should have fitted.
fn unexplained(case: &Case, needed: Bytes, capacity: Bytes) -> Finding {
    let mut finding = case.finding(
        Cause::Capacity,
        Certainty::Possible,
        format!("The figures do not explain it: {needed} needed, {capacity} on the GPU."),
    );
    finding.explanation = text([
        case.free.map(|free| {
            format!("{free} were free when the message was put together; another process may have used more a moment before.")
        }),
        Some(sentence(&other_process::sentence(case))),
        case.caveat(),
    ]);
    finding.evidence = case.evidence();
    finding.advice = vec!["see who else is on the GPU (nvidia-smi on the host)".into()];
    finding
}

/// A sentence: a capital in front, a stop behind.
pub(super) fn sentence(words: &str) -> String {
    let mut chars = words.chars();
    match chars.next() {
        Some(first) => format!("{}{}.", first.to_uppercase(), chars.as_str()),
        None => String::new(),
    }
}
