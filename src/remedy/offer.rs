//! All remedies for one command, each offered or not and why, in the order in which they promise
//! to help.

use super::batch;
use super::context::Context;
use super::draft::Draft;
use super::expectation;
use super::patch;
use super::plan::{Availability, Expectation, Remedy, RemedyId};
use super::precision;
use super::recognition::{Recognised, recognise};
use super::segments;
use crate::command::CommandLine;
use crate::diagnosis::Cause;

/// The remedies for a command. One that is not offered says why; the most promising is first.
pub fn remedies(command: &CommandLine, context: &Context<'_>) -> Vec<Remedy> {
    let recognised = recognise(command);
    let mut remedies = vec![
        smaller_batch(command, &recognised, context),
        expandable(command, &recognised, context),
        mixed(command, &recognised, context),
    ];
    // Of a run that is not known inside there is nothing to say; `plan` lists it all the same.
    if context.state.is_none() || patch::patchable(context).is_some() {
        remedies.push(recomputed(command, &recognised, context));
    }
    let split = segments::max_split(command, &recognised, context);
    if split.is_ok() {
        let expectation = expectation::of_expandable(context);
        remedies.push(Remedy {
            expectation: Expectation {
                needs: None,
                at_least: None,
                fits: expectation.fits.filter(|fits| !fits),
                words: "unknown: it makes fragmentation less likely".into(),
            },
            ..remedy(
                RemedyId::MaxSplitSize,
                split,
                &recognised,
                "slower allocation of large blocks",
            )
        });
    }
    let cause = context.findings.first().map(|finding| finding.cause);
    remedies.sort_by_key(|remedy| {
        (
            !remedy.is_offered(),
            remedy.expectation.fits == Some(false),
            place(remedy.id, cause),
        )
    });
    remedies
}

/// Which remedy goes first for a cause.
fn place(id: RemedyId, cause: Option<Cause>) -> u8 {
    let segments_first = match cause {
        Some(Cause::Fragmentation | Cause::Thrashing) => true,
        Some(
            Cause::Capacity
            | Cause::OptimizerState
            | Cause::ForeignProcess
            | Cause::Limit
            | Cause::Leak
            | Cause::EvaluationGraph
            | Cause::OddBatch
            | Cause::NonPytorch
            | Cause::HostMemory
            | Cause::DeviceFault,
        )
        | None => false,
    };
    match id {
        RemedyId::ExpandableSegments if segments_first => 0,
        RemedyId::MaxSplitSize if segments_first => 1,
        RemedyId::Batch => 2,
        RemedyId::ExpandableSegments => 3,
        RemedyId::Recompute => 4,
        RemedyId::Amp => 5,
        RemedyId::MaxSplitSize => 6,
    }
}

fn smaller_batch(command: &CommandLine, recognised: &Recognised, context: &Context<'_>) -> Remedy {
    let smaller = batch::smaller(command, recognised, context.batch_scale);
    match or_patched(
        smaller,
        // An argument that says a batch is the program's own way; one that is not known is not.
        batch::batch_of(command, recognised).is_none() && patch::patchable(context).is_some(),
        || patch::batch(command, context),
    ) {
        Ok(smaller) => Remedy {
            expectation: expectation::of_batch(context, &smaller),
            ..remedy(
                RemedyId::Batch,
                Ok(smaller.draft),
                recognised,
                &smaller.cost,
            )
        },
        Err(reason) => remedy(RemedyId::Batch, Err(reason), recognised, ""),
    }
}

fn expandable(command: &CommandLine, recognised: &Recognised, context: &Context<'_>) -> Remedy {
    let draft = segments::expandable(command, recognised, context);
    let cost = match context.torch {
        Some(_) => "the same numbers; tensors shared between processes may fail",
        None => "the same numbers; needs torch 2.1, and its version is not known here",
    };
    Remedy {
        expectation: expectation::of_expandable(context),
        ..remedy(RemedyId::ExpandableSegments, draft, recognised, cost)
    }
}

fn mixed(command: &CommandLine, recognised: &Recognised, context: &Context<'_>) -> Remedy {
    let by_argument = precision::mixed(command, recognised, context.bf16);
    let draft = or_patched(by_argument, patch::patchable(context).is_some(), || {
        patch::amp(command, context)
    });
    Remedy {
        expectation: expectation::of_mixed(context),
        ..remedy(
            RemedyId::Amp,
            draft,
            recognised,
            "the numbers change: less precise arithmetic",
        )
    }
}

fn recomputed(command: &CommandLine, recognised: &Recognised, context: &Context<'_>) -> Remedy {
    let (draft, words) = match patch::recompute(command, context) {
        Ok((draft, words)) => (Ok(draft), words),
        Err(reason) => (Err(reason), "unknown".into()),
    };
    Remedy {
        expectation: Expectation {
            needs: None,
            at_least: None,
            fits: None,
            words,
        },
        ..remedy(
            RemedyId::Recompute,
            draft,
            recognised,
            "the same numbers; more time in backward",
        )
    }
}

/// What an argument does, else what a patch does where one may be looked for; and where neither
/// helps, both reasons.
fn or_patched<T>(
    by_argument: Result<T, String>,
    may_patch: bool,
    patched: impl FnOnce() -> Result<T, String>,
) -> Result<T, String> {
    match by_argument {
        Err(reason) if may_patch => {
            patched().map_err(|inside| format!("{reason}; not from inside: {inside}"))
        }
        other => other,
    }
}

fn remedy(
    id: RemedyId,
    draft: Result<Draft, String>,
    recognised: &Recognised,
    cost: &str,
) -> Remedy {
    let (key, title) = match id {
        RemedyId::Batch => ('b', "smaller batch"),
        RemedyId::ExpandableSegments => ('e', "expandable segments"),
        RemedyId::Amp => ('a', "mixed precision"),
        RemedyId::Recompute => ('c', "recompute activations"),
        RemedyId::MaxSplitSize => ('m', "largest split"),
    };
    let (draft, availability) = match (draft, &recognised.part_of_a_job) {
        (Ok(draft), _) if draft.edits.is_empty() => (
            draft,
            Availability::NotOffered("there is nothing to change".into()),
        ),
        (Ok(draft), None) => (draft, Availability::Offered),
        (Ok(draft), Some(part)) => (
            draft,
            Availability::NotOffered(format!(
                "one part of a job ({part}): all its parts must be started with the same change"
            )),
        ),
        (Err(reason), _) => (Draft::default(), Availability::NotOffered(reason)),
    };
    Remedy {
        id,
        key,
        title: title.into(),
        availability,
        changes: draft.shown.join("  "),
        edits: draft.edits,
        expectation: Expectation {
            needs: None,
            at_least: None,
            fits: None,
            words: String::new(),
        },
        cost: cost.into(),
    }
}
