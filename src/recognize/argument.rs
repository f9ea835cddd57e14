//! Arguments as they stand in a command: where a name is, in which form, and where its value is.
//!
//! Only words and places; which names mean a batch or a precision is not known here. A value is
//! found with the byte range that holds it, so that an edit touches those bytes and nothing else.
//! Words that are no UTF-8 are opaque: they are never matched and never edited.

mod list;

pub(crate) use list::Arguments;

use crate::command::Word;

/// What stands for a word that is no text. U+FFFD is in no name that anything looks for.
const OPAQUE: &str = "\u{fffd}";

/// A word as text, or what stands for one that has none.
pub(crate) fn text(word: &Word) -> &str {
    word.as_str().unwrap_or(OPAQUE)
}

/// A piece of a command line that is looked at as one argument word. Mostly a whole word; of a word
/// that holds arguments itself (`--asr_args "--batch_bins 9"`), a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    /// Its text.
    pub text: &'a str,
    /// The word that it is or lies in.
    pub at: usize,
    /// Its first byte in that word.
    pub from: usize,
}

impl<'a> Token<'a> {
    /// The whole of it as a value.
    pub(crate) fn value(&self) -> Value<'a> {
        let Token { text, at, from } = *self;
        Value { text, at, from }
    }

    /// Whether a parser would take it for an option: a dash, then no number, and no space in its
    /// name (argparse takes `--a 1 --b 2` in one word for a value).
    pub(crate) fn is_option(&self) -> bool {
        self.text.strip_prefix('-').is_some_and(|rest| {
            let name = rest.split('=').next().unwrap_or(rest);
            !rest.is_empty() && rest.parse::<f64>().is_err() && !name.contains(' ')
        })
    }
}

/// How an argument is written.
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

/// The value of an argument and where it lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Value<'a> {
    /// Its text.
    pub text: &'a str,
    /// The word that it lies in.
    pub at: usize,
    /// Its first byte in that word.
    pub from: usize,
}

/// An argument found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hit<'a> {
    /// Its name as typed, dashes or `+` included.
    pub name: &'a str,
    /// How it is written.
    pub form: ArgumentForm,
    /// The token that its name is in.
    pub token: usize,
    /// Its value; none where the next word is an option or there is no next word.
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

/// A place where words can be put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InsertPoint {
    /// Before the word at this place.
    Before(usize),
    /// Inside a word that holds arguments.
    Inside {
        /// The word.
        at: usize,
        /// Its byte before which they go.
        from: usize,
        /// What stands before each of them.
        separator: char,
    },
}

/// A name to look for, as the data files write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Name<'n> {
    /// `--batch-size`, `-b`, `-batch_size`; `-` and `_` inside are the same.
    Option {
        /// How many dashes are in front.
        dashes: usize,
        /// The rest.
        body: &'n str,
    },
    /// `batch_size=`, or `*.batch_size=` for any key that ends so.
    Key {
        /// Whether anything and a dot may stand in front.
        suffix: bool,
        /// The key.
        body: &'n str,
    },
    /// `batch_size:`.
    Colon(&'n str),
    /// `SOLVER.IMS_PER_BATCH`.
    Pair(&'n str),
}

impl<'n> Name<'n> {
    /// Reads the notation of the data files.
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

    /// The kind of thing that it names; an addition is written as the argument it belongs to is.
    pub(crate) fn is_option(&self) -> bool {
        matches!(self, Name::Option { .. })
    }
}

/// Whether two names are one: `-` and `_` are the same, as argparse's users spell them.
pub(crate) fn same(a: &str, b: &str) -> bool {
    let plain = |byte: u8| if byte == b'-' { b'_' } else { byte };
    a.len() == b.len() && a.bytes().map(plain).eq(b.bytes().map(plain))
}

/// Whether `text` is `pattern`, in which `*` stands for anything.
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
