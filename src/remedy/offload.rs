//! Activations that wait for their backward pass in RAM (`torch.autograd.graph.save_on_cpu`), at runtime. Same numerics, and
//! slower by what is copied: what RAM has to hold is predicted and compared with what the host has left, and what it takes of
//! a step is measured once it runs.

use super::expectation::ToRam;
use super::plan::{Alteration, Expectation};
use super::proposal::{Draft, Offering, Proposal};
use super::{NeedFrom, RemedyEffect, RemedySpec};
use crate::calibration::HOST_LINK;
use crate::diagnosis::Phrase;
use crate::event::{Patch, Patchable, Phase, Relief, ReliefMoment};
use crate::units::Bytes;

pub(super) const REMEDY: RemedySpec = RemedySpec {
    alters: Some(Alteration::Offloading),
    ..RemedySpec::new(
        'A',
        "activations to RAM",
        RemedyEffect::LessAllocated,
        NeedFrom::ForecastIfKnown(|_, target| target.treatment.offloaded = true),
        propose,
    )
};

/// What RAM keeps for others, as the patch does: below that it leaves tensors on the GPU.
const KEPT_FREE: Bytes = Bytes::gib(1);

fn patched(
    offering: &Offering<'_>,
    found: &Patchable,
    to_ram: Option<&ToRam>,
) -> Result<Draft, String> {
    offering.check_patch(Patch::Offload)?;
    if let Some(why) = &found.offload_left {
        return Err(why.clone());
    }
    if found.models.is_empty() {
        return Err("no model that trains on the GPU was found".into());
    }
    if let Some((moved, available)) = to_ram.zip(offering.available_ram())
        && moved.takes + KEPT_FREE > available
    {
        return Err(format!(
            "RAM would have to hold {}, and {available} is available",
            moved.shown()
        ));
    }
    let shown = format!(
        "what the forward of {} saves waits in RAM",
        found.models.join(", ")
    );
    Ok(Draft::patching(Patch::Offload, &shown))
}

/// "slower: copying 22.4 GiB there and back takes some 0.5–2.0 s of a step (estimated)"
fn slower(to_ram: Option<&ToRam>) -> String {
    let Some((copied, one_way)) = to_ram.map(|moved| (moved.copied, moved.one_way)) else {
        return "slower: by how much is measured on its first steps".into();
    };
    let seconds = |rate: f64| copied.0 as f64 / rate;
    let (least, most) = (seconds(HOST_LINK.2), seconds(HOST_LINK.0));
    let takes = match most < 0.1 {
        true => "less than 0.1 s".to_string(),
        false => format!("some {least:.1}–{most:.1} s"),
    };
    let (there, back) = (one_way.to_string(), (copied - one_way).to_string());
    let copying = match there == back {
        true => format!("{there} there and back"),
        false => format!("{there} there and {back} back"),
    };
    format!("slower: copying {copying} takes {takes} of a step (estimated)")
}

fn propose(offering: &Offering<'_>) -> Option<Proposal> {
    let found = offering.inputs.patchable()?;
    let in_step = match offering.inputs.forecast.oom?.record.as_ref()?.phase {
        Phase::Forward | Phase::Backward | Phase::Optimizer | Phase::Unknown => true,
        // Nothing is saved there.
        Phase::Load | Phase::Evaluation => false,
    };
    if !in_step {
        return None;
    }
    let to_ram = offering.predictor.to_ram_alone();
    let draft = patched(offering, found, to_ram.as_ref());
    let cost = Phrase::from("same numerics").and("; ", slower(to_ram.as_ref()));
    let unknown = Expectation {
        // What the patch measures is told at the end, though nothing is promised.
        relief: Some(Relief {
            at: ReliefMoment::Step,
            allocated: None,
            to_ram: None,
            without: None,
            time: None,
        }),
        ..Expectation::unknown("how much of the activations can wait there is not known")
    };
    Some(Proposal::new(draft, cost).expecting(unknown))
}
