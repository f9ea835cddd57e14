//! The diff of two commands, word by word, to be shown. Secrets are masked before comparing.

use super::theme::{Theme, Tone};
use crate::command::{Change, CommandLine, EnvChange, Word, difference, quoted};
use crate::event::{EDITS, SourceEdit};

/// A word of a diff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DiffWord {
    /// Quoted for a shell.
    pub text: String,
    pub kind: DiffKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DiffKind {
    Kept,
    Gone,
    New,
}

impl DiffKind {
    pub fn tone(self) -> Tone {
        match self {
            DiffKind::Kept => Tone::Text,
            DiffKind::Gone => Tone::Dim,
            DiffKind::New => Tone::Good,
        }
    }
}

/// The whole new command with the changes marked: `64→32`, `+--amp`, `−--fp32`.
pub(super) fn whole(theme: &Theme, old: &CommandLine, new: &CommandLine) -> Vec<DiffWord> {
    let (old, new) = (old.without_secrets(), new.without_secrets());
    let changes = difference(&old, &new);
    let mut pieces: Vec<DiffWord> = Vec::new();
    let mut words: Vec<DiffWord> = (old.argv.iter())
        .map(|word| piece(shown(word), DiffKind::Kept))
        .collect();
    let mut before = vec![Vec::new(); words.len() + 1];
    for change in &changes {
        match change {
            Change::Env { .. } => pieces.extend(environment(theme, change)),
            Change::Added { at, words } => before[*at].extend(words.iter().map(added)),
            Change::Replaced { at, from, to } => words[*at] = replaced(theme, from, to),
            Change::Removed { at, words: gone } => {
                let gone = removed(theme, gone);
                for (word, gone) in words[*at..].iter_mut().zip(gone) {
                    *word = gone;
                }
            }
        }
    }
    let is_plain = |kept: &&EnvChange| old.env.contains(kept) && kept.name != *EDITS;
    if old.env_value(EDITS) == new.env_value(EDITS) {
        pieces.extend(kept_edits(theme, &new));
    }
    for kept in new.env.iter().filter(is_plain) {
        let value = kept.value.as_ref().map_or("-".to_string(), shown);
        let text = format!("{}={value}", kept.name.to_string_lossy());
        pieces.push(piece(text, DiffKind::Kept));
    }
    let mut words = words.into_iter();
    for added in before {
        pieces.extend(added);
        pieces.extend(words.next());
    }
    pieces
}

/// Numbers that stay changed in the program's text.
pub(super) fn kept_edits(theme: &Theme, command: &CommandLine) -> Vec<DiffWord> {
    let edits = SourceEdit::of(command).into_iter();
    edits
        .map(|edit| piece(theme.glyphs.spelled(&edit.change()), DiffKind::Kept))
        .collect()
}

/// Only the changes, each option with its value: `--batch-size 64→32  +--grad-accum 2`.
pub(super) fn brief(theme: &Theme, old: Option<&CommandLine>, changes: &[Change]) -> Vec<DiffWord> {
    let mut pieces = Vec::new();
    for change in changes {
        match change {
            Change::Env { .. } => pieces.extend(environment(theme, change)),
            Change::Replaced { at, from, to } => {
                let option = at.checked_sub(1).and_then(|before| old?.argv.get(before));
                if let Some(option) = option.filter(|word| word.as_bytes().starts_with(b"-")) {
                    pieces.push(piece(shown(option), DiffKind::Kept));
                }
                pieces.push(replaced(theme, from, to));
            }
            Change::Added { words, .. } => pieces.extend(words.iter().map(added)),
            Change::Removed { words, .. } => pieces.extend(removed(theme, words)),
        }
    }
    pieces
}

fn environment(theme: &Theme, change: &Change) -> Vec<DiffWord> {
    let Change::Env { name, from, to } = change else {
        return Vec::new();
    };
    if *name == *EDITS {
        return edits(theme, from.as_ref(), to.as_ref());
    }
    let name = name.to_string_lossy();
    vec![match (from, to) {
        (Some(from), Some(to)) => {
            let (arrow, from, to) = (theme.glyphs.arrow, shown(from), shown(to));
            // A list that has got one more.
            let more = to
                .strip_prefix(&from)
                .and_then(|more| more.strip_prefix(','));
            let value = match more {
                Some(more) => format!("{from},+{more}"),
                None => of_each_setting(&from, &to, arrow),
            };
            piece(format!("{name}={value}"), DiffKind::New)
        }
        (None, Some(to)) => piece(format!("+{name}={}", shown(to)), DiffKind::New),
        (_, None) => piece(format!("{}{name}", theme.glyphs.minus), DiffKind::Gone),
    }]
}

/// `key:1→2` of lists that have the same keys, or one as a whole and the other.
fn of_each_setting(from: &str, to: &str, arrow: &str) -> String {
    let key = |part: &str| part.split_once(':').map(|(key, _)| key.to_string());
    let (old, new): (Vec<&str>, Vec<&str>) = (from.split(',').collect(), to.split(',').collect());
    let is_same = old.len() == new.len()
        && old
            .iter()
            .zip(&new)
            .all(|(old, new)| key(old).is_some() && key(old) == key(new));
    if !is_same {
        return format!("{from}{arrow}{to}");
    }
    let parts = old
        .iter()
        .zip(&new)
        .map(|(old, new)| match (new.split_once(':'), old == new) {
            (Some((_, value)), false) => format!("{old}{arrow}{value}"),
            (_, _) => old.to_string(),
        });
    parts.collect::<Vec<_>>().join(",")
}

/// Numbers that are changed in the program's text, by file and line.
fn edits(theme: &Theme, from: Option<&Word>, to: Option<&Word>) -> Vec<DiffWord> {
    let (new, gone) = SourceEdit::differences(from, to);
    let new = new
        .iter()
        .map(|edit| piece(theme.glyphs.spelled(&edit.change()), DiffKind::New));
    let gone = gone.iter().map(|edit| {
        let change = theme.glyphs.spelled(&edit.change());
        piece(format!("{}{change}", theme.glyphs.minus), DiffKind::Gone)
    });
    new.chain(gone).collect()
}

fn replaced(theme: &Theme, from: &Word, to: &Word) -> DiffWord {
    let (from, to) = (shown(from), shown(to));
    // `--batch-size=64→32` instead of the option twice.
    let text = match (from.split_once('='), to.split_once('=')) {
        (Some((name, before)), Some((same, after))) if name == same => {
            format!("{name}={before}{}{after}", theme.glyphs.arrow)
        }
        (_, _) => format!("{from}{}{to}", theme.glyphs.arrow),
    };
    piece(text, DiffKind::New)
}

fn added(word: &Word) -> DiffWord {
    let text = shown(word);
    let plus = if text.starts_with('-') { "+" } else { "" };
    piece(format!("{plus}{text}"), DiffKind::New)
}

/// The sign stands before the first of them and before each option, not before an option's value.
fn removed(theme: &Theme, words: &[Word]) -> Vec<DiffWord> {
    let each = words.iter().enumerate().map(|(place, word)| {
        let text = shown(word);
        let minus = match place == 0 || text.starts_with('-') {
            true => theme.glyphs.minus,
            false => "",
        };
        piece(format!("{minus}{text}"), DiffKind::Gone)
    });
    each.collect()
}

fn shown(word: &Word) -> String {
    quoted(&word.to_string_lossy())
}

fn piece(text: String, kind: DiffKind) -> DiffWord {
    DiffWord { text, kind }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(pieces: &[DiffWord]) -> String {
        let texts: Vec<&str> = pieces.iter().map(|piece| piece.text.as_str()).collect();
        texts.join(" ")
    }

    #[test]
    fn differences_read_as_words() {
        let theme = Theme::full();
        for (old, new, whole_text, brief_text) in [
            (
                "python t.py --batch-size 64 --lr 1",
                "python t.py --batch-size 32 --accum 2 --lr 1",
                "python t.py --batch-size 64→32 +--accum 2 --lr 1",
                "--batch-size 64→32 +--accum 2",
            ),
            (
                "python t.py --bs=64 --fp32",
                "python t.py --bs=32",
                "python t.py --bs=64→32 −--fp32",
                "--bs=64→32 −--fp32",
            ),
            (
                "python t.py --grad-accum 2 --modle gpt",
                "python t.py",
                "python t.py −--grad-accum 2 −--modle gpt",
                "−--grad-accum 2 −--modle gpt",
            ),
            ("python t.py", "python t.py", "python t.py", ""),
        ] {
            let (old, new) = (CommandLine::typed(old), CommandLine::typed(new));
            assert_eq!(joined(&whole(&theme, &old, &new)), whole_text);
            let changes = difference(&old, &new);
            assert_eq!(joined(&brief(&theme, Some(&old), &changes)), brief_text);
        }
    }

    #[test]
    fn of_a_list_only_what_is_new_is_marked() {
        let theme = Theme::full();
        let mut old = CommandLine::typed("x");
        old.set_env("CONF", Some(Word::from("limit:0.1")));
        let mut new = old.clone();
        new.set_env("CONF", Some(Word::from("limit:0.1,grow:True")));
        assert_eq!(
            joined(&whole(&theme, &old, &new)),
            "CONF=limit:0.1,+grow:True x"
        );
        new.set_env("CONF", Some(Word::from("limit:1.0")));
        assert_eq!(joined(&whole(&theme, &old, &new)), "CONF=limit:0.1→1.0 x");
    }

    #[test]
    fn the_environment_is_part_of_it_and_secrets_are_not() {
        let theme = Theme::full();
        let mut old = CommandLine::typed("x --token abc");
        old.set_env("MY_KEY", Some(Word::from("s3")));
        let mut new = old.clone();
        new.set_env("CONF", Some(Word::from("a:True")));
        new.set_env("MY_KEY", Some(Word::from("s4")));
        let text = joined(&whole(&theme, &old, &new));
        assert!(text.starts_with("+CONF=a:True"), "{text}");
        assert!(!text.contains("abc") && !text.contains("s3") && !text.contains("s4"));
    }
}
