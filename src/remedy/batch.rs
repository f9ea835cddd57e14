//! A smaller batch: the largest one predicted to fit, else half. Set by an argument or a config
//! file, or in the program's DataLoaders at runtime if it has neither.

mod edit;
mod patched;

pub(super) use edit::BatchEdit;
use edit::{Kept, check_scale, reduced};

use super::patch;
use super::plan::{Alteration, BatchChange};
use super::proposal::{Offering, Proposal, or_patched};
use crate::diagnosis::Phrase;
use crate::forecast::{Division, divided, rounded};

pub(super) fn propose(offering: &Offering<'_>) -> Option<Proposal> {
    let inputs = offering.inputs;
    let by_argument = match inputs.batch_fits {
        true => fitting(offering),
        false => scaled(offering, inputs.batch_scale),
    };
    // A batch argument is the program's own way, even if it can't be edited.
    let has_none = offering.recognized.batch().is_none();
    let found = or_patched(inputs, by_argument, |found| match has_none {
        true => patched::patched(offering.command, inputs, found),
        false => Err("the program has an option for it".into()),
    });
    let batch_norm = patch::patchable(inputs).and_then(|found| found.batch_norm.as_deref());
    Some(match found {
        Ok(edit) => Proposal {
            alters: match (edit.alters, batch_norm) {
                (true, _) => Some(Alteration::EffectiveBatch),
                (false, Some(_)) => Some(Alteration::BatchStatistics),
                (false, None) => None,
            },
            takes: Some(BatchChange {
                from: edit.from,
                at_once: edit.to,
                accumulates: edit.accumulates,
            }),
            ..Proposal::new(Ok(edit.draft), cost(edit.cost, batch_norm))
        },
        Err(reason) => Proposal::new(Err(reason), ""),
    })
}

/// Adds what a smaller batch means for a model with batch normalization.
fn cost(of_edit: Phrase, batch_norm: Option<&str>) -> Phrase {
    match batch_norm {
        Some(class) => of_edit.and("; ", format!("{class} then normalizes over fewer samples")),
        None => of_edit,
    }
}

fn scaled(offering: &Offering<'_>, scale: f64) -> Result<BatchEdit, String> {
    let launch = &offering.inputs.launch;
    let source = offering.recognized.batch_source()?;
    BatchEdit::smaller(&source, scale, launch.copies)
}

/// The largest batch predicted to fit; half if nothing is known or nothing fits.
fn fitting(offering: &Offering<'_>) -> Result<BatchEdit, String> {
    let half = || scaled(offering, offering.inputs.batch_scale);
    let predictor = offering.predictor;
    let reading = predictor.reading();
    // Slightly more than the quotient, so that flooring the product gives the batch.
    let reduced = |to: u64| scaled(offering, (to as f64 + 1e-3) / reading.at_once as f64);
    let (Some(largest), true) = (predictor.largest(true), reading.at_once > 1) else {
        return half();
    };
    let whole = Division {
        batch: reading.at_once,
        accumulation: reading.accumulation,
    };
    let Some(division) = divided(whole.effective(), largest) else {
        return half();
    };
    let accumulated = reduced(division.batch)?;
    if accumulated.accumulates {
        return Ok(accumulated);
    }
    // It can't accumulate: no divisor is needed, and gradients are not kept between micro-batches.
    match predictor.largest(reading.keeps_gradients()) {
        Some(largest) => reduced(rounded(largest)),
        None => Ok(accumulated),
    }
}
