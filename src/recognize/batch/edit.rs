//! What an edit of a batch does to the training, and the words for it: the same for every place in
//! which a batch can stand.

use super::super::draft::Draft;

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
