//! Numbers that are a share of the batch: the text takes them from it and goes on with the rest
//! (`unlabeled = batch_size - args.labeled_bs`). A smaller batch beside the same share has less left, or nothing.

use super::ReadSource;
use super::SourceRole;
use super::names_in::{leaf, with_aliases};
use super::statements::SourceStatements;
use crate::recognize::family;
use std::collections::BTreeSet;

/// So many of a program are kept.
const MOST: usize = 100;

/// Pairs of names of which the second is a share of the first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Shares(Vec<(BTreeSet<String>, String)>);

impl Shares {
    pub fn read(sources: &[ReadSource<'_, '_>]) -> Shares {
        let near = sources
            .iter()
            .filter(|(source, _)| source.role != SourceRole::Distant);
        let all = near.flat_map(|(_, said)| taken_from_batches(said));
        Shares(all.take(MOST).collect())
    }

    /// The names of the numbers that are a share of that of this name.
    pub fn of<'s>(&'s self, whole: &'s str) -> impl Iterator<Item = &'s str> {
        let all = self.0.iter();
        all.filter(move |(wholes, _)| wholes.contains(whole))
            .map(|(_, share)| share.as_str())
    }
}

/// `batch_size - args.labeled_bs`: both are batches by their names.
fn taken_from_batches(said: &SourceStatements<'_>) -> Vec<(BTreeSet<String>, String)> {
    let tokens = &said.tokens;
    let is_batch = |name: &str| {
        let is_listed = family::batch_level(name).is_some();
        is_listed || family::like_a_batch(name).is_some()
    };
    let signs = (1..tokens.all.len()).filter(|at| tokens.is_operator(*at, "-"));
    let pairs = signs.filter_map(|at| {
        let whole = tokens.is_name(at - 1).then(|| tokens.text(at - 1))?;
        let (share, _) = tokens.dotted(at + 1, tokens.all.len())?;
        let share = leaf(share);
        if !is_batch(whole) || !is_batch(share) || whole == share {
            return None;
        }
        Some((
            with_aliases(said, BTreeSet::from([whole])),
            share.to_string(),
        ))
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recognize::text::tests::source;

    #[test]
    fn what_is_taken_from_the_batch_is_a_share_of_it() {
        let text = "bs = args.batch_size\nsampler = Two(a, b, bs, bs - args.labeled_bs)\nn = total - batch_size\nk = batch_size - 1\n";
        let read = source("/p/a.py", text, SourceRole::Script);
        let said = SourceStatements::new(&read.text);
        let shares = Shares::read(&[(&read, said)]);
        let of = |name| shares.of(name).collect::<Vec<_>>();
        assert_eq!(of("batch_size"), ["labeled_bs"]);
        assert_eq!(of("bs"), ["labeled_bs"]);
        assert_eq!(of("total"), [""; 0]);
        assert_eq!(of("labeled_bs"), [""; 0]);
    }
}
