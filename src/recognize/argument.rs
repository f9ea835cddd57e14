//! Arguments in a command: their names, forms and values.
//!
//! This knows nothing of batches or precisions. A value is found with its byte range, so that an
//! edit changes those bytes only. Words that aren't UTF-8 are opaque: they are never matched and
//! never edited.

mod list;

pub(crate) use list::Arguments;

use crate::command::Word;

/// Stands for a word that isn't UTF-8. U+FFFD is in no name that is searched for.
const OPAQUE: &str = "\u{fffd}";

/// A word as text, or [`OPAQUE`].
pub(crate) fn text(word: &Word) -> &str {
    word.as_str().unwrap_or(OPAQUE)
}

/// A part of a command line that is read as one argument word: mostly a whole word, else a part of
/// a word that contains arguments (`--asr_args "--batch_bins 9"`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    pub text: &'a str,
    /// The index of its word.
    pub at: usize,
    /// Its first byte in that word.
    pub from: usize,
}

impl<'a> Token<'a> {
    pub(crate) fn value(&self) -> Value<'a> {
        let Token { text, at, from } = *self;
        Value { text, at, from }
    }

    /// Whether a parser would take it for an option: a dash, not followed by a number, and no space
    /// in its name (argparse takes `--a 1 --b 2` in one word for a value).
    pub(crate) fn is_option(&self) -> bool {
        self.text.strip_prefix('-').is_some_and(|rest| {
            let name = rest.split('=').next().unwrap_or(rest);
            !rest.is_empty() && rest.parse::<f64>().is_err() && !name.contains(' ')
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgumentForm {
    /// `--name value`, `-n value`.
    Space,
    /// `--name=value`.
    Equals,
    /// `-n64`.
    Glued,
    /// `name=value`.
    KeyValue,
    /// `name:value`.
    Colon,
    /// `NAME value` without any dash (yacs).
    Pair,
}

/// The value of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Value<'a> {
    pub text: &'a str,
    /// The index of its word.
    pub at: usize,
    /// Its first byte in that word.
    pub from: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hit<'a> {
    /// As typed, including dashes or `+`.
    pub name: &'a str,
    pub form: ArgumentForm,
    /// The token with its name.
    pub token: usize,
    /// None if the next word is an option or there is none.
    pub value: Option<Value<'a>>,
}

impl Hit<'_> {
    /// The token after the argument.
    pub(crate) fn end(&self) -> usize {
        match (self.form, self.value) {
            (ArgumentForm::Space | ArgumentForm::Pair, Some(_)) => self.token + 2,
            _ => self.token + 1,
        }
    }
}

/// Where words can be inserted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InsertPoint {
    /// Before the word at this index.
    Before(usize),
    /// Inside of a word that contains arguments.
    Inside {
        /// The index of the word.
        at: usize,
        /// The byte in it before which they go.
        from: usize,
        /// Separates the arguments in it.
        separator: char,
    },
}

/// A name to search for, as written in the data files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Name<'n> {
    /// `--batch-size`, `-b`, `-batch_size`; `-` and `_` inside a name are the same.
    Option {
        /// The number of dashes.
        dashes: usize,
        /// The name without them.
        body: &'n str,
    },
    /// `batch_size=`, or `*.batch_size=` for any key that ends so.
    Key {
        /// Whether `*.` precedes the key.
        suffix: bool,
        body: &'n str,
    },
    /// `batch_size:`.
    Colon(&'n str),
    /// `SOLVER.IMS_PER_BATCH`.
    Pair(&'n str),
}

impl<'n> Name<'n> {
    /// Parses the notation of the data files.
    pub(crate) fn new(spec: &'n str) -> Name<'n> {
        let body = spec.trim_start_matches('-');
        if body.len() < spec.len() {
            return Name::Option {
                dashes: spec.len() - body.len(),
                body,
            };
        }
        if let Some(key) = spec.strip_suffix('=') {
            let key = key.trim_start_matches('+');
            return match key.strip_prefix("*.") {
                Some(body) => Name::Key { suffix: true, body },
                None => Name::Key {
                    suffix: false,
                    body: key,
                },
            };
        }
        match spec.strip_suffix(':') {
            Some(key) => Name::Colon(key),
            None => Name::Pair(spec),
        }
    }

    /// Whether it starts with dashes; what is added beside an argument is written in the same form.
    pub(crate) fn is_option(&self) -> bool {
        matches!(self, Name::Option { .. })
    }
}

/// Whether two names are the same, with `-` and `_` as one.
pub(crate) fn same(a: &str, b: &str) -> bool {
    let plain = |byte: u8| if byte == b'-' { b'_' } else { byte };
    a.len() == b.len() && a.bytes().map(plain).eq(b.bytes().map(plain))
}

/// Whether `text` matches `pattern`, in which `*` stands for anything.
pub(crate) fn is_like(text: &str, pattern: &str) -> bool {
    match pattern.split_once('*') {
        None => text == pattern,
        Some((front, rest)) => text.strip_prefix(front).is_some_and(|tail| {
            (0..=tail.len())
                .filter(|cut| tail.is_char_boundary(*cut))
                .any(|cut| is_like(&tail[cut..], rest))
        }),
    }
}
