//! Secrets, recognized by the name that they are given to or by their own form, and masked wherever
//! a command is displayed or stored.
//!
//! A leaked secret can't be undone, while a masked argument can be looked up in the shell's
//! history: if a name can mean either, it is a secret. Names that trainings use for other things
//! (`--eos_token`, `--image_key`) are known as such.

mod edits;
mod named;
mod names;
mod options;
mod rules;
mod script;
mod shapes;

pub use names::is_secret;

use super::Word;
use names::is_plain_value;
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::VecDeque;

/// Replaces a secret.
pub const MASK: &str = "***";

/// A word with more bytes is masked as a whole: nobody reads it, and to look into it takes time that the
/// training would wait for.
const LONGEST_WORD: usize = 64 << 10;

/// How many commands are remembered with what was made of them: those of two runs, and what a relaunch would make of one.
const REMEMBERED: usize = 4;

thread_local! {
    /// The last commands and how they look masked: the same one is drawn and stored many times.
    static LAST: RefCell<VecDeque<[Vec<Word>; 2]>> = const { RefCell::new(VecDeque::new()) };
}

/// The words as text, secrets masked.
pub fn masked(argv: &[Word]) -> Vec<String> {
    masked_words(argv)
        .iter()
        .map(Word::to_string_lossy)
        .collect()
}

pub(super) fn masked_words(argv: &[Word]) -> Vec<Word> {
    let known = LAST.with_borrow(|last| {
        let known = last.iter().find(|[given, _]| given == argv);
        known.map(|[_, masked]| masked.clone())
    });
    known.unwrap_or_else(|| {
        let masked = newly_masked(argv);
        LAST.with_borrow_mut(|last| {
            last.truncate(REMEMBERED - 1);
            last.push_front([argv.to_vec(), masked.clone()]);
        });
        masked
    })
}

fn newly_masked(argv: &[Word]) -> Vec<Word> {
    let texts: Vec<String> = argv.iter().map(Word::to_string_lossy).collect();
    let hidden = options::values(&texts);
    let mut words = Vec::with_capacity(argv.len());
    for ((word, text), from) in argv.iter().zip(&texts).zip(hidden) {
        words.push(match from {
            Some(from) => Word::from(format!("{}{MASK}", &text[..from])),
            None => masked_word(word, text),
        });
    }
    words
}

/// A word or a value alone.
fn masked_word(word: &Word, text: &str) -> Word {
    if text.len() > LONGEST_WORD {
        return Word::from(MASK);
    }
    match masked_text(text) {
        Some(masked) => Word::from(masked),
        None => word.clone(),
    }
}

/// The value of a variable, masked as far as its name or its own form says so.
pub(super) fn masked_value(name: &str, value: &Word) -> Word {
    let text = value.to_string_lossy();
    if is_secret(name) && !is_plain_value(&text) {
        return Word::from(MASK);
    }
    masked_word(value, &text)
}

/// Any text with its secrets masked.
pub fn without_secrets(text: &str) -> Cow<'_, str> {
    match masked_text(text) {
        Some(masked) => masked.into(),
        None => text.into(),
    }
}

/// `text` with its secrets masked, or `None` if it has none.
fn masked_text(text: &str) -> Option<String> {
    // Of `NAME=VALUE` the value.
    let value = match text.split_once('=') {
        Some((name, value)) if !name.contains('/') && !is_secret(name) => value,
        _ => text,
    };
    if edits::are_edits(value, |spelled| masked_text(spelled).is_none()) {
        return None;
    }
    if let Some(value) = value_of_word(text) {
        return Some(format!("{}{MASK}", &text[..value]));
    }
    let mut secrets = named::find(text);
    secrets.extend(shapes::find(text));
    secrets.extend(options::in_script(text));
    secrets.sort_unstable();
    let mut whole = String::new();
    let mut at = 0;
    for (start, end) in secrets {
        if end <= at {
            continue;
        }
        whole.push_str(&text[at..start.max(at)]);
        if start >= at {
            whole.push_str(MASK);
        }
        at = end;
    }
    (at > 0).then(|| whole + &text[at..])
}

/// Where the value begins in a word that is a secret's name and its value: `token=a, b`, and
/// `--from-literal=password=a b`. It may contain anything, even spaces and commas.
fn value_of_word(text: &str) -> Option<usize> {
    let is_of_name = |c: char| {
        c.is_alphanumeric()
            || matches!(c, '_' | '-' | '.' | '+' | '~' | '@' | '/' | ':' | '[' | ']')
    };
    let mut from = 0;
    while let Some(end) = text[from..].find('=').map(|offset| from + offset) {
        let name = &text[from..end];
        if !name.chars().all(is_of_name) || name.contains("://") {
            return None;
        }
        from = end + 1;
        if is_secret(name) {
            return (!is_plain_value(&text[from..])).then_some(from);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_known_by_its_look_too() {
        for (word, shown) in [
            ("https://ada:pw@host/x", "https://***@host/x"),
            ("Authorization: Bearer abc.def", "Authorization: ***"),
            ("hf_abcdefghijklmnopqrstuvwx", "***"),
            ("hub=hf_abcdefghijklmnopqrstuvwx", "hub=***"),
            ("hf_hub", "hf_hub"),
            ("https://host/a@b", "https://host/a@b"),
            ("tcp://10.0.0.1:29500", "tcp://10.0.0.1:29500"),
        ] {
            assert_eq!(masked(&[Word::from(word)]), [shown]);
        }
    }

    #[test]
    fn our_own_edits_are_shown_whatever_their_path_is_called() {
        let edits = "/home/ada/token/tmpPWd/train.py:3:17:128=64@0f3c21aa";
        let variable = format!("OOMPH_EDITS={edits}");
        assert_eq!(masked(&[Word::from(variable.clone())]), [variable]);
        let value = masked_value("OOMPH_EDITS", &Word::from(edits));
        assert_eq!(value, Word::from(edits));
        let secret = format!("MY_TOKEN={edits}");
        assert_eq!(masked(&[Word::from(secret)]), ["MY_TOKEN=***"]);
    }

    #[test]
    fn a_value_inside_a_text_is_masked_and_nothing_beside_it() {
        for (word, shown) in [
            (
                r#"{"lr": 0.1, "api_key": "x,y", "n": 2}"#,
                r#"{"lr": 0.1, "api_key": "***", "n": 2}"#,
            ),
            ("X-Api-Key: x", "X-Api-Key: ***"),
            ("a=1,token=x,b=2", "a=1,token=***,b=2"),
            (
                "export HF_TOKEN=x; python train.py --lr 1",
                "export HF_TOKEN=***; python train.py --lr 1",
            ),
            (
                "train.py --password x --lr 1",
                "train.py --password *** --lr 1",
            ),
        ] {
            assert_eq!(masked(&[Word::from(word)]), [shown]);
        }
    }
}
