//! The names in a formula, and those that they stand for.

use super::statements::{SourceStatements, TokenRange};
use std::collections::BTreeSet;

/// So often a name may stand for another one.
const MOST_ALIASES: usize = 4;

/// Longer values are no products of sizes.
const LONGEST_PRODUCT: usize = 40;

/// The last parts of the names among these tokens, without what is called.
pub(super) fn names<'t>(said: &SourceStatements<'t>, range: &TokenRange) -> BTreeSet<&'t str> {
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
pub(super) fn with_aliases<'t>(
    said: &SourceStatements<'t>,
    names_of: BTreeSet<&'t str>,
) -> BTreeSet<String> {
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

/// The last part of a dotted name.
pub(super) fn leaf(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}
