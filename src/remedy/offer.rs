//! All remedies for one command, each offered or not and why, in the order in which they promise
//! to help.

use super::batch::{self, Smaller};
use super::context::Context;
use super::draft::Draft;
use super::expectation::Outlook;
use super::model::{Division, Reading, divided, rounded};
use super::plan::{Alteration, Availability, Edit, Expectation, Plan, Remedy, RemedyId, edited};
use super::precision;
use super::recognition::{Recognised, recognise};
use super::segments;
use crate::command::CommandLine;
use crate::diagnosis::Cause;

/// The remedies for a command. One that is not offered says why; the most promising is first.
pub fn remedies(command: &CommandLine, context: &Context<'_>) -> Vec<Remedy> {
    let recognised = recognise(command);
    let outlook = Outlook::of(command, context);
    let mut remedies = vec![
        smaller_batch(command, &recognised, context, &outlook),
        expandable(command, &recognised, context),
        mixed(command, &recognised, context),
    ];
    let split = segments::max_split(command, &recognised, context);
    if split.is_ok() {
        remedies.push(remedy(
            RemedyId::MaxSplitSize,
            split,
            &recognised,
            "slower allocation of large blocks",
        ));
    }
    for remedy in &mut remedies {
        let edited = Plan::of(command, &[remedy]).command;
        remedy.expectation = outlook.together(&edited, &[remedy.id]);
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
        RemedyId::Amp => 4,
        RemedyId::MaxSplitSize => 5,
    }
}

/// What these remedies do together, in whatever order they were chosen.
pub fn expectation(
    command: &CommandLine,
    context: &Context<'_>,
    chosen: &[&Remedy],
) -> Expectation {
    let plan = Plan::of(command, chosen);
    Outlook::of(command, context).together(&plan.command, &plan.remedies)
}

fn smaller_batch(
    command: &CommandLine,
    recognised: &Recognised,
    context: &Context<'_>,
    outlook: &Outlook<'_>,
) -> Remedy {
    let smaller = match context.batch_scale {
        Some(scale) => batch::smaller(command, recognised, scale),
        None => fitting(command, recognised, outlook),
    };
    match smaller {
        Ok(smaller) => Remedy {
            alters: smaller.alters.then_some(Alteration::EffectiveBatch),
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

/// The largest batch that is predicted to fit; a half where nothing is known or nothing fits.
fn fitting(
    command: &CommandLine,
    recognised: &Recognised,
    outlook: &Outlook<'_>,
) -> Result<Smaller, String> {
    let half = || batch::smaller(command, recognised, 0.5);
    let reading = outlook.reading();
    let scaled = |to: u64| {
        // A little more than the quotient, so that flooring the product gives the batch.
        let scale = (to as f64 + 1e-3) / reading.at_once as f64;
        batch::smaller(command, recognised, scale)
    };
    let (Some(largest), true) = (outlook.largest(true), reading.at_once > 1) else {
        return half();
    };
    let whole = Division {
        batch: reading.at_once,
        accumulation: reading.accumulation,
    };
    let Some(division) = divided(whole.effective(), largest) else {
        return half();
    };
    let accumulated = scaled(division.batch)?;
    let edits: Vec<&Edit> = accumulated.draft.edits.iter().collect();
    let steps = Reading::of(&edited(command, &edits)).accumulation;
    if steps > reading.accumulation {
        return Ok(accumulated);
    }
    // It cannot accumulate: then there is no part to be found, and gradients do not stay.
    match outlook.largest(reading.keeps_gradients()) {
        Some(largest) => scaled(rounded(largest)),
        None => Ok(accumulated),
    }
}

fn expandable(command: &CommandLine, recognised: &Recognised, context: &Context<'_>) -> Remedy {
    let draft = segments::expandable(command, recognised, context);
    let cost = match context.torch {
        Some(_) => "the same numbers; tensors shared between processes may fail",
        None => "the same numbers; needs torch 2.1, and its version is not known here",
    };
    remedy(RemedyId::ExpandableSegments, draft, recognised, cost)
}

fn mixed(command: &CommandLine, recognised: &Recognised, context: &Context<'_>) -> Remedy {
    let draft = precision::mixed(command, recognised, context.bf16);
    Remedy {
        alters: Some(Alteration::Precision),
        ..remedy(
            RemedyId::Amp,
            draft,
            recognised,
            "the numbers change: less precise arithmetic",
        )
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
        expectation: Expectation::default(),
        alters: None,
        cost: cost.into(),
    }
}
