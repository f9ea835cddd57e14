//! The words that the raw output is searched for: only lines with one of them are read.

use super::phrases::PHRASES;
use super::table::WordingTable;
use regex::bytes::Regex;
use std::sync::LazyLock;

/// Every message, and every line about the program's end, has one of these.
pub(super) static WORDS: LazyLock<Regex> = LazyLock::new(|| {
    let pattern: Vec<String> = words().into_iter().map(regex::escape).collect();
    Regex::new(&pattern.join("|")).expect("literals make a valid expression")
});

/// As few as possible: a word that contains another is left out.
pub(super) fn words() -> Vec<&'static str> {
    let rows = WordingTable::get().wordings.iter();
    let mut words: Vec<&str> = rows
        .flat_map(|row| row.find.iter().map(String::as_str))
        .chain(PHRASES.aftermath.find.iter().map(String::as_str))
        .collect();
    words.sort_by_key(|word| word.len());
    let mut fewest: Vec<&str> = Vec::new();
    for word in words {
        if !fewest.iter().any(|shorter| word.contains(shorter)) {
            fewest.push(word);
        }
    }
    fewest
}
