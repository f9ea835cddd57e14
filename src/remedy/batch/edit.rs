//! Reduces a batch, and says what that does to the training, wherever the batch is set.

use crate::diagnosis::Phrase;
use crate::recognize::batch::{BatchSource, Knob, WholeBatch};
use crate::remedy::draft::Draft;
use std::path::Path;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BatchEdit {
    pub draft: Draft,
    /// The per-device batch before and after, as the argument counts it.
    pub from: u64,
    pub to: u64,
    /// Whether the number of samples per step changes.
    pub alters: bool,
    /// Whether it takes more micro-batches per step than before.
    pub accumulates: bool,
    /// What it does to the training, for display.
    pub cost: Phrase,
}

/// What accumulation does to the effective batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kept {
    /// No accumulation, or none that is known.
    None,
    /// From so many micro-batches per step to so many.
    By(u64, u64),
    /// The program keeps the effective batch, for this reason.
    Whole(String),
}

impl BatchEdit {
    /// Scales the batch by `scale`, or says why that isn't possible. `copies` is the directory for
    /// edited copies of files, and the run that they are for.
    pub(crate) fn smaller(
        source: &BatchSource<'_>,
        scale: f64,
        copies: Option<(&Path, u32)>,
    ) -> Result<BatchEdit, String> {
        check_scale(scale)?;
        let mut draft = Draft::default();
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
        let mut edit = BatchEdit::of(draft, (old, new), kept, source.unit);
        if let Some(file) = source.file {
            edit.cost.push("; ", format!("{} says {old}", file.shown()));
        }
        Ok(edit)
    }

    /// The per-device batch goes from `old` to `new`; `unit` is what is counted, if not samples.
    pub(crate) fn of(
        draft: Draft,
        (old, new): (u64, u64),
        kept: Kept,
        unit: Option<&str>,
    ) -> BatchEdit {
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
        }
    }
}

pub(crate) fn check_scale(scale: f64) -> Result<(), String> {
    match scale > 0.0 && scale < 1.0 {
        true => Ok(()),
        false => Err(format!(
            "{scale} isn't a valid scale: it must be between 0 and 1"
        )),
    }
}

/// The value times `scale`, at least 1; `None` if that isn't smaller.
pub(crate) fn reduced(old: u64, scale: f64) -> Option<u64> {
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
