//! Secrets, recognised by the name that they are given to or by their own form, and masked wherever
//! a command is displayed or stored.
//!
//! A leaked secret can't be undone, while a masked argument can be looked up in the shell's
//! history: if a name can mean either, it is a secret. Names that trainings use for other things
//! (`--eos_token`, `--image_key`) are known as such.

mod names;
mod shapes;

pub use names::is_secret;

use super::Word;
use names::is_plain_value;
use std::borrow::Cow;

/// Replaces a secret.
pub const MASK: &str = "***";

/// The words as text, secrets masked.
pub fn masked(argv: &[Word]) -> Vec<String> {
    masked_words(argv)
        .iter()
        .map(Word::to_string_lossy)
        .collect()
}

pub(super) fn masked_words(argv: &[Word]) -> Vec<Word> {
    let mut value_of_secret = false;
    argv.iter()
        .map(|word| {
            let text = word.to_string_lossy();
            let is_value = std::mem::take(&mut value_of_secret) && !text.starts_with("--");
            if is_value && !is_plain_value(&text) {
                return Word::from(MASK);
            }
            value_of_secret = text.starts_with('-') && !text.contains('=') && is_secret(&text);
            match masked_text(&text) {
                Some(masked) => Word::from(masked),
                None => word.clone(),
            }
        })
        .collect()
}

/// The value of a variable, masked as far as its name or its own form says so.
pub(super) fn masked_value(name: &str, value: &Word) -> Word {
    let text = value.to_string_lossy();
    match (
        is_secret(name) && !is_plain_value(&text),
        masked_text(&text),
    ) {
        (true, _) => Word::from(MASK),
        (false, Some(masked)) => Word::from(masked),
        (false, None) => value.clone(),
    }
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
    // The value of a whole word may contain anything, even spaces and commas.
    if let Some((name, value)) = text.split_once('=')
        && !name.contains(char::is_whitespace)
        && is_secret(name)
        && !is_plain_value(value)
    {
        return Some(format!("{name}={MASK}"));
    }
    let mut secrets = named(text);
    secrets.extend(shapes::find(text));
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

/// The values after secret names in a text (a script, JSON, a header, a list of settings):
/// `"api_key": "x"`, `X-Api-Key: x`, `a=1,token=x`, `--token x`.
fn named(text: &str) -> Vec<(usize, usize)> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(from) = text[at..].find(is_name).map(|offset| at + offset) {
        let name_end = text[from..]
            .find(|c| !is_name(c))
            .map_or(text.len(), |n| from + n);
        at = name_end;
        let name = &text[from..name_end];
        let Some(start) = value_start(name, &text[name_end..]).map(|n| name_end + n) else {
            continue;
        };
        let end = start + value_length(name, &text[start..]);
        if is_secret(name) && end > start && !is_plain_value(&text[start..end]) {
            found.push((start, end));
            at = end;
        }
    }
    found
}

/// Where the value begins in the text after a name.
fn value_start(name: &str, rest: &str) -> Option<usize> {
    let after_quotes = rest.trim_start_matches(['"', '\'', '\\']);
    let after_blanks = after_quotes.trim_start();
    let behind = match after_blanks.strip_prefix([':', '=']) {
        // `==` compares, `://` is part of a URL.
        Some(behind) if !behind.starts_with(['=', '/']) => behind,
        None if name.starts_with('-') && after_blanks.len() < rest.len() => after_blanks,
        Some(_) | None => return None,
    };
    let value = behind.trim_start().trim_start_matches(['"', '\'', '\\']);
    (!value.starts_with('-')).then(|| rest.len() - value.len())
}

/// The length of a value: the rest of a header, else up to the next separator.
fn value_length(name: &str, rest: &str) -> usize {
    let is_header =
        name.eq_ignore_ascii_case("authorization") || name.eq_ignore_ascii_case("cookie");
    let ends = |c: char| match is_header {
        true => matches!(c, '"' | '\'' | '\n' | '\r'),
        false => {
            c.is_whitespace() || matches!(c, '"' | '\'' | ',' | ';' | '&' | '|' | ')' | '}' | ']')
        }
    };
    rest.find(ends).unwrap_or(rest.len())
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
    fn a_value_inside_a_text_is_masked_and_nothing_beside_it() {
        for (word, shown) in [
            (
                r#"{"lr": 0.1, "api_key": "x,y", "n": 2}"#,
                r#"{"lr": 0.1, "api_key": "***,y", "n": 2}"#,
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
