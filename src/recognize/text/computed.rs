//! Accumulation that a program computes of a total and its batch: `steps = total // (batch * ranks)`. There a smaller batch
//! makes more micro-batches by itself, so the total stays and no other number moves along.

use super::learning_rate;
use super::names_in::{leaf, names, with_aliases};
use super::places::{OptionPlaces, listed_devices};
use super::statements::{SourceStatements, TokenRange};
use super::{NamedSettingsFile, asks_to_divide};
use crate::recognize::config_formats::settings_of;
use crate::recognize::family;
use crate::recognize::family::LISTS_OF_GPUS;
use crate::recognize::learning_rate_rule::LearningRateRule;
use std::collections::BTreeSet;

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
    /// How the learning rate follows it.
    pub(crate) rate: Option<LearningRateRule>,
    /// How many devices the default of an option lists, among which one process splits it.
    pub(crate) listed_devices: Option<u64>,
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
            let has_rate = rules.rate.is_none() && learning_rate::may_compute_one(source);
            let lists = LISTS_OF_GPUS.iter().any(|option| source.contains(option));
            if computes || places || has_rate || lists {
                let said = SourceStatements::new(source);
                rules.computed.extend(of_source(&said));
                rules.places.add(&said);
                rules.rate = rules.rate.or_else(|| learning_rate::of_source(&said));
                rules.listed_devices = rules.listed_devices.or_else(|| listed_devices(&said));
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

    /// What of it is called a device's batch.
    pub(super) fn batch_of_device(&self) -> Option<&str> {
        let mut names = self.through.iter();
        let is_batch = |name: &&String| {
            use crate::recognize::spellings::BatchArgument::{Micro, Plain};
            matches!(family::batch_level(name), Some(Micro | Plain))
        };
        names.find(is_batch).map(String::as_str)
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
        let quotient = quotient(said, &one.value)
            .filter(|_| family::counts_micro_batches(name) || is_given_as_steps(said, name))?;
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

/// Whether something is given what a name stands for as its accumulation: `Trainer(accumulate_grad_batches=grad_steps)`.
fn is_given_as_steps(said: &SourceStatements<'_>, name: &str) -> bool {
    let mut keywords = said.calls.iter().flat_map(|call| &call.keywords);
    keywords.any(|(keyword, value)| {
        family::counts_micro_batches(keyword) && said.tokens.text_of(value) == name
    })
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
