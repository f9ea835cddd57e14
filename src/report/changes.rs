//! What was changed in a command, in words: with the option that a value belongs to.

use crate::command::{Change, CommandLine, Word};
use serde::Serialize;

/// One change: what is gone, and what came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WordChange {
    /// The option or variable that both belong to; empty where there is none.
    pub name: String,
    pub from: Option<String>,
    pub to: Option<String>,
}

/// The changes of `command` to another.
pub(super) fn in_words(command: Option<&CommandLine>, changes: &[Change]) -> Vec<WordChange> {
    let argv = command.map_or(&[][..], |command| &command.argv);
    changes.iter().map(|change| one(argv, change)).collect()
}

fn one(argv: &[Word], change: &Change) -> WordChange {
    let text = |word: &Word| word.to_string_lossy();
    let joined = |words: &[Word]| words.iter().map(text).collect::<Vec<_>>().join(" ");
    match change {
        Change::Replaced { at, from, to } => {
            let before = at.checked_sub(1).and_then(|before| argv.get(before));
            let option = before.map(text).filter(|word| word.starts_with('-'));
            let is_value = !text(from).starts_with('-');
            WordChange {
                name: option.filter(|_| is_value).unwrap_or_default(),
                from: Some(text(from)),
                to: Some(text(to)),
            }
        }
        Change::Added { words, .. } => WordChange {
            name: String::new(),
            from: None,
            to: Some(joined(words)),
        },
        Change::Removed { words, .. } => WordChange {
            name: String::new(),
            from: Some(joined(words)),
            to: None,
        },
        Change::Env { name, from, to } => WordChange {
            name: format!("{}=", text(name)),
            from: from.as_ref().map(text),
            to: to.as_ref().map(text),
        },
    }
}

impl WordChange {
    /// `--batch-size 64→32`, `+--grad-accum 2`, `−--amp`, `A=1→2`.
    pub fn text(&self) -> String {
        let name = match self.name.as_str() {
            "" => String::new(),
            name if name.ends_with('=') => name.to_string(),
            name => format!("{name} "),
        };
        match (&self.from, &self.to) {
            (Some(from), Some(to)) => format!("{name}{from}→{to}"),
            (None, Some(to)) => format!("+{name}{to}"),
            (Some(from), None) => format!("−{name}{from}"),
            (None, None) => name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::difference;

    #[test]
    fn a_value_stands_behind_its_option() {
        let command = |line: &str| CommandLine {
            argv: line.split(' ').map(Word::from).collect(),
            ..CommandLine::default()
        };
        let (old, mut new) = (command("t.py --batch 64 --x"), command("t.py --batch 32"));
        new.set_env("A", Some(Word::from("1")));
        let changes = in_words(Some(&old), &difference(&old, &new));
        let words: Vec<String> = changes.iter().map(WordChange::text).collect();
        assert_eq!(words, ["+A=1", "--batch 64→32", "−--x"]);
    }
}
