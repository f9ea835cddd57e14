//! A smaller batch: the largest one predicted to fit, else half. Set by an argument or a config
//! file, or in the program's DataLoaders at runtime if it has neither.

use super::plan::{Alteration, BatchChange, Remedy};
use super::proposal::{Draft, Offering, Proposal};
use super::{NeedFrom, RemedyEffect, RemedySpec};
use crate::diagnosis::Phrase;
use crate::event::{Patch, Patchable, Phase};
use crate::forecast::{Division, divided, rounded};
use crate::recognize::batch::{BatchSource, Knob, WholeBatch};
use crate::recognize::knob::evaluation::EvaluationBatch;
use crate::recognize::{KnobEffect, KnobPlace};

pub(super) const REMEDY: RemedySpec = RemedySpec::new(
    'b',
    "smaller batch",
    RemedyEffect::LessAllocated,
    NeedFrom::Forecast(Remedy::change_batch),
    propose,
);

fn propose(offering: &Offering<'_>) -> Option<Proposal> {
    if let Some(of_evaluation) = evaluation(offering) {
        return Some(of_evaluation);
    }
    let by_argument =
        (offering.recognized.batch_source()).and_then(|source| smaller(offering, &source));
    // A batch argument is the program's own way, even if it can't be edited.
    let has_none = offering.recognized.batch().is_none();
    let found = offering.or_patched(by_argument, |found| match has_none {
        true => patched(offering, found),
        false => Err("the program has an option for it".into()),
    });
    Some(match found {
        Ok(edit) => of_edit(offering, edit),
        Err(reason) => Proposal::new(Err(reason), ""),
    })
}

/// By what sets the batch: as large as is predicted to fit, or by the factor that was asked for.
fn smaller(offering: &Offering<'_>, source: &BatchSource<'_>) -> Result<BatchEdit, String> {
    match offering.inputs.batch_fits {
        true => fitting(offering, source),
        false => scaled(offering, source, offering.inputs.batch_scale),
    }
}

fn of_edit(offering: &Offering<'_>, edit: BatchEdit) -> Proposal {
    let batch_norm = offering
        .inputs
        .patchable()
        .and_then(|found| found.batch_norm.as_deref());
    Proposal {
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
        set_by: edit.set_by,
        ..Proposal::new(
            Ok(edit.draft),
            learned(offering, cost(edit.cost, batch_norm)),
        )
    }
}

/// With the candidate at this place, where it is not sure which number sets the batch; `None` where there is none, or where
/// the batch can be changed without it.
pub(super) fn by_candidate(offering: &Offering<'_>, at: usize) -> Option<Proposal> {
    let by_patch = offering.inputs.patchable();
    let is_other = by_patch.is_some_and(|found| patched(offering, found).is_ok());
    if is_other || evaluation(offering).is_some() {
        return None;
    }
    let possible = offering.recognized.possible_batches().into_iter().nth(at)?;
    let name = possible.source.sizes.first()?.name.clone();
    // One that cannot be made smaller is no choice.
    let edit = smaller(offering, &possible.source).ok()?;
    let proposal = of_edit(offering, edit);
    let doubt = format!("not sure that it is the batch: {}", possible.evidence);
    Some(Proposal {
        title: Some(format!("smaller {name}?")),
        cost: (proposal.cost)
            .and("; ", doubt)
            .and("; ", "checked once the model is called, then remembered"),
        ..proposal
    })
}

/// A smaller batch of the evaluation that memory ran out in, where that has a number of its own or needs none; `None` where
/// it takes the training's, as far as is known.
fn evaluation(offering: &Offering<'_>) -> Option<Proposal> {
    let record = offering.inputs.forecast.oom?.record.as_ref()?;
    if record.phase != Phase::Evaluation {
        return None;
    }
    let why_not = |why: String| Some(Proposal::new(Err(why), ""));
    match offering.recognized.evaluation_batch() {
        EvaluationBatch::Shared => None,
        EvaluationBatch::NotSure(why) => why_not(why),
        EvaluationBatch::OneSample(given) => why_not(format!(
            "the evaluation already takes one sample at a time ({given}); the training's batch does not change that"
        )),
        EvaluationBatch::Own(source) => {
            let asked = offering.inputs.batch_scale;
            let predictor = offering.predictor;
            let scale = match predictor.in_rehearsed_evaluation() {
                Some(fits) => fits,
                None => (predictor.in_evaluation()).map_or(asked, |most| asked.min(most)),
            };
            let edit = BatchEdit::smaller(offering, &source, scale);
            Some(match edit {
                Ok(edit) => Proposal {
                    takes: Some(BatchChange {
                        from: edit.from,
                        at_once: edit.to,
                        accumulates: false,
                    }),
                    ..Proposal::new(Ok(edit.draft), edit.cost)
                },
                Err(why) => Proposal::new(Err(why), ""),
            })
        }
    }
}

/// Adds which number was taken for the batch before, and is not it.
fn learned(offering: &Offering<'_>, cost: Phrase) -> Phrase {
    let mut learned = offering.inputs.launch.learned.iter().rev();
    match learned.find(|known| known.effect == KnobEffect::Nothing) {
        Some(known) => cost.and("; ", known.to_string()),
        None => cost,
    }
}

/// Adds what a smaller batch means for a model with batch normalization.
fn cost(of_edit: Phrase, batch_norm: Option<&str>) -> Phrase {
    match batch_norm {
        Some(class) => of_edit.and("; ", format!("{class} then normalizes over fewer samples")),
        None => of_edit,
    }
}

/// Half the batch, or half of that and so on as far as it is known not to fit. Where none would, a single sample if nothing
/// rules it out, else half.
fn halved(offering: &Offering<'_>, from: u64) -> f64 {
    let asked = offering.inputs.batch_scale;
    let scale = match offering.predictor.in_evaluation() {
        Some(most) => asked.min(most),
        // A guess that has failed says that memory ran out early: the next one is bolder.
        None if offering.predictor.guessed_before() => asked * 0.5,
        None => asked,
    };
    let mut scales = std::iter::successors(Some(scale), |scale| Some(scale * 0.5))
        .take_while(|tried| *tried == scale || from as f64 * tried >= 1.0);
    let is_open = |scale: &f64| {
        let batch = ((from as f64 * scale).floor() as u64).max(1);
        !offering.predictor.rules_out(from, batch)
    };
    let one = || (from > 1 && offering.predictor.may_try_one(from)).then(|| scale_to(1, from));
    scales.find(is_open).or_else(one).unwrap_or(scale)
}

/// Slightly more than the quotient, so that flooring the product gives the batch.
fn scale_to(to: u64, from: u64) -> f64 {
    (to as f64 + 1e-3) / from as f64
}

fn scaled(
    offering: &Offering<'_>,
    source: &BatchSource<'_>,
    scale: f64,
) -> Result<BatchEdit, String> {
    BatchEdit::smaller(offering, source, scale)
}

/// The largest batch predicted to fit; half, or a smaller part, if nothing is known.
fn fitting(offering: &Offering<'_>, source: &BatchSource<'_>) -> Result<BatchEdit, String> {
    let predictor = offering.predictor;
    let reading = predictor.reading();
    let half = || scaled(offering, source, halved(offering, reading.at_once));
    let reduced = |to: u64| scaled(offering, source, scale_to(to, reading.at_once));
    // Where no batch fits at the upper end, one that likely fits is better than a guess.
    let largest_of = |keeps| {
        let sure = predictor.largest(keeps);
        sure.or_else(|| predictor.likely_largest(keeps))
    };
    let (Some(largest), true) = (largest_of(true), reading.at_once > 1) else {
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
    match largest_of(reading.keeps_gradients()) {
        Some(largest) => reduced(rounded(largest)),
        None => Ok(accumulated),
    }
}

/// A smaller batch in the program's DataLoaders, at runtime, or why they can't be patched.
fn patched(offering: &Offering<'_>, found: &Patchable) -> Result<BatchEdit, String> {
    let Some(batch) = found.batch else {
        return Err(match &found.batch_left {
            Some(why) => why.clone(),
            None => "no DataLoader was found".into(),
        });
    };
    if let Some(size) = several_of_each(offering, batch) {
        return Err(format!(
            "of the {batch} that a DataLoader gives the program makes {size} for its model: other lines of it may count on {batch}"
        ));
    }
    let asked = found.batch_asked.unwrap_or(batch);
    let predictor = offering.predictor.counting(batch);
    let keeps = predictor.reading().keeps_gradients();
    let largest = || {
        let sure = predictor.largest(keeps);
        sure.or_else(|| predictor.likely_largest(keeps))
    };
    let largest = offering.inputs.batch_fits.then(largest).flatten();
    let scale = match largest.map(rounded) {
        Some(to) => scale_to(to, batch),
        None => halved(offering, batch),
    };
    check_scale(scale)?;
    let smaller = reduced(batch, scale)
        .ok_or_else(|| format!("its DataLoaders already use a batch size of {batch}"))?;
    let wanted = Patch::Batch {
        from: asked,
        to: smaller,
    };
    offering.check_patch(wanted)?;
    let draft = Draft::patching(wanted, &format!("DataLoader batch {batch}→{smaller}"));
    let mut edit = BatchEdit::new(draft, (batch, smaller), Kept::None, None);
    edit.cost.extend(", and so do schedules counted in steps");
    Ok(edit)
}

/// The batch of the model's call, where the program makes several samples of each that its loader gives.
fn several_of_each(offering: &Offering<'_>, batch: u64) -> Option<u64> {
    let given = &offering.recognized.launch.told?.given;
    let first = || given.iter().filter_map(|each| each.shape.first().copied());
    let is_several = |size: &u64| batch > 0 && *size > batch && size.is_multiple_of(batch);
    let is_given = first().any(|size| size == batch);
    first().find(|size| is_several(size) && !is_given)
}

/// A batch reduced, and what that does to the training, wherever the batch is set.
#[derive(Debug, Clone, PartialEq)]
struct BatchEdit {
    draft: Draft,
    /// The per-device batch before and after, as the argument counts it.
    from: u64,
    to: u64,
    /// Whether the number of samples per step changes.
    alters: bool,
    /// Whether it takes more micro-batches per step than before.
    accumulates: bool,
    /// What it does to the training, for display.
    cost: Phrase,
    /// The number that is changed; `None` for a patch.
    set_by: Option<KnobPlace>,
}

/// What accumulation does to the effective batch.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Kept {
    /// No accumulation, or none that is known.
    None,
    /// From so many micro-batches per step to so many.
    By(u64, u64),
    /// The program keeps the effective batch, for this reason.
    Whole(String),
}

impl BatchEdit {
    /// Scales the batch by `scale`, or says why that isn't possible.
    fn smaller(
        offering: &Offering<'_>,
        source: &BatchSource<'_>,
        scale: f64,
    ) -> Result<BatchEdit, String> {
        check_scale(scale)?;
        let copies = offering.inputs.launch.copies;
        for knob in source.sizes.iter().chain(&source.steps) {
            offering.check_reach(knob)?;
        }
        let mut draft = Draft::default();
        let scale = within_bounds(source, scale)?;
        let (before, after) = (source.accumulation(), longer(source.accumulation(), scale));
        let mut sizes = Vec::new();
        for knob in &source.sizes {
            // If one of several limits is already minimal, the others can still be lowered.
            let Some(new) = reduced(knob.value, scale) else {
                continue;
            };
            check(knob, new, source.split_among)?;
            draft.write(knob, new, copies)?;
            sizes.push((knob.value, new));
        }
        let (old, new) = match (sizes.first(), source.sizes.first()) {
            (Some(size), _) => *size,
            (None, Some(knob)) => return Err(already(knob)),
            (None, None) if after > before => (source.at_once, source.at_once * before / after),
            (None, None) => {
                return Err(
                    "accumulation works in whole steps; such a small reduction is not possible"
                        .into(),
                );
            }
        };
        for knob in &source.steps {
            let more = longer(knob.value, scale);
            if more > knob.value {
                draft.write(knob, more, copies)?;
            }
        }
        let is_counted = !source.steps.is_empty() && (after > before || before > 1);
        let kept = match &source.whole {
            WholeBatch::Kept(words) => Kept::Whole(words.clone()),
            WholeBatch::Fixed {
                name,
                value,
                parts_of,
            } => {
                let fills = match source.steps.is_empty() {
                    true => parts_of.is_multiple_of(new),
                    false => old * before == new * after,
                };
                if !fills {
                    return Err(format!(
                        "{name} {value} cannot be split into micro-batches of {new}"
                    ));
                }
                Kept::Whole(format!(
                    "effective batch {value}, in micro-batches of {new}"
                ))
            }
            WholeBatch::Follows if is_counted => Kept::By(before, after),
            WholeBatch::Follows => Kept::None,
        };
        let mut edit = BatchEdit::new(draft, (old, new), kept, source.unit);
        edit.set_by = source.sizes.first().map(Knob::lasting_place);
        if let Some(file) = source.file {
            edit.cost.push("; ", format!("{} says {old}", file.shown()));
        }
        for remark in &source.remarks {
            edit.cost.push("; ", remark.clone());
        }
        let rate = source.rate.and_then(|rate| rate.said(edit.alters));
        if let Some(words) = rate {
            edit.cost.push("; ", words);
        }
        Ok(edit)
    }

    /// The per-device batch goes from `old` to `new`; `unit` is what is counted, if not samples.
    fn new(draft: Draft, (old, new): (u64, u64), kept: Kept, unit: Option<&str>) -> BatchEdit {
        let unit = unit.map(|unit| format!(" {unit}")).unwrap_or_default();
        let (alters, accumulates, cost) = match kept {
            Kept::None => (
                true,
                false,
                format!(
                    "effective batch {old} → {new}{unit}: gradients and number of steps change"
                ),
            ),
            Kept::By(steps, more) => {
                let before = old.saturating_mul(steps);
                let after = new.saturating_mul(more);
                let change = match before == after {
                    true => before.to_string(),
                    false => format!("{before} → {after}"),
                };
                (
                    before != after,
                    more > steps,
                    format!("effective batch {change}{unit} ({new} × {more})"),
                )
            }
            Kept::Whole(words) => (false, true, words),
        };
        BatchEdit {
            draft,
            from: old,
            to: new,
            alters,
            accumulates,
            cost: cost.into(),
            set_by: None,
        }
    }
}

fn check_scale(scale: f64) -> Result<(), String> {
    match scale > 0.0 && scale < 1.0 {
        true => Ok(()),
        false => Err(format!(
            "{scale} isn't a valid scale: it must be between 0 and 1"
        )),
    }
}

/// A scale that leads to a batch which the program accepts.
fn within_bounds(source: &BatchSource<'_>, scale: f64) -> Result<f64, String> {
    let Some(knob) = source.sizes.first() else {
        return Ok(scale);
    };
    match reduced(knob.value, scale).map(|new| (new, source.bounds.at_most(new))) {
        None => Ok(scale),
        Some((new, Some(accepted))) if new == accepted => Ok(scale),
        Some((_, Some(accepted))) => Ok(scale_to(accepted, knob.value)),
        Some((new, None)) => Err(format!(
            "{} {new} is not among {}",
            knob.name,
            source.bounds.shown()
        )),
    }
}

/// The value times `scale`, at least 1; `None` if that isn't smaller.
fn reduced(old: u64, scale: f64) -> Option<u64> {
    let new = ((old as f64 * scale).floor() as u64).max(1);
    (new < old).then_some(new)
}

/// The accumulation steps that make up for scaling the batch.
fn longer(steps: u64, scale: f64) -> u64 {
    ((steps as f64 / scale).round() as u64).max(steps)
}

fn already(knob: &Knob<'_>) -> String {
    let name = knob.name.trim_start_matches('+');
    format!("{name} is already {}", knob.value)
}

/// Whether a program accepts a size.
fn check(knob: &Knob<'_>, new: u64, split_among: u64) -> Result<(), String> {
    let name = &knob.name;
    match knob.least {
        Some((floor, least)) if new < least => {
            Err(format!("{name} {new} would be less than {floor} {least}"))
        }
        _ if !new.is_multiple_of(split_among.max(1)) => Err(format!(
            "{name} {new} cannot be split among {split_among} devices"
        )),
        _ => Ok(()),
    }
}
