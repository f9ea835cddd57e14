//! Accumulation that a program computes of a total and its batch: `steps = total // (batch * ranks)`. There a smaller batch
//! makes more micro-batches by itself, so the total stays and no other number moves along.

use super::places::OptionPlaces;
use super::statements::{SourceStatements, TokenRange};
use super::{NamedSettingsFile, asks_to_divide};
use crate::recognize::config_formats::settings_of;
use crate::recognize::family;
use std::collections::BTreeSet;

/// So often a name may stand for another one.
const MOST_ALIASES: usize = 4;

/// Longer values are no products of sizes.
const LONGEST_PRODUCT: usize = 40;

/// Functions that divide what they are given first by the second.
const DIVIDING: [&str; 6] = [
    "div_up",
    "ceil_div",
    "ceildiv",
    "cdiv",
    "exact_div",
    "divide",
];

/// What a program's text asks of its batch, whatever number that is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BatchRules {
    /// Whether something must be divided by it.
    pub(crate) divides: bool,
    pub(crate) computed: Vec<ComputedSteps>,
    pub(crate) places: OptionPlaces,
}

/// An accumulation that is computed; its numbers by the last parts of all names that they go by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ComputedSteps {
    pub name: String,
    pub totals: BTreeSet<String>,
    /// Where the total is a number in the formula itself.
    pub written: Option<u64>,
    through: BTreeSet<String>,
}

impl BatchRules {
    /// Of the files of a program, and of the settings that it names.
    pub(crate) fn read<'s>(
        sources: impl Iterator<Item = &'s str>,
        settings: &[NamedSettingsFile],
    ) -> BatchRules {
        let mut rules = BatchRules::default();
        for source in sources {
            rules.divides |= asks_to_divide(source);
            // Few have one, and the rest need not be looked at.
            let lower = source.to_lowercase();
            let has = |words: [&str; 2]| words.iter().any(|word| lower.contains(word));
            let (computes, places) = (
                has(["accum", "iter_size"]),
                has(["remainder", "add_subparsers"]),
            );
            if computes || places {
                let said = SourceStatements::new(source);
                rules.computed.extend(of_source(&said));
                rules.places.add(&said);
            }
        }
        rules.computed.extend(settings.iter().flat_map(of_settings));
        rules
    }

    /// The accumulation that follows the batch of this name.
    pub(crate) fn follows(&self, batch: &str) -> Option<&ComputedSteps> {
        self.computed.iter().find(|steps| steps.divides_by(batch))
    }
}

impl ComputedSteps {
    /// Whether the number of this name is in what the total is divided by.
    pub(super) fn divides_by(&self, name: &str) -> bool {
        self.through.contains(name)
    }

    /// Whether what is divided is one of these.
    pub(super) fn is_of_a_total_in(&self, names: &BTreeSet<String>) -> bool {
        self.totals.iter().any(|total| names.contains(total))
    }

    /// Whether nothing but this one and the number of ranks is: each divisor of the total gives whole steps.
    pub(crate) fn is_of(&self, name: &str) -> bool {
        self.through
            .iter()
            .all(|other| other == name || family::is_ranks(other))
    }
}

pub(super) fn of_source(said: &SourceStatements<'_>) -> Vec<ComputedSteps> {
    let tokens = &said.tokens;
    let computed = said.assigned.iter().filter_map(|one| {
        let name = leaf(one.target);
        let quotient = quotient(said, &one.value).filter(|_| family::counts_micro_batches(name))?;
        let number = tokens.text_of(&quotient.total);
        Some(ComputedSteps {
            name: name.into(),
            written: crate::recognize::python_number::python_number(number),
            totals: with_aliases(said, names(said, &quotient.total)),
            through: with_aliases(
                said,
                quotient
                    .through
                    .iter()
                    .flat_map(|part| names(said, part))
                    .collect(),
            ),
        })
    });
    computed.collect()
}

struct Quotient {
    total: TokenRange,
    through: Vec<TokenRange>,
}

/// `total // batch`, `max(1, round(total / (batch * ranks)))`, `div_up(total, batch)`.
fn quotient(said: &SourceStatements<'_>, value: &TokenRange) -> Option<Quotient> {
    let tokens = &said.tokens;
    let is_division = |at: &usize| tokens.is_operator(*at, "//") || tokens.is_operator(*at, "/");
    let Some(first) = value.clone().find(is_division) else {
        let calls = said.calls.iter().filter(|call| value.contains(&call.at));
        let mut dividing = calls.filter(|call| DIVIDING.contains(&call.name()));
        let call = dividing.next()?;
        let [total, through, ..] = call.positional.as_slice() else {
            return None;
        };
        return Some(Quotient {
            total: total.clone(),
            through: vec![through.clone()],
        });
    };
    // Back to the bracket or the comma before it.
    let mut from = first;
    let mut closed = 0;
    while from > value.start {
        match tokens.text(from - 1) {
            ")" | "]" => closed += 1,
            "(" | "[" if closed > 0 => closed -= 1,
            "(" | "[" | "," if closed == 0 => break,
            _ => {}
        }
        from -= 1;
    }
    let divisors = (first..value.end).filter(is_division).map(|at| {
        let end = match tokens.dotted(at + 1, value.end) {
            Some((_, behind)) if tokens.is_operator(behind, "(") => tokens.after(behind),
            Some((_, behind)) => behind,
            None => tokens.after(at + 1),
        };
        at + 1..end.min(value.end)
    });
    Some(Quotient {
        total: from..first,
        through: divisors.collect(),
    })
}

/// The last parts of the names among these tokens, without what is called.
fn names<'t>(said: &SourceStatements<'t>, range: &TokenRange) -> BTreeSet<&'t str> {
    let tokens = &said.tokens;
    let mut found = BTreeSet::new();
    let mut at = range.start;
    while at < range.end {
        match tokens.dotted(at, range.end) {
            Some((name, behind)) => {
                if !tokens.is_operator(behind, "(") {
                    found.insert(leaf(name));
                }
                at = behind;
            }
            // `config["batch"]`
            None => {
                found.extend(tokens.string(at));
                at += 1;
            }
        }
    }
    found
}

/// These names and those that they stand for: `bs = args.batch_size`, `tokens = batch * length`.
fn with_aliases<'t>(said: &SourceStatements<'t>, names_of: BTreeSet<&'t str>) -> BTreeSet<String> {
    let mut all = names_of;
    for _ in 0..MOST_ALIASES {
        let known = said
            .assigned
            .iter()
            .filter(|one| all.contains(leaf(one.target)));
        let products = known.filter(|one| is_product(said, &one.value));
        let more: Vec<&str> = products.flat_map(|one| names(said, &one.value)).collect();
        let before = all.len();
        all.extend(more);
        if all.len() == before {
            break;
        }
    }
    all.into_iter().map(String::from).collect()
}

fn is_product(said: &SourceStatements<'_>, value: &TokenRange) -> bool {
    let tokens = &said.tokens;
    let is_part = |at: usize| {
        let is_sign = [".", "*", "(", ")", "[", "]", "//", "/", ","];
        let is_said = is_sign.iter().any(|sign| tokens.is_operator(at, sign));
        is_said
            || tokens.is_name(at)
            || tokens.string(at).is_some()
            || tokens.text(at).parse::<u64>().is_ok()
    };
    value.len() <= LONGEST_PRODUCT && value.clone().all(is_part)
}

/// `accumulate: ${div_up:${total}, ${eval:${devices} * ${loader.batch_size}}}`.
fn of_settings(file: &NamedSettingsFile) -> Vec<ComputedSteps> {
    let extension = file.path.rsplit('.').next().unwrap_or_default();
    let settings = settings_of(extension, &file.text).unwrap_or_default();
    let computed = settings.all.iter().filter_map(|setting| {
        let name = leaf(&setting.name);
        let written = file.text.get(setting.from..setting.to)?;
        let divides = written.contains('/') || DIVIDING.iter().any(|one| written.contains(one));
        if !divides || !family::counts_micro_batches(name) {
            return None;
        }
        // The innermost references are names.
        let inner = written.split("${").skip(1).filter_map(|part| {
            let (reference, _) = part.split_once('}')?;
            (!reference.contains([':', ' '])).then(|| leaf(reference).to_string())
        });
        let mut references = inner;
        let total = references.next()?;
        Some(ComputedSteps {
            name: name.into(),
            totals: BTreeSet::from([total]),
            written: None,
            through: references.collect(),
        })
    });
    computed.collect()
}

fn leaf(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}
