//! A learning rate that a program computes of its batch: `lr = base * batch / 256`. There a smaller batch changes the training
//! twice, and accumulation does not help where the formula leaves it out, so a person is told.

use super::branches;
use super::names_in::{names, with_aliases};
use super::statements::{SourceStatements, TokenRange};
use crate::recognize::family;
use crate::recognize::learning_rate_rule::LearningRateRule;

/// Whether a line of this source may have such a formula: most have none, and need not be taken apart.
pub(super) fn may_compute_one(source: &str) -> bool {
    let mut lines = source.lines();
    (source.contains("batch") || source.contains("bs"))
        && lines.any(|line| {
            let has_rate = line.contains("lr") || line.contains("learning_rate");
            has_rate && line.contains('=') && line.contains(['*', '/'])
        })
}

/// The first formula of a source that computes a learning rate of a rate and a batch.
pub(super) fn of_source(said: &SourceStatements<'_>) -> Option<LearningRateRule> {
    let assigned = said.assigned.iter().chain(&said.augmented);
    let assigned = assigned.map(|one| (one.target, &one.value, one.at));
    let given = said.calls.iter().flat_map(|call| {
        let keywords = call.keywords.iter();
        keywords.map(|(name, value)| (*name, value, call.at))
    });
    let mut all = assigned.chain(given).filter(|(target, ..)| is_rate(target));
    all.find_map(|(target, value, at)| {
        let inside = said.enclosing(at);
        let elsewhere = [inside.function, inside.class];
        let is_of_training = !(elsewhere.into_iter().flatten()).any(family::is_not_of_training);
        is_of_training.then_some(())?;
        let found = of_formula(said, target, value)?;
        Some(LearningRateRule {
            is_conditional: !branches::around(said, at).is_empty(),
            ..found
        })
    })
}

fn of_formula(
    said: &SourceStatements<'_>,
    target: &str,
    value: &TokenRange,
) -> Option<LearningRateRule> {
    let tokens = &said.tokens;
    let multiplies = |at: usize| ["*", "/"].iter().any(|sign| tokens.is_operator(at, sign));
    let direct = names(said, value);
    // `lr *= batch / 256` has the rate on its left.
    let scales_itself = said
        .augmented
        .iter()
        .any(|one| one.target == target && one.value == *value);
    let has_rate = scales_itself || direct.iter().any(|name| is_rate(name));
    if !has_rate || !value.clone().any(multiplies) {
        return None;
    }
    let all = with_aliases(said, direct);
    // A tensor is called `batch`.
    let is_batch = |name: &String| {
        let is_listed = name != "batch" && family::batch_level(name).is_some();
        is_listed || name.ends_with("batch_size") && !family::is_not_of_training(name)
    };
    all.iter().any(is_batch).then(|| LearningRateRule {
        counts_steps: all.iter().any(|name| {
            let is_effective = matches!(
                family::batch_level(name),
                Some(crate::recognize::spellings::BatchArgument::Total)
            );
            family::counts_micro_batches(name) || is_effective
        }),
        is_conditional: false,
    })
}

/// Words of a rate's name beside the rate itself.
const BESIDE: [&str; 22] = [
    "base",
    "basic",
    "init",
    "initial",
    "per",
    "img",
    "image",
    "sample",
    "scaled",
    "linear",
    "linearly",
    "absolute",
    "actual",
    "new",
    "effective",
    "peak",
    "max",
    "reference",
    "current",
    "target",
    "adjusted",
    "final",
];

/// `lr`, `base_lr`, `learning_rate`, `blr`; not `lr_decay_steps`.
fn is_rate(name: &str) -> bool {
    let leaf = name.rsplit('.').next().unwrap_or(name).to_lowercase();
    let words: Vec<&str> = leaf.split('_').collect();
    let is_lr = |word: &&str| matches!(*word, "lr" | "blr");
    let has_rate =
        words.iter().any(is_lr) || words.windows(2).any(|two| two == ["learning", "rate"]);
    let is_beside =
        |word: &&str| is_lr(word) || matches!(*word, "learning" | "rate") || BESIDE.contains(word);
    has_rate && words.iter().all(is_beside)
}

/// Whether an argument's description says that it only serves to compute the learning rate: "batch size per GPU for auto-rescale
/// learning rate".
pub(super) fn is_only_for_it(described: &str) -> bool {
    let described = described.to_lowercase();
    let clause = described.split(['.', ',', ';', '(']).next();
    let words = clause
        .unwrap_or_default()
        .split(|c: char| !c.is_alphanumeric());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let purpose = words.iter().position(|word| ["for", "to"].contains(word));
    let purpose = purpose.map_or(&[][..], |at| &words[at + 1..]);
    purpose.contains(&"lr") || purpose.windows(2).any(|two| two == ["learning", "rate"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_learning_rate_is_told_by_its_formula() {
        let rule = |counts_steps| {
            Some(LearningRateRule {
                counts_steps,
                is_conditional: false,
            })
        };
        for (source, wanted) in [
            ("lr = base_lr * args.batch_size / 256\n", rule(false)),
            ("args.lr *= args.batch_size / 256.\n", rule(false)),
            (
                "eff = args.batch_size * args.accum_iter * world()\nargs.lr = args.blr * eff / 256\n",
                rule(true),
            ),
            (
                "model.learning_rate = grad_accum_steps * bs * base_lr\n",
                rule(true),
            ),
            (
                "opt = SGD(p, lr=args.lr * args.batch_size / 64)\n",
                rule(false),
            ),
            ("lr = args.lr\n", None),
            ("lr = args.lr * 0.1\n", None),
            ("lr_edges = f(lr_edge * batch_size)\n", None),
            ("lr = lr_of[data.batch] * 2\n", None),
            ("warmup_lr = args.lr * args.batch_size\n", None),
            ("steps = n * lr / batch_size\n", None),
            (
                "def evaluate():\n    lr = base_lr * batch_size / 256\n",
                None,
            ),
        ] {
            let said = SourceStatements::new(source);
            let found = of_source(&said);
            assert_eq!(found, wanted, "{source}");
            assert!(found.is_none() || may_compute_one(source), "{source}");
        }
    }
}
