//! Which module of the model holds the memory at one moment of the step. Repeated blocks are one row:
//! `transformer.h.0–11.mlp`, twelve of them.

use super::{Category, StepAnatomy};
use crate::units::Bytes;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// What one module, or several alike, hold of one category.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleHolding {
    /// `transformer.h.0–11.mlp`; `None` for what no module allocated.
    pub module: Option<String>,
    /// How many modules that are.
    pub alike: usize,
    pub category: Category,
    pub bytes: Bytes,
    pub blocks: usize,
}

/// The numbers in the names of modules that differ in these alone.
pub(super) type Numbers = BTreeSet<Vec<u64>>;

/// The modules that hold memory at a position, the largest first; empty if no module is known.
pub fn by_module(anatomy: &StepAnatomy, position: usize) -> Vec<ModuleHolding> {
    if anatomy.modules.is_empty() {
        return Vec::new();
    }
    let names: Vec<(String, Vec<u64>)> = anatomy.modules.iter().map(|n| pattern(n)).collect();
    // Sums by pattern and category: modules are few, blocks are many.
    let mut found: BTreeMap<(Option<&str>, Category), (Bytes, usize, Numbers)> = BTreeMap::new();
    for block in anatomy.blocks.iter().filter(|b| b.is_alive(position)) {
        let name = block.module.map(|module| &names[module]);
        let key = (name.map(|(pattern, _)| pattern.as_str()), block.category);
        let (bytes, blocks, numbers) = found.entry(key).or_default();
        *bytes += block.bytes;
        *blocks += 1;
        if let Some((_, of)) = name
            && !numbers.contains(of)
        {
            numbers.insert(of.clone());
        }
    }
    let each = found.into_iter();
    let mut holdings: Vec<ModuleHolding> = each
        .map(
            |((pattern, category), (bytes, blocks, numbers))| ModuleHolding {
                module: pattern.map(|pattern| spelled(pattern, &numbers)),
                alike: numbers.len(),
                category,
                bytes,
                blocks,
            },
        )
        .collect();
    holdings.sort_by_key(|holding| Reverse(holding.bytes));
    holdings
}

/// `h.3.mlp` as `h.#.mlp` and its numbers.
pub(super) fn pattern(name: &str) -> (String, Vec<u64>) {
    let mut numbers = Vec::new();
    let parts = name.split('.').map(|part| match part.parse() {
        Ok(number) => {
            numbers.push(number);
            "#"
        }
        Err(_) => part,
    });
    let parts: Vec<&str> = parts.collect();
    (parts.join("."), numbers)
}

/// `h.#.mlp` with the numbers of several as `h.0–11.mlp`.
pub(super) fn spelled(pattern: &str, numbers: &Numbers) -> String {
    let mut place = 0;
    let parts = pattern.split('.').map(|part| {
        if part != "#" {
            return part.to_string();
        }
        let here = numbers.iter().filter_map(|of| of.get(place));
        let (least, most) = (here.clone().min(), here.max());
        place += 1;
        match (least, most) {
            (Some(least), Some(most)) if least != most => format!("{least}–{most}"),
            (Some(number), _) => number.to_string(),
            (None, _) => part.to_string(),
        }
    });
    let parts: Vec<String> = parts.collect();
    parts.join(".")
}

/// The parts of a name, from the outside in; a number belongs to what it numbers.
pub(super) fn path(module: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for part in module.split('.') {
        let numbers = part.starts_with(|c: char| c.is_ascii_digit());
        match parts.last_mut() {
            Some(last) if numbers => {
                last.push('.');
                last.push_str(part);
            }
            Some(_) | None => parts.push(part.to_string()),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_that_differ_in_a_number_are_one() {
        let numbers = |all: &[&str]| all.iter().map(|name| pattern(name).1).collect::<Numbers>();
        let layers = numbers(&["h.0.mlp", "h.1.mlp", "h.11.mlp"]);
        assert_eq!(spelled("h.#.mlp", &layers), "h.0–11.mlp");
        assert_eq!(spelled("h.#.mlp", &numbers(&["h.3.mlp"])), "h.3.mlp");
        let nested = numbers(&["down.0.attn.1", "down.1.attn.1"]);
        assert_eq!(spelled("down.#.attn.#", &nested), "down.0–1.attn.1");
    }

    #[test]
    fn a_number_belongs_to_what_it_numbers() {
        assert_eq!(
            path("transformer.h.0–11.mlp"),
            ["transformer", "h.0–11", "mlp"]
        );
        assert_eq!(path("0"), ["0"]);
        assert_eq!(path("GPT2"), ["GPT2"]);
    }
}
