//! A cross-entropy of a large vocabulary that is never made as a whole: by the program's own switch for a fused one, else at
//! runtime over some rows of the logits at a time. With the head, where a rehearsal has seen that its logits go nowhere else; alone the
//! logits themselves stay, so that saves less, and says so.

use super::plan::{Edit, Expectation, Remedy};
use super::proposal::{Draft, Offering, Proposal};
use super::switch::{Switch, turn_on};
use super::verify::RejectedThing;
use super::{NeedFrom, RemedyEffect, RemedySpec};
use crate::diagnosis::{Cause, Phrase};
use crate::event::{HeadShape, InChunks, Patch, Patchable, Phase};
use crate::recognize::spellings::is_no;

pub(super) const REMEDY: RemedySpec = RemedySpec {
    rejects: Some(RejectedThing::Memory),
    ..RemedySpec::new(
        'C',
        "chunked cross-entropy",
        RemedyEffect::LessAllocated,
        NeedFrom::ForecastIfKnown(|remedy, target| target.treatment.chunked = in_chunks(remedy)),
        propose,
    )
};

/// What the programs' switches need.
const FUSED: &str = "liger_kernel";

fn by_argument(offering: &Offering<'_>) -> Result<Draft, String> {
    let recognized = offering.recognized;
    recognized.check_open()?;
    let none = || "no option for a fused cross-entropy is known for this program".to_string();
    let entry = recognized
        .known
        .filter(|entry| !entry.fused_loss.add.is_empty())
        .ok_or_else(none)?;
    let found = offering.inputs.patchable();
    let installed = found.and_then(|found| found.installed.as_ref());
    if installed.is_some_and(|installed| !installed.iter().any(|name| name == FUSED)) {
        return Err(format!("{FUSED} is not installed there"));
    }
    turn_on(
        Switch {
            what: "a fused cross-entropy",
            spec: &entry.fused_loss,
            words: Ok(&entry.fused_loss.add),
            of_launcher: None,
            means_off: is_no,
            in_file: &entry.file.fused_loss,
        },
        offering,
        entry,
        recognized.arguments(),
    )
}

fn has(edits: &[Edit], is_it: impl Fn(Patch) -> bool) -> bool {
    let mut edits = edits.iter();
    edits.any(|edit| matches!(edit, Edit::Patch(patch) if is_it(*patch)))
}

/// What a remedy has computed over some rows at a time. The programs' own switches fuse the head as well.
fn in_chunks(remedy: &Remedy) -> InChunks {
    match has(&remedy.edits, |patch| patch == Patch::CrossEntropy) {
        true => InChunks::Loss,
        false => InChunks::LossAndHead,
    }
}

/// The head that can be computed with its loss: its logits were rehearsed to go nowhere else, and nothing speaks against it.
fn fused_head(offering: &Offering<'_>) -> Option<HeadShape> {
    let head = offering.predictor.fused_head()?;
    offering.check_patch(Patch::Head(head)).ok()?;
    Some(head)
}

fn patched(offering: &Offering<'_>, _: &Patchable) -> Result<Draft, String> {
    if let Some(head) = fused_head(offering) {
        return Ok(Draft::patching(
            Patch::Head(head),
            "loss and head in chunks of rows",
        ));
    }
    offering.check_patch(Patch::CrossEntropy)?;
    Ok(Draft::patching(
        Patch::CrossEntropy,
        "cross-entropy in chunks of rows",
    ))
}

fn propose(offering: &Offering<'_>) -> Option<Proposal> {
    let is_to_blame = offering.inputs.cause() == Some(Cause::LargeLogits);
    let was_rehearsed =
        offering.predictor.has_rehearsed(InChunks::Loss) || fused_head(offering).is_some();
    let phase = offering.inputs.forecast.oom?.record.as_ref()?.phase;
    let helps = match phase {
        Phase::Forward | Phase::Backward | Phase::Unknown => is_to_blame || was_rehearsed,
        // Most evaluations have no loss of their own.
        Phase::Evaluation => was_rehearsed,
        Phase::Load | Phase::Optimizer => false,
    };
    if !helps {
        return None;
    }
    let fused = by_argument(offering);
    let cost = match &fused {
        Ok(_) => Phrase::from([
            "equal to rounding",
            "other parts of the model may be fused as well",
        ]),
        Err(_) if phase == Phase::Evaluation => Phrase::from("equal to rounding"),
        Err(_) if fused_head(offering).is_some() => {
            Phrase::from(["equal to rounding", "the head is computed twice"])
        }
        Err(_) => Phrase::from(["equal to rounding", "the log-softmax is computed twice"]),
    };
    let unknown = match &fused {
        Ok(_) => "a fused loss never makes all logits; how much that saves is not known",
        Err(_) => {
            "the logits stay, and of what is made as large as they are one tensor or two are not; by how much the peak is less was not rehearsed"
        }
    };
    let draft = offering.or_patched(fused, |found| patched(offering, found));
    let has_head = (draft.as_ref())
        .is_ok_and(|draft| has(&draft.edits, |patch| matches!(patch, Patch::Head(_))));
    Some(Proposal {
        title: has_head.then(|| "chunked loss and head".into()),
        ..Proposal::new(draft, cost).expecting(Expectation::unknown(unknown))
    })
}
