//! The difference between two commands, word by word: what a remedy changed, for the screen and the
//! recording.

use super::{CommandLine, Word};
use serde::{Deserialize, Serialize};

/// In the order of the new command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "change")]
pub enum Change {
    /// A word that became another.
    Replaced {
        /// Its index in the old command.
        at: usize,
        from: Word,
        to: Word,
    },
    /// Inserted words.
    Added {
        /// The index in the old command that they are inserted at.
        at: usize,
        words: Vec<Word>,
    },
    /// Removed words.
    Removed {
        /// The index of the first one in the old command.
        at: usize,
        words: Vec<Word>,
    },
    /// A changed variable.
    Env {
        name: Word,
        /// The old value, if the command set one.
        from: Option<Word>,
        /// The new value; `None` if it is removed or no longer set.
        to: Option<Word>,
    },
}

/// How many pairs of words are compared with each other at most.
const MOST_PAIRS: usize = 1 << 20;
/// How many words are compared, of those that both end with, where there are more pairs: a value that two options have in
/// common belongs to neither.
const OF_THE_END: usize = 16;

/// Word by word; the longest common subsequence of words is unchanged.
pub fn difference(old: &CommandLine, new: &CommandLine) -> Vec<Change> {
    let mut changes = env_difference(old, new);
    let (lead, a, b) = differing(&old.argv, &new.argv);
    if a.len().saturating_mul(b.len()) > MOST_PAIRS {
        push_hunk(&mut changes, lead, a, b);
        return changes;
    }
    // The lengths of the longest common subsequences of the tails.
    let mut common = vec![vec![0u32; b.len() + 1]; a.len() + 1];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            common[i][j] = if a[i] == b[j] {
                common[i + 1][j + 1] + 1
            } else {
                common[i + 1][j].max(common[i][j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < a.len() || j < b.len() {
        if i < a.len() && j < b.len() && a[i] == b[j] {
            (i, j) = (i + 1, j + 1);
            continue;
        }
        let (from_i, from_j) = (i, j);
        while (i < a.len() || j < b.len()) && !(i < a.len() && j < b.len() && a[i] == b[j]) {
            if j == b.len() || (i < a.len() && common[i + 1][j] >= common[i][j + 1]) {
                i += 1;
            } else {
                j += 1;
            }
        }
        // The value that two options have in common is none of either alone: `--steps 2` did not become `--grad-accum 2`.
        if i < a.len()
            && j < b.len()
            && !is_option(&a[i])
            && let (Some(gone), Some(new)) = (a[from_i..i].last(), b[from_j..j].last())
            && takes_next(gone)
            && takes_next(new)
        {
            (i, j) = (i + 1, j + 1);
        }
        push_hunk(&mut changes, lead + from_i, &a[from_i..i], &b[from_j..j]);
    }
    changes
}

/// The words behind those that both begin with, and how many these are. A command may have tens of thousands (`*.jpg`), of
/// which a remedy changes a few.
fn differing<'a>(old: &'a [Word], new: &'a [Word]) -> (usize, &'a [Word], &'a [Word]) {
    let lead = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let (a, b) = (&old[lead..], &new[lead..]);
    let ends = a.iter().rev().zip(b.iter().rev());
    let same = match a.len().saturating_mul(b.len()) > MOST_PAIRS {
        true => ends.take_while(|(a, b)| a == b).count(),
        false => 0,
    };
    let cut = same.saturating_sub(OF_THE_END);
    (lead, &a[..a.len() - cut], &b[..b.len() - cut])
}

fn push_hunk(changes: &mut Vec<Change>, at: usize, old: &[Word], new: &[Word]) {
    let both = old
        .iter()
        .zip(new)
        .take_while(|(old, new)| is_same_argument(old, new))
        .count();
    for k in 0..both {
        changes.push(Change::Replaced {
            at: at + k,
            from: old[k].clone(),
            to: new[k].clone(),
        });
    }
    if old.len() > both {
        changes.push(Change::Removed {
            at: at + both,
            words: old[both..].to_vec(),
        });
    }
    if new.len() > both {
        changes.push(Change::Added {
            at: at + old.len(),
            words: new[both..].to_vec(),
        });
    }
}

/// Whether one word may have become the other: an option is no other option.
fn is_same_argument(old: &Word, new: &Word) -> bool {
    let name = |word: &Word| {
        let text = word.to_string_lossy();
        text.split('=').next().unwrap_or_default().to_string()
    };
    match (is_option(old), is_option(new)) {
        (false, false) => true,
        (true, true) => name(old) == name(new),
        (true, false) | (false, true) => false,
    }
}

fn is_option(word: &Word) -> bool {
    let text = word.to_string_lossy();
    text.starts_with('-') && text.parse::<f64>().is_err()
}

/// An option whose value, if it has one, is the next word.
fn takes_next(word: &Word) -> bool {
    is_option(word) && !word.as_bytes().contains(&b'=')
}

fn env_difference(old: &CommandLine, new: &CommandLine) -> Vec<Change> {
    let mut names: Vec<&Word> = Vec::new();
    for change in old.env.iter().chain(&new.env) {
        if !names.contains(&&change.name) {
            names.push(&change.name);
        }
    }
    names
        .into_iter()
        .filter_map(|name| {
            let (from, to) = (old.env_value(name).cloned(), new.env_value(name).cloned());
            (from != to).then(|| Change::Env {
                name: name.clone(),
                from,
                to,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_say_words() {
        let old = CommandLine::typed("python train.py --batch-size 64 --lr 1");
        let mut new = CommandLine::typed("python train.py --batch-size 32 --grad-accum 2 --lr 1");
        new.set_env("A", Some(Word::from("b")));
        assert_eq!(
            difference(&old, &new),
            [
                Change::Env {
                    name: "A".into(),
                    from: None,
                    to: Some("b".into())
                },
                Change::Replaced {
                    at: 3,
                    from: "64".into(),
                    to: "32".into()
                },
                Change::Added {
                    at: 4,
                    words: vec!["--grad-accum".into(), "2".into()]
                },
            ]
        );
        assert_eq!(difference(&old, &old), []);
    }

    #[test]
    fn no_option_becomes_another() {
        let typed = CommandLine::typed;
        for (new, expected) in [
            (
                "t.py --batch 32 --grad-accum 2",
                "b32 -steps 60 +grad-accum 2",
            ),
            (
                "t.py --batch 64 --grad-accum 60",
                "-steps 60 +grad-accum 60",
            ),
            ("t.py --batch 64 --grad-accum", "-steps 60 +grad-accum"),
        ] {
            let changes = difference(&typed("t.py --batch 64 --steps 60"), &typed(new));
            let said = changes.iter().map(|change| {
                let text = |words: &[Word]| {
                    let words: Vec<String> = words.iter().map(Word::to_string_lossy).collect();
                    words.join(" ").replace("--", "")
                };
                match change {
                    Change::Replaced { to, .. } => format!("b{}", to.to_string_lossy()),
                    Change::Added { words, .. } => format!("+{}", text(words)),
                    Change::Removed { words, .. } => format!("-{}", text(words)),
                    Change::Env { .. } => String::new(),
                }
            });
            assert_eq!(said.collect::<Vec<_>>().join(" "), expected);
        }
        let changes = difference(&typed("t.py --lr=-1 -5"), &typed("t.py --lr=2 -6"));
        assert_eq!(changes.len(), 2, "{changes:?}");
    }

    /// `infer.py --batch 8 data/*.jpg`: all pairs of words would be gigabytes.
    #[test]
    fn of_tens_of_thousands_of_words_those_that_differ_are_compared() {
        let files: Vec<String> = (0..60_000).map(|k| format!("{k}.jpg")).collect();
        let typed = |front: &str| CommandLine::typed(&format!("{front} {}", files.join(" ")));
        let (old, new) = (typed("t.py --batch 8 --all"), typed("t.py --batch 4"));
        let changes = difference(&old, &new);
        let expected = [
            Change::Replaced {
                at: 2,
                from: "8".into(),
                to: "4".into(),
            },
            Change::Removed {
                at: 3,
                words: vec!["--all".into()],
            },
        ];
        assert_eq!(changes, expected);
        let mut others = old.clone();
        others.argv[4..].reverse();
        assert!(!difference(&old, &others).is_empty());
    }

    #[test]
    fn removed_words_are_said() {
        let changes = difference(
            &CommandLine::typed("a --noamp b"),
            &CommandLine::typed("a b"),
        );
        assert_eq!(
            changes,
            [Change::Removed {
                at: 1,
                words: vec!["--noamp".into()]
            }]
        );
    }
}
