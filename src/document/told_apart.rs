//! What the lines of an OOM's record hold: the record knows parameters and the like; what has leaked and what the step made is told by
//! the growth of the lines and by a step that was traced.

use super::MemoryHolder;
use crate::anatomy::{Category, StepAnatomy, by_line};
use crate::event::GrowingLine;
use crate::state::OomIncident;
use crate::units::Bytes;
use std::collections::HashMap;

/// Below this share of what a line holds a part of it has no row of its own.
const WORTH_A_ROW: f64 = 0.01;

/// The lines, with a row of its own for what a line has that is kept from earlier steps.
pub fn told_apart(
    held: Vec<MemoryHolder>,
    oom: &OomIncident,
    leaked: Option<Bytes>,
    made: &MadeByLine,
) -> Vec<MemoryHolder> {
    let growing = oom.record.iter().flat_map(|record| &record.growing);
    let kept = kept_by_line(growing, leaked.unwrap_or_default());
    let mut lines: Vec<MemoryHolder> = Vec::new();
    for holder in held {
        if holder.category.is_some() {
            lines.push(holder);
            continue;
        }
        let category = made.of.get(&holder.place).map(|(category, _)| *category);
        let kept = kept.get(&holder.place).copied().unwrap_or_default();
        let kept = kept.min(holder.bytes);
        let parts = [
            (Some(Category::Kept), kept),
            (category, holder.bytes - kept),
        ];
        let blocks_of = |bytes: Bytes| {
            let share = bytes.fraction_of(holder.bytes).unwrap_or(1.0);
            (holder.blocks as f64 * share).round() as u64
        };
        let worth = holder.bytes.scale(WORTH_A_ROW);
        let is_whole = parts.iter().any(|(_, bytes)| *bytes <= worth);
        if is_whole {
            let most = parts.into_iter().max_by_key(|(_, bytes)| *bytes);
            let category = most.and_then(|(category, _)| category);
            lines.push(MemoryHolder { category, ..holder });
            continue;
        }
        lines.extend(parts.into_iter().map(|(category, bytes)| MemoryHolder {
            category,
            bytes,
            blocks: blocks_of(bytes),
            ..holder.clone()
        }));
    }
    lines.sort_by_key(|line| std::cmp::Reverse(line.bytes));
    lines
}

/// What has leaked, shared out among the lines by how they grow.
fn kept_by_line<'a>(
    growing: impl Iterator<Item = &'a GrowingLine>,
    leaked: Bytes,
) -> HashMap<String, Bytes> {
    let mut per_step: HashMap<String, Bytes> = HashMap::new();
    for line in growing {
        *per_step.entry(line.line.path_to(None, "")).or_default() += line.per_step;
    }
    let all: Bytes = per_step.values().copied().sum();
    for grows in per_step.values_mut() {
        *grows = leaked.scale(grows.fraction_of(all).unwrap_or(0.0));
    }
    per_step
}

/// What each line makes most of in a step, as far as it is no part of what stays.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MadeByLine {
    of: HashMap<String, (Category, Bytes)>,
}

impl MadeByLine {
    /// Of a step that ran out of memory as it was then, which is what the record's lines are of.
    pub fn new(step: &StepAnatomy) -> MadeByLine {
        let at = match step.failed {
            true => step.end(),
            false => step.peak(),
        };
        let mut made: HashMap<String, (Category, Bytes)> = HashMap::new();
        for holding in by_line(step, at) {
            let (Some(line), true) = (&holding.line, is_told(holding.category)) else {
                continue;
            };
            let of = made.entry(line.path_to(None, ""));
            let of = of.or_insert((holding.category, holding.bytes));
            if holding.bytes > of.1 {
                *of = (holding.category, holding.bytes);
            }
        }
        MadeByLine { of: made }
    }
}

/// Whether it says what a line's memory is, and not whether it stays.
fn is_told(category: Category) -> bool {
    match category {
        Category::Activations
        | Category::Recomputed
        | Category::Temporaries
        | Category::Parameters
        | Category::Frozen
        | Category::OptimizerState
        | Category::Gradients => true,
        Category::Kept | Category::Left | Category::Other => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{LineUsage, OomRecord, SourceLine};
    use crate::state::SourceTexts;
    use crate::state::tests::staged::record;

    fn line(number: u32) -> SourceLine {
        SourceLine {
            file: "/w/model.py".into(),
            line: number,
            function: "forward".into(),
        }
    }

    fn usage(number: u32, gib: u64) -> LineUsage {
        LineUsage {
            line: line(number),
            inside: None,
            bytes: Bytes::gib(gib),
            blocks: 10 * gib,
            kind: None,
        }
    }

    fn ran_out() -> OomIncident {
        let grows = |number, mib| GrowingLine {
            line: line(number),
            inside: None,
            bytes: Bytes::gib(10),
            per_step: Bytes::mib(mib),
            from_step: 8,
            to_step: 16,
        };
        OomIncident {
            record: Some(OomRecord {
                lines: vec![usage(32, 18), usage(28, 3)],
                growing: vec![grows(32, 512)],
                ..record(
                    100,
                    Bytes::gib(22),
                    Bytes::gib(23),
                    Bytes::gib(1),
                    Bytes::ZERO,
                )
            }),
            ..OomIncident::default()
        }
    }

    #[test]
    fn what_has_leaked_of_a_line_has_a_row_of_its_own() {
        let oom = ran_out();
        let held = super::super::lines_of(&oom, &SourceTexts::default());
        let rows = |leaked| {
            let lines = told_apart(held.clone(), &oom, leaked, &MadeByLine::default()).into_iter();
            let row = |line: MemoryHolder| (line.category, line.bytes, line.blocks);
            lines.map(row).collect::<Vec<_>>()
        };
        let (kept, gib) = (Some(Category::Kept), Bytes::gib);
        let apart = [(kept, gib(12), 120), (None, gib(6), 60), (None, gib(3), 30)];
        assert_eq!(rows(Some(gib(12))), apart);
        assert_eq!(rows(None), [(None, gib(18), 180), (None, gib(3), 30)]);
        let all = [(kept, gib(18), 180), (None, gib(3), 30)];
        assert_eq!(rows(Some(gib(19))), all, "no more than the line has");
    }
}
