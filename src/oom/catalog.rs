//! The texts that are recognized, for somebody who reads about them: the tables' rows without what only the search of a stream
//! needs.

use super::consequences::{self, ConsequenceKind};
use super::report::{OomKind, OomSign};
use super::table::WordingTable;

/// Words of an out-of-memory message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageText {
    pub kind: OomKind,
    pub sign: Option<OomSign>,
    /// They say that a process was killed, not why.
    pub suspicion: bool,
    /// What varies is SIZE, N or an ellipsis.
    pub words: String,
}

/// Of every row of the table, in its order.
pub fn message_texts() -> Vec<MessageText> {
    let rows = WordingTable::get().wordings.iter();
    rows.flat_map(|row| {
        row.text.iter().map(|text| MessageText {
            kind: row.kind,
            sign: row.sign,
            suspicion: row.suspicion,
            words: text.shown(),
        })
    })
    .collect()
}

/// What looks like an out-of-memory message and is none: whose it is, and its words.
pub fn texts_of_none() -> Vec<(&'static str, String)> {
    let texts = WordingTable::get().none_of_it();
    texts.map(|(whose, text)| (whose, text.shown())).collect()
}

/// What the other ranks, launchers and schedulers print once a rank has failed. Words that stand in many lines are shown with
/// what a line has besides.
pub fn aftermath_texts() -> Vec<(ConsequenceKind, String)> {
    let shown = |words: &str, also: &[String]| match also {
        [] => words.to_string(),
        also => format!("{words} … {}", also.join(", or ")),
    };
    let rows = consequences::rows();
    rows.flat_map(|(kind, texts, also)| {
        let texts = texts.iter();
        texts.map(move |words| (kind, shown(words.trim(), also)))
    })
    .collect()
}
