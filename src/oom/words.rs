//! What a stream is searched for: literals, several at a time. The regex crate finds up to some thirty of them by the processor's
//! vector instructions at 5 to 10 GB/s, and more than 64 at a tenth of that, so many words are searched for in parts. With
//! each part the time grows by that of one.

use regex::bytes::Regex;

/// Words of a part. Of a hundred words, 32 at a time take half the time of 64.
const OF_A_PART: usize = 32;

#[derive(Debug)]
pub(crate) struct Words {
    parts: Vec<Regex>,
}

/// Where each part has its next word in one text, so that none is searched for twice.
#[derive(Debug)]
pub(super) struct NextWords {
    at: Vec<usize>,
}

impl Words {
    pub(super) fn new(mut words: Vec<&str>) -> Words {
        // Those that begin alike are searched for together.
        words.sort_unstable();
        let parts = words.chunks(OF_A_PART).map(|part| {
            let part: Vec<String> = part.iter().map(|word| regex::escape(word)).collect();
            Regex::new(&part.join("|")).expect("literals make a valid expression")
        });
        Words {
            parts: parts.collect(),
        }
    }

    /// What an expression finds.
    pub(crate) fn of(expression: Regex) -> Words {
        Words {
            parts: vec![expression],
        }
    }

    /// Whether a text has one of the words that `counts`.
    pub(super) fn has(&self, text: &[u8], counts: impl Fn(&[u8]) -> bool) -> bool {
        let mut parts = self.parts.iter();
        parts.any(|part| part.find_iter(text).any(|word| counts(word.as_bytes())))
    }

    /// Where the first word from `at` on begins.
    pub(super) fn find_at(&self, text: &[u8], at: usize) -> Option<usize> {
        let found = self.parts.iter().filter_map(|part| part.find_at(text, at));
        found.map(|word| word.start()).min()
    }

    /// For a text of which nothing is known.
    pub(super) fn nowhere(&self) -> NextWords {
        NextWords {
            at: Vec::with_capacity(self.parts.len()),
        }
    }

    /// The same for ever later places of one text; its end where there is none.
    pub(super) fn next_from(&self, text: &[u8], from: usize, known: &mut NextWords) -> usize {
        let find = |part: &Regex| {
            let found = part.find_at(text, from);
            found.map_or(text.len(), |word| word.start())
        };
        if known.at.is_empty() {
            known.at.extend(self.parts.iter().map(find));
        }
        for (part, next) in self.parts.iter().zip(&mut known.at) {
            if *next < from {
                *next = find(part);
            }
        }
        known.at.iter().copied().min().unwrap_or(text.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_word_is_found_whichever_part_has_it() {
        let all: Vec<String> = (0..100).map(|number| format!("word{number:02}.")).collect();
        let words = Words::new(all.iter().map(String::as_str).collect());
        assert!(words.parts.len() > 2);
        let text = b"word99. and word00. and word50. and word99.";
        assert_eq!(words.find_at(text, 0), Some(0));
        assert_eq!(words.find_at(text, 1), Some(12));
        let mut known = words.nowhere();
        let mut found = Vec::new();
        let mut at = 0;
        while at < text.len() {
            at = words.next_from(text, at, &mut known);
            found.push(at);
            at += 1;
        }
        assert_eq!(found, [0, 12, 24, 36, text.len()]);
        assert!(words.has(text, |word| word == b"word50."));
        assert!(!words.has(text, |word| word == b"word51."));
        assert!(!words.has(b"word", |_| true));
    }
}
