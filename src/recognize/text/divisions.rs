//! What a program's text divides its batch by: in a formula (`batch_size // accumulation`), or by cutting the batch that its
//! loader gives into as many parts as it accumulates.

use super::names_in::{leaf, names};
use super::statements::{CallSite, SourceStatements, TokenRange};
use crate::recognize::family;
use std::collections::BTreeSet;

/// So many pairs of a file are kept.
const MOST_PAIRS: usize = 1000;

/// Functions that cut what they are given, or what they are a method of, into so many parts.
const CUTTING: [&str; 3] = ["chunk", "tensor_split", "array_split"];

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Divisions {
    /// Pairs of names where the text divides the first by the second.
    pairs: Vec<(String, String)>,
    /// What counts the parts that any batch is cut into.
    parts: BTreeSet<String>,
}

impl Divisions {
    pub fn read<'s, 't: 's>(sources: impl Iterator<Item = &'s SourceStatements<'t>>) -> Divisions {
        let mut divisions = Divisions::default();
        for said in sources {
            divisions.pairs.extend(pairs(said));
            divisions.parts.extend(parts(said));
        }
        divisions
    }

    /// Whether one number, or whatever is a batch, is divided by the other.
    pub fn divides(&self, name: &str, by: &str) -> bool {
        let is_formula = self.pairs.iter().any(|pair| pair.0 == name && pair.1 == by);
        is_formula || self.parts.contains(by)
    }

    /// Whether a total is divided among devices, or something by a device's batch, and so counts micro-batches.
    pub fn shares(&self, total: &str, of_device: &str) -> bool {
        let mut pairs = self.pairs.iter();
        pairs.any(|(what, through)| {
            through == of_device || what == total && family::is_ranks(through)
        })
    }
}

/// `batch_size // accumulation`, `args.batch_size / args.accumulation`; also by the ranks, and by a device's batch.
fn pairs(said: &SourceStatements<'_>) -> Vec<(String, String)> {
    let tokens = &said.tokens;
    let by = (1..tokens.all.len()).filter(|at| {
        ["/", "//", "/=", "//="]
            .iter()
            .any(|op| tokens.is_operator(*at, op))
    });
    let pairs = by.flat_map(|at| {
        // Through a name, or through a product in brackets.
        let factors = match tokens.is_operator(at + 1, "(") {
            true => tokens.split(at + 2..tokens.after(at + 1).saturating_sub(1), "*"),
            false => std::iter::once(at + 1..tokens.all.len()).collect(),
        };
        let what = tokens.is_name(at - 1).then(|| tokens.text(at - 1));
        factors.into_iter().filter_map(move |factor| {
            let (dotted, _) = tokens.dotted(factor.start, factor.end)?;
            let through = leaf(dotted);
            let is_told = family::is_accumulation(through)
                || family::is_ranks(through)
                || family::is_batch_of_device(through);
            is_told.then_some((what?.to_string(), through.to_string()))
        })
    });
    pairs.take(MOST_PAIRS).collect()
}

/// `for i in range(accumulation): part = cut(batch, i, accumulation)`, `batch.chunk(accumulation)`.
fn parts(said: &SourceStatements<'_>) -> BTreeSet<String> {
    let mut found: BTreeSet<String> = said
        .calls
        .iter()
        .filter_map(|call| cut(said, call))
        .collect();
    for (at, statement) in said.tokens.statements.iter().enumerate() {
        let Some((index, steps)) = counted_loop(said, &statement.tokens) else {
            continue;
        };
        let behind = said.tokens.statements[at + 1..].iter();
        let body = behind.take_while(|inner| inner.indent > statement.indent);
        let Some(end) = body.last().map(|last| last.tokens.end) else {
            continue;
        };
        let body = statement.tokens.end..end;
        let calls = || said.calls.iter().filter(|call| body.contains(&call.at));
        let takes_both = |call: &CallSite<'_>| {
            let given = names(said, &(call.at..call.end));
            given.contains(index) && given.contains(steps)
        };
        // What takes the next batch of a loader in each round is given whole ones.
        if calls().any(takes_both) && !calls().any(|call| call.name() == "next") {
            found.insert(steps.into());
        }
    }
    found
}

/// What a call cuts into as many parts as this name counts.
fn cut(said: &SourceStatements<'_>, call: &CallSite<'_>) -> Option<String> {
    let counts = call
        .positional
        .last()
        .filter(|_| CUTTING.contains(&call.name()))?;
    let (dotted, behind) = said.tokens.dotted(counts.start, counts.end)?;
    let name = leaf(dotted);
    (behind == counts.end && family::is_accumulation(name)).then(|| name.into())
}

/// `for index in range(accumulation):`
fn counted_loop<'t>(said: &SourceStatements<'t>, head: &TokenRange) -> Option<(&'t str, &'t str)> {
    let tokens = &said.tokens;
    let at = head.start;
    let is_loop = tokens.text(at) == "for"
        && tokens.is_name(at + 1)
        && tokens.text(at + 2) == "in"
        && tokens.text(at + 3) == "range"
        && tokens.is_operator(at + 4, "(");
    let (dotted, behind) = tokens.dotted(at + 5, head.end).filter(|_| is_loop)?;
    let steps = leaf(dotted);
    (tokens.is_operator(behind, ")") && family::is_accumulation(steps))
        .then_some((tokens.text(at + 1), steps))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn divides(text: &str) -> bool {
        let said = SourceStatements::new(text);
        Divisions::read(std::iter::once(&said)).divides("batch_size", "accumulation_steps")
    }

    #[test]
    fn a_batch_is_divided_by_a_formula_or_cut_into_parts() {
        for text in [
            "micro = batch_size // accumulation_steps\n",
            "self.micro = self.batch_size // (self.world_size * self.accumulation_steps)\n",
            "for at in range(self.config.accumulation_steps):\n    part = cut(batch, at, self.config.accumulation_steps)\n    loss(part).backward()\n",
            "for x in batch.chunk(args.accumulation_steps):\n    model(x)\n",
            "xs = torch.chunk(x, accumulation_steps)\n",
        ] {
            assert!(divides(text), "{text}");
        }
        for text in [
            // The loss alone is divided.
            "for at in range(accumulation_steps):\n    x, y = next(batches)\n    (model(x, y) / accumulation_steps).backward()\n",
            "for at in range(accumulation_steps):\n    x = next(batches)\n    log(at, accumulation_steps)\n",
            "for at in range(accumulation_steps):\n    loss = model(batch())\nlog(at, accumulation_steps)\n",
            "q, k, v = x.chunk(3)\n",
            "xs = x.chunk(heads)\n",
        ] {
            assert!(!divides(text), "{text}");
        }
    }
}
