//! Several remedies together, where none fits by itself: the combinations of segments, checkpointing, precision and batch are
//! searched, those that change the training least first, and the first one that fits by what was rehearsed or measured is one
//! remedy with one key; where none does, the first that fits by an estimate.
//! Where one only likely fits, since its cache may fragment, the batch is tried with expandable segments as well.
//!
//! The batch beside others is proposed anew: it is the largest one that fits with what they save.

use super::expectation::RemedyPredictor;
use super::inputs::RemedyInputs;
use super::measured;
use super::plan::{Alteration, Remedy};
use super::proposal::Offering;
use super::recommended::{Promise, recommended_promise};
use super::single::{proposed, ran_out_with};
use super::{NeedFrom, RemedyEffect, RemedyId, RemedySpec};
use crate::command::CommandLine;
use crate::diagnosis::{Help, Phrase};
use crate::event::Basis;
use crate::recognize::Recognized;

/// Nothing proposes it by itself: [`first_that_fits`] makes it of others.
pub(super) const REMEDY: RemedySpec = RemedySpec::new(
    'o',
    "several together",
    RemedyEffect::LessAllocated,
    // Its parts change the forecast, each as its own spec says.
    NeedFrom::Forecast(Remedy::change_batch),
    |_| None,
);

/// What the batch is combined with, what changes the training least first.
const BESIDE_BATCH: [&[RemedyId]; 13] = [
    &[],
    &[RemedyId::NoForeach],
    &[RemedyId::ExpandableSegments, RemedyId::NoForeach],
    &[RemedyId::ExpandableSegments],
    &[RemedyId::ChunkedLoss],
    &[RemedyId::Recompute],
    &[RemedyId::ExpandableSegments, RemedyId::Recompute],
    &[RemedyId::Offload],
    &[RemedyId::ExpandableSegments, RemedyId::Offload],
    &[RemedyId::Amp],
    &[RemedyId::ExpandableSegments, RemedyId::Amp],
    &[RemedyId::Recompute, RemedyId::Amp],
    &[
        RemedyId::ExpandableSegments,
        RemedyId::Recompute,
        RemedyId::Amp,
    ],
];

/// What makes it surer that the batch fits and changes nothing of the training.
const SURER: &[&[RemedyId]] = &[&[RemedyId::ExpandableSegments]];

/// The first combination that fits of those that change no more of the training than is permitted, and that promises more than
/// anything by itself. `None` where there is none, or where no combination helps against the cause.
pub fn combination(
    command: &CommandLine,
    inputs: &RemedyInputs<'_>,
    singles: &[Remedy],
    permits: &dyn Fn(Alteration) -> bool,
) -> Option<Remedy> {
    first_that_fits(&inputs.recognize(command), inputs, singles, permits)
}

pub(super) fn first_that_fits(
    recognized: &Recognized<'_>,
    inputs: &RemedyInputs<'_>,
    singles: &[Remedy],
    permits: &dyn Fn(Alteration) -> bool,
) -> Option<Remedy> {
    let cause = inputs.cause();
    let prefers = cause.map_or(Help::LessMemory, |cause| cause.spec().prefers);
    let is_permitted = |remedy: &Remedy| remedy.alters.is_none_or(permits);
    let by_themselves = singles
        .iter()
        .filter(|remedy| remedy.id != RemedyId::Together && is_permitted(remedy));
    let best = by_themselves
        .filter_map(|remedy| recommended_promise(remedy, cause))
        .min();
    let beside_batch: &[&[RemedyId]] = match best {
        Some(Promise::Fits) => return None,
        Some(Promise::LikelyFits) => SURER,
        Some(Promise::MayFit | Promise::Unknown) | None => &BESIDE_BATCH,
    };
    if inputs.forecast.oom.is_none() || prefers == Help::LessHostMemory {
        return None;
    }
    let is_better =
        |promise: Promise| promise <= Promise::LikelyFits && best.is_none_or(|best| promise < best);
    let predictor = RemedyPredictor::new(recognized.command, inputs);
    if !predictor.can_tell() {
        return None;
    }
    let single = |id: &RemedyId| {
        let mut offered = singles.iter().filter(|remedy| remedy.is_offered());
        offered.find(|remedy| remedy.id == *id && is_permitted(remedy))
    };
    let mut that_fit = beside_batch.iter().filter_map(|ids| {
        let beside: Vec<&Remedy> = ids.iter().filter_map(single).collect();
        if beside.len() < ids.len() {
            return None;
        }
        let with_batch = || {
            let batch = proposed(
                RemedyId::Batch,
                &Offering {
                    command: recognized.command,
                    recognized,
                    inputs,
                    predictor: &predictor.beside(&beside),
                },
            )?;
            let mut parts: Vec<Remedy> = beside.iter().copied().cloned().collect();
            parts.push(batch);
            Some(parts)
        };
        let alone = (beside.len() > 1).then(|| beside.iter().copied().cloned().collect());
        let both = || with_batch().filter(|parts| parts.len() > 1);
        [alone, both()]
            .into_iter()
            .flatten()
            .filter(|parts: &Vec<Remedy>| parts.iter().all(|part| part.is_offered()))
            .filter(|parts| parts.iter().all(is_permitted))
            .map(|parts| {
                let mut whole = together(&predictor, parts);
                let said = std::mem::take(&mut whole.expectation);
                whole.expectation = measured::held(
                    said,
                    recognized.command,
                    &[&whole],
                    inputs,
                    predictor.room(),
                );
                whole
            })
            .find(|whole| {
                recommended_promise(whole, cause).is_some_and(is_better)
                    && ran_out_with(recognized.command, whole, inputs).is_none()
            })
    });
    // An estimate only where nothing that was rehearsed or measured fits.
    let mut estimated = None;
    let sure = that_fit.find(|whole| {
        let is_sure = matches!(
            whole.expectation.basis,
            Some(Basis::Rehearsed | Basis::Measured)
        );
        if !is_sure && estimated.is_none() {
            estimated = Some(whole.clone());
        }
        is_sure
    });
    sure.or(estimated)
}

const SAME_NUMERICS: &str = "same numerics";

/// These remedies as one.
fn together(predictor: &RemedyPredictor<'_>, mut parts: Vec<Remedy>) -> Remedy {
    parts.sort_by_key(|part| part.id);
    let of_all: Vec<&Remedy> = parts.iter().collect();
    let names: Vec<&str> = parts.iter().map(|part| name(part.id)).collect();
    let changes: Vec<&str> = parts.iter().map(|part| part.changes.as_str()).collect();
    Remedy {
        title: names.join(" + "),
        edits: parts.iter().flat_map(|part| part.edits.clone()).collect(),
        files: parts.iter().flat_map(|part| part.files.clone()).collect(),
        changes: changes.join("  "),
        expectation: predictor.together(&of_all),
        takes: parts.iter().find_map(|part| part.takes),
        set_by: parts.iter().find_map(|part| part.set_by.clone()),
        alters: parts.iter().filter_map(|part| part.alters).max(),
        cost: cost_of(&parts),
        parts,
        ..Remedy::new(RemedyId::Together)
    }
}

/// What each costs, once; beside one that changes the numbers none says that they stay the same.
fn cost_of(parts: &[Remedy]) -> Phrase {
    let changes_numbers = parts.iter().any(|part| match part.alters {
        None | Some(Alteration::Recomputation | Alteration::Offloading) => false,
        Some(
            Alteration::EffectiveBatch
            | Alteration::BatchStatistics
            | Alteration::Precision
            | Alteration::Optimizer
            | Alteration::Samples,
        ) => true,
    });
    let mut said: Vec<&str> = Vec::new();
    let mut cost = Phrase::default();
    let clauses = parts.iter().flat_map(|part| part.cost.as_str().split("; "));
    for clause in clauses.filter(|clause| !clause.is_empty()) {
        if said.contains(&clause) || changes_numbers && clause == SAME_NUMERICS {
            continue;
        }
        match cost.is_empty() {
            true => cost = Phrase::from(clause),
            false => cost.push("; ", clause),
        }
        said.push(clause);
    }
    cost
}

/// In few words: a row names several.
fn name(id: RemedyId) -> &'static str {
    match id {
        RemedyId::Batch => "batch",
        RemedyId::ExpandableSegments => "segments",
        RemedyId::Recompute => "checkpointing",
        RemedyId::Amp => "precision",
        other => other.spec().title,
    }
}
