//! What becomes of a batch that is made smaller, and what that does to the training: the same for
//! every place in which a batch can stand.

use crate::recognize::batch::{BatchSource, Knob, WholeBatch};
use crate::remedy::draft::Draft;
use std::path::Path;

/// A smaller batch.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BatchEdit {
    /// The edits.
    pub draft: Draft,
    /// What one device took at once before and takes now, in the argument's own count.
    pub from: u64,
    /// See `from`.
    pub to: u64,
    /// Whether a step takes another number of samples.
    pub alters: bool,
    /// Whether it takes them in more parts than before.
    pub accumulates: bool,
    /// What it does to the training, in words.
    pub cost: String,
}

/// What accumulation does to the effective batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kept {
    /// There is none, or it is not known.
    None,
    /// It goes from so many micro-batches to so many.
    By(u64, u64),
    /// The program keeps it, as these words say.
    Whole(String),
}

impl BatchEdit {
    /// A batch of `scale` times the one that is, or why there is none. `copies` is where edited copies
    /// of files go, and for which run.
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
            // Of several limits one that is at its least already does not speak against the rest.
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
            edit.cost += &format!("; {} says {old}", file.shown());
        }
        Ok(edit)
    }

    /// A device takes `new` at once instead of `old`; `unit` is what is counted, if not samples.
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
            cost,
        }
    }
}

/// Whether a batch can be made smaller by this.
pub(crate) fn check_scale(scale: f64) -> Result<(), String> {
    match scale > 0.0 && scale < 1.0 {
        true => Ok(()),
        false => Err(format!(
            "{scale} isn't a valid scale: it must be between 0 and 1"
        )),
    }
}

/// `scale` times the value, at least 1; nothing where that is not less.
pub(crate) fn reduced(old: u64, scale: f64) -> Option<u64> {
    let new = ((old as f64 * scale).floor() as u64).max(1);
    (new < old).then_some(new)
}

/// How many accumulation steps make up for a batch of `scale` times.
fn longer(steps: u64, scale: f64) -> u64 {
    ((steps as f64 / scale).round() as u64).max(steps)
}

fn already(knob: &Knob<'_>) -> String {
    let name = knob.name.trim_start_matches('+');
    format!("{name} is already {}", knob.value)
}

/// Whether a program takes a size.
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
