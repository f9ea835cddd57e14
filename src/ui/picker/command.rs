//! A command in the list of sessions: where it has no room, the script's name and what tells the session from the others of
//! that script. A path and the options that all of them have say nothing there.

use super::PickerRow;
use crate::event::PATCHES;
use crate::ui::canvas::{self, columns};
use std::borrow::Cow;

/// The row's command in so many columns.
pub(super) fn short<'r>(
    row: &'r PickerRow,
    all: &[PickerRow],
    room: u16,
    ellipsis: &str,
) -> Cow<'r, str> {
    let command = row.command.as_str();
    if columns(command) <= room {
        return command.into();
    }
    let Some(words) = ScriptWords::of(command) else {
        return ends(command, room, ellipsis).into();
    };
    let named = |options: &[String]| {
        let options = options.iter().map(String::as_str);
        let words: Vec<&str> = std::iter::once(words.name).chain(options).collect();
        words.join(" ")
    };
    let whole = named(&words.options);
    if columns(&whole) <= room {
        return whole.into();
    }
    let others: Vec<ScriptWords> = (all.iter())
        .filter(|other| other.command != row.command)
        .filter_map(|other| ScriptWords::of(&other.command))
        .filter(|other| other.name == words.name)
        .collect();
    // What fewest others have tells it apart best; of the batch everybody asks.
    let held_by = |option: &String| others.iter().filter(|other| other.has(option)).count();
    let rank = |option: &String| match (option.starts_with('+'), option.contains("batch")) {
        (true, _) => 0,
        (false, true) => 1,
        (false, false) => 2 + held_by(option),
    };
    let is_shared =
        |option: &String| !others.is_empty() && others.iter().all(|other| other.has(option));
    let mut best: Vec<usize> = (0..words.options.len())
        .filter(|at| !is_shared(&words.options[*at]))
        .collect();
    best.sort_by_key(|at| rank(&words.options[*at]));
    let shown = |chosen: &[usize], with: Shown| {
        let name = (with != Shown::WithoutName).then_some(words.name);
        let is_less = chosen.len() < words.options.len();
        let marked = (is_less && with != Shown::Unmarked).then_some(ellipsis);
        let options = (0..words.options.len()).filter(|at| chosen.contains(at));
        let options = options.map(|at| words.options[at].as_str());
        let words: Vec<&str> = name.into_iter().chain(marked).chain(options).collect();
        words.join(" ")
    };
    let most = |with: Shown| {
        let fits = |count: &usize| columns(&shown(&best[..*count], with)) <= room;
        let count = (1..=best.len()).take_while(fits).last()?;
        Some(shown(&best[..count], with))
    };
    let ways = [Shown::Whole, Shown::Unmarked, Shown::WithoutName];
    match ways.into_iter().find_map(most) {
        Some(short) => short.into(),
        None => ends(&whole, room, ellipsis).into(),
    }
}

/// What stands before the options that tell a session apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// The script's name, and a mark where options were left out.
    Whole,
    Unmarked,
    WithoutName,
}

/// A command that starts a script: the script's name, and each option with its value.
struct ScriptWords<'c> {
    name: &'c str,
    options: Vec<String>,
}

impl ScriptWords<'_> {
    fn of(command: &str) -> Option<ScriptWords<'_>> {
        let mut words = command.split(' ');
        let mut options: Vec<String> = Vec::new();
        let mut script = None;
        for word in words.by_ref() {
            if word.ends_with(".py") {
                script = Some(word);
                break;
            }
            options.extend(setting(word));
        }
        let script = script?;
        let mut takes_value = false;
        for word in words {
            let is_option = word.starts_with('-');
            match options.last_mut().filter(|_| takes_value && !is_option) {
                Some(option) => {
                    option.push(' ');
                    option.push_str(word);
                }
                None => options.push(word.into()),
            }
            takes_value = is_option && !word.contains('=');
        }
        Some(ScriptWords {
            name: script.rsplit('/').next().unwrap_or(script),
            options,
        })
    }

    fn has(&self, option: &str) -> bool {
        self.options.iter().any(|own| own == option)
    }
}

/// A variable before a command, as what it sets: `+recompute`, `+expandable_segments:True`.
fn setting(word: &str) -> Option<String> {
    let (name, value) = word.split_once('=')?;
    let is_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    if name.is_empty() || !name.chars().all(is_name) {
        return None;
    }
    let says_it = name == PATCHES || name.ends_with("ALLOC_CONF");
    Some(match says_it {
        true => format!("+{value}"),
        false => word.into(),
    })
}

/// The beginning and the end of a text that is too long: one session differs from the next by its last options.
fn ends(text: &str, room: u16, ellipsis: &str) -> String {
    let head = canvas::first_columns(text, room / 3);
    let mut tail = text;
    while columns(head) + columns(ellipsis) + columns(tail) > room {
        let mut rest = tail.chars();
        if rest.next().is_none() {
            break;
        }
        tail = rest.as_str();
    }
    // A number without its first digits would be another one.
    let is_within = text.len() > tail.len() && !text[..text.len() - tail.len()].ends_with(' ');
    if let Some((_, words)) = tail.split_once(' ').filter(|_| is_within) {
        tail = words;
    }
    format!("{head}{ellipsis}{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ui::picker::SessionGroup;

    fn row(command: &str) -> PickerRow {
        PickerRow {
            id: command.into(),
            group: SessionGroup::Running,
            state: "running".into(),
            brief: "running".into(),
            told: Vec::new(),
            began: 0,
            has_failed: false,
            took: None,
            peak: None,
            since: String::new(),
            device: String::new(),
            command: command.into(),
        }
    }

    #[test]
    fn what_tells_sessions_of_one_script_apart_is_named() {
        let path = "python3 /work/somewhere/train.py --steps 2000";
        let rows = [
            row(&format!("{path} --batch-size 32 --seed 1")),
            row(&format!("{path} --batch-size 32 --seed 2")),
            row(&format!("{path} --batch-size 900 --seed 1")),
            row("python3 /work/other.py --steps 2000"),
        ];
        let at = |row: usize, room| short(&rows[row], &rows, room, "…");
        assert_eq!(at(0, 200), rows[0].command);
        assert_eq!(
            at(0, 60),
            "train.py --steps 2000 --batch-size 32 --seed 1",
            "the path goes first"
        );
        assert_eq!(at(0, 40), "train.py … --batch-size 32 --seed 1");
        assert_eq!(at(2, 28), "train.py … --batch-size 900");
        assert_eq!(at(2, 25), "train.py --batch-size 900");
        assert_eq!(at(2, 20), "… --batch-size 900");
        assert_eq!(at(3, 24), "other.py --steps 2000");
    }

    #[test]
    fn what_a_remedy_set_and_what_fewest_have_is_shown_first() {
        let of = "python3 demo/train.py --scenario leak --steps 300";
        let rows = [
            row(&format!("{of} --batch-size 32 --grad-accum 2")),
            row(&format!("OOMPH_PATCHES=recompute {of} --batch-size 64")),
            row(of),
            row("python3 demo/train.py --batch-size 64"),
        ];
        let at = |row: usize, room| short(&rows[row], &rows, room, "…");
        assert_eq!(at(0, 44), "train.py … --batch-size 32 --grad-accum 2");
        assert_eq!(at(1, 44), "train.py … +recompute --batch-size 64");
        assert_eq!(at(2, 30), "train.py … --scenario leak");
    }

    #[test]
    fn without_a_script_both_ends_are_shown() {
        let rows = [row(
            "bash -c 'cd /somewhere && ./run_everything --steps 2000'",
        )];
        let shown = short(&rows[0], &rows, 30, "…");
        assert!(shown.starts_with("bash -c"), "{shown}");
        assert!(shown.ends_with("2000'") && columns(&shown) <= 30, "{shown}");
    }
}
