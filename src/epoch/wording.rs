//! What one line says of the epoch: the table of wordings, `wordings.toml`, and how a line is read
//! by it.

use crate::oom::Words;
use regex::bytes::{Regex, RegexSet};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// What a line says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineMeaning {
    /// This is the epoch.
    Number(u64),
    /// So many have ended, and part of another: `1.37`, or a bar over epochs.
    Ended(u64),
    /// The head of a table whose first row says it.
    Head,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Says {
    Number,
    Ended,
    Head,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WordingRow {
    says: Says,
    text: String,
    #[serde(default)]
    proof: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WordingFile {
    hint: String,
    never: String,
    progress: String,
    settings: String,
    row: String,
    parts: BTreeMap<String, String>,
    wording: Vec<WordingRow>,
}

/// The table, compiled.
struct EpochWordings {
    hint: Words,
    never: Regex,
    progress: Regex,
    settings: Regex,
    row: Regex,
    rows: Vec<(WordingRow, Regex)>,
    /// All rows at once: most lines with a hint say nothing.
    any: RegexSet,
}

static WORDINGS: LazyLock<EpochWordings> = LazyLock::new(|| {
    let file: WordingFile =
        toml::from_str(include_str!("wordings.toml")).expect("wordings.toml is valid");
    let whole = |text: &str| {
        let mut text = format!("(?-u){text}");
        // A part may be made of others.
        for _ in 0..2 {
            for (name, part) in &file.parts {
                text = text.replace(&format!("{{{name}}}"), part);
            }
        }
        text
    };
    let compiled = |text: &str| Regex::new(&whole(text)).expect("wordings.toml has expressions");
    EpochWordings {
        hint: Words::of(compiled(&file.hint)),
        never: compiled(&file.never),
        progress: compiled(&file.progress),
        settings: compiled(&file.settings),
        row: compiled(&file.row),
        any: RegexSet::new(file.wording.iter().map(|row| whole(&row.text)))
            .expect("each of them is one"),
        rows: file
            .wording
            .into_iter()
            .map(|row| {
                let text = compiled(&row.text);
                (row, text)
            })
            .collect(),
    }
});

/// What every line that may say an epoch has.
pub(super) fn hint() -> &'static Words {
    &WORDINGS.hint
}

/// What `line`, which has no escapes, says, and where its words begin.
pub(super) fn read(line: &[u8]) -> Option<(LineMeaning, usize)> {
    let table = &*WORDINGS;
    if table.never.is_match(line) {
        return None;
    }
    let rows = table.any.matches(line).into_iter();
    rows.map(|row| &table.rows[row])
        .find(|(row, _)| !row.proof || tells_of_training(line))
        .and_then(|(row, text)| meaning(row.says, text, line))
}

/// What the first row below a [`LineMeaning::Head`] says.
pub(super) fn row(line: &[u8]) -> Option<(LineMeaning, usize)> {
    meaning(Says::Number, &WORDINGS.row, line)
}

fn meaning(says: Says, text: &Regex, line: &[u8]) -> Option<(LineMeaning, usize)> {
    let found = text.captures(line)?;
    let at = found.name("at")?.start();
    let number = || std::str::from_utf8(&found["n"]).ok()?.parse().ok();
    Some(match says {
        Says::Number => (LineMeaning::Number(number()?), at),
        Says::Ended => (LineMeaning::Ended(number()?), at),
        Says::Head => (LineMeaning::Head, at),
    })
}

/// Whether a line of names and values is of the training's progress, and no echo of its settings.
fn tells_of_training(line: &[u8]) -> bool {
    WORDINGS.progress.is_match(line) && !WORDINGS.settings.is_match(line)
}

#[cfg(test)]
mod tests;
