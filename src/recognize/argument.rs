//! A program's arguments: their names and forms, where each value is, and searching them.

use super::spellings::{is_one, spellings};
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
    /// `value` alone, by its place.
    Place,
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

#[derive(Debug, Clone, Default)]
pub(crate) struct Arguments<'a> {
    pub tokens: Vec<Token<'a>>,
    /// The separator if they are all in one word; words can't be inserted between them then.
    pub nested: Option<char>,
    /// Of each token, whether it has the place of a name behind an option for alternating names and values. Made once: a
    /// command may have tens of thousands of words (`*.jpg`).
    pair_names: Vec<bool>,
    /// The tokens that begin with a dash.
    dashed: Vec<usize>,
}

impl<'a> Arguments<'a> {
    /// Of whole words; `first` is the index of the first one in the command.
    pub(crate) fn of_words(words: &'a [Word], first: usize) -> Arguments<'a> {
        let tokens = words.iter().enumerate().map(|(k, word)| Token {
            text: text(word),
            at: first + k,
            from: 0,
        });
        Arguments::new(tokens.collect(), None)
    }

    fn new(tokens: Vec<Token<'a>>, nested: Option<char>) -> Arguments<'a> {
        let (mut is_of_group, mut is_name) = (false, false);
        let place = |token: &Token<'_>| {
            let is_here = is_name;
            if token.is_option() {
                is_of_group = is_one(&spellings().groups, token.text);
                is_name = is_of_group;
            } else {
                is_name = is_of_group && !is_name;
            }
            is_here
        };
        let pair_names = tokens.iter().map(place).collect();
        let begins = |k: &usize| {
            tokens
                .get(*k)
                .is_some_and(|token| token.text.starts_with('-'))
        };
        let dashed = (0..tokens.len()).filter(begins).collect();
        Arguments {
            tokens,
            nested,
            pair_names,
            dashed,
        }
    }

    /// The arguments inside a value. `None` if quotes make it more than words between spaces.
    pub(crate) fn inside(value: Value<'a>, separator: char) -> Option<Arguments<'a>> {
        if value.text.contains(['"', '\'', '\\', '$', '`']) || value.text.contains(OPAQUE) {
            return None;
        }
        let mut tokens = Vec::new();
        let mut from = 0;
        for piece in value.text.split(separator) {
            if !piece.is_empty() {
                tokens.push(Token {
                    text: piece,
                    at: value.at,
                    from: value.from + from,
                });
            }
            from += piece.len() + separator.len_utf8();
        }
        Some(Arguments::new(tokens, Some(separator)))
    }

    /// The place before token `k`, or after the last one; none without tokens.
    pub(crate) fn gap(&self, k: usize) -> Option<InsertPoint> {
        let before = k.checked_sub(1).and_then(|b| self.tokens.get(b));
        Some(match (self.nested, self.tokens.get(k)) {
            (Some(separator), _) => InsertPoint::Inside {
                at: before?.at,
                from: before?.from + before?.text.len(),
                separator,
            },
            (None, Some(token)) => InsertPoint::Before(token.at),
            (None, None) => InsertPoint::Before(self.tokens.last()?.at + 1),
        })
    }

    /// All matches for `name`, in order.
    pub(crate) fn find(&self, name: Name<'_>) -> Vec<Hit<'a>> {
        match name {
            Name::Option { .. } => self.options(|token, k| self.hit(name, token, k)),
            Name::Key { .. } | Name::Colon(_) | Name::Pair(_) => (self.tokens.iter().enumerate())
                .filter_map(|(k, token)| self.hit(name, token, k))
                .collect(),
        }
    }

    /// Like [`Arguments::find`], but also matches abbreviated options, as argparse does, unless one
    /// of `others` begins the same.
    pub(crate) fn find_abbreviated(&self, name: Name<'_>, others: &[Name<'_>]) -> Vec<Hit<'a>> {
        let exact = self.find(name);
        let Name::Option { dashes: 2, body } = name else {
            return exact;
        };
        if !exact.is_empty() {
            return exact;
        }
        self.options(|token, k| {
            let (typed, _) = option_parts(token.text)?;
            let prefix = typed.strip_prefix("--")?;
            // Shorter ones are too easily something else.
            let is_short_for = |body: &str| {
                prefix.len() >= 4 && body.get(..prefix.len()).is_some_and(|b| same(b, prefix))
            };
            let of_another = others.iter().any(|other| {
                matches!(other, Name::Option { dashes: 2, body: other }
                    if !same(other, body) && is_short_for(other))
            });
            (is_short_for(body) && !of_another)
                .then(|| self.option_hit(token, k))
                .flatten()
        })
    }

    /// All matches for an option that is cut short, as argparse takes it: `--batch` for `--batch-size`. `is_of_another` says
    /// that what is typed is, or begins, another one.
    pub(crate) fn find_cut_short(
        &self,
        option: &str,
        is_of_another: impl Fn(&str) -> bool,
    ) -> Vec<Hit<'a>> {
        self.options(|token, k| {
            let (typed, _) = option_parts(token.text)?;
            let is_short =
                option.starts_with("--") && typed.len() > 2 && typed.len() < option.len();
            (is_short && option.starts_with(typed) && !is_of_another(typed))
                .then(|| self.option_hit(token, k))
                .flatten()
        })
    }

    pub(crate) fn has(&self, name: Name<'_>) -> bool {
        !self.find(name).is_empty()
    }

    /// The last value of `name`: the one that counts for most parsers.
    pub(crate) fn value_of(&self, spec: &str) -> Option<&'a str> {
        self.find(Name::new(spec)).last()?.value.map(|v| v.text)
    }

    /// All arguments, whatever their name, in order.
    pub(crate) fn all(&self) -> impl DoubleEndedIterator<Item = Hit<'a>> {
        (0..self.tokens.len()).filter_map(|k| self.argument_at(k))
    }

    /// The argument that token `k` begins, whatever its name; `None` for other words.
    pub(crate) fn argument_at(&self, k: usize) -> Option<Hit<'a>> {
        let token = self.tokens.get(k)?;
        if token.is_option() {
            let letter = token.text.as_bytes().get(1).copied();
            let as_short = letter.filter(|l| l.is_ascii_alphabetic()).and_then(|l| {
                let body = [l];
                let body = std::str::from_utf8(&body).ok()?;
                self.hit(Name::Option { dashes: 1, body }, token, k)
            });
            return as_short
                .filter(|hit| hit.form == ArgumentForm::Glued)
                .or_else(|| self.option_hit(token, k));
        }
        if !self.may_be_setting(k) {
            return None;
        }
        if let Some((key, _)) = token.text.split_once('=') {
            let body = key.trim_start_matches('+');
            return self.hit(
                Name::Key {
                    suffix: false,
                    body,
                },
                token,
                k,
            );
        }
        let is_yacs = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b"._".contains(&b);
        let is_setting = || {
            let mut parts = token.text.split('.');
            let value = self.tokens.get(k + 1).map(|next| next.text.parse::<f64>());
            parts.all(is_identifier) && matches!(value, Some(Ok(_)))
        };
        let is_name = token.text.contains('.')
            && (token.text.bytes().all(is_yacs) || self.is_in_pairs(k) || is_setting())
            && !token.text.contains('/')
            && token.text.parse::<f64>().is_err();
        is_name
            .then(|| self.hit(Name::Pair(token.text), token, k))
            .flatten()
    }

    fn options(&self, hit: impl Fn(&Token<'a>, usize) -> Option<Hit<'a>>) -> Vec<Hit<'a>> {
        (self.dashed.iter())
            .filter_map(|k| hit(self.tokens.get(*k)?, *k))
            .collect()
    }

    fn hit(&self, name: Name<'_>, token: &Token<'a>, k: usize) -> Option<Hit<'a>> {
        match name {
            Name::Option { dashes, body } => {
                if let ([letter], 1) = (body.as_bytes(), dashes)
                    && is_glued(token.text, *letter)
                {
                    return Some(inside(token, k, ArgumentForm::Glued, 2, 2));
                }
                let (typed, _) = option_parts(token.text)?;
                let bare = typed.trim_start_matches('-');
                (typed.len() - bare.len() == dashes && same(bare, body))
                    .then(|| self.option_hit(token, k))
                    .flatten()
            }
            Name::Key { suffix, body } => {
                let (key, _) = token.text.split_once('=')?;
                let bare = key.trim_start_matches('+');
                let named = bare == body
                    || suffix
                        && bare
                            .strip_suffix(body)
                            .is_some_and(|front| front.ends_with('.'));
                // A dotted key is hardly ever the value of an option.
                (named && (body.contains('.') || self.may_be_setting(k)))
                    .then(|| inside(token, k, ArgumentForm::KeyValue, key.len(), key.len() + 1))
            }
            Name::Colon(body) => {
                let (key, _) = token.text.split_once(':')?;
                (key == body)
                    .then(|| inside(token, k, ArgumentForm::Colon, key.len(), key.len() + 1))
            }
            Name::Pair(body) => (token.text == body).then(|| Hit {
                name: token.text,
                form: ArgumentForm::Pair,
                token: k,
                value: self.following(k),
            }),
        }
    }

    fn option_hit(&self, token: &Token<'a>, k: usize) -> Option<Hit<'a>> {
        let (name, value) = option_parts(token.text)?;
        Some(match value {
            Some(_) => inside(token, k, ArgumentForm::Equals, name.len(), name.len() + 1),
            None => Hit {
                name,
                form: ArgumentForm::Space,
                token: k,
                value: self.following(k),
            },
        })
    }

    fn following(&self, k: usize) -> Option<Value<'a>> {
        let next = self.tokens.get(k + 1)?;
        (!next.is_option()).then(|| next.value())
    }

    /// Whether this token follows an option for a group and alternating names and values.
    fn is_in_pairs(&self, k: usize) -> bool {
        self.pair_names.get(k).is_some_and(|is_name| *is_name)
    }

    /// Whether the token can't be the value of an option in front of it.
    pub(crate) fn is_positional(&self, k: usize) -> bool {
        self.before(k).is_none_or(|before| {
            before.text.contains('=') || is_one(&spellings().groups, before.text)
        })
    }

    /// Whether the token may set something by itself: also behind an option of one letter, which is a switch (`dora run -d
    /// batch_size=32`) or takes such settings (`-o batch_size=32`), unless it gives a name (`-n batch_size=32`).
    fn may_be_setting(&self, k: usize) -> bool {
        let is_key = || {
            let key = self.tokens[k].text.split_once('=').map(|(key, _)| key);
            key.is_some_and(|key| key.trim_start_matches('+').split('.').all(is_identifier))
        };
        let is_letter = |before: &Token<'_>| before.text.len() == 2 && before.text != "-n";
        self.is_positional(k) || self.before(k).is_some_and(is_letter) && is_key()
    }

    /// The option before the token, if it is one.
    fn before(&self, k: usize) -> Option<&Token<'a>> {
        let before = k.checked_sub(1).and_then(|b| self.tokens.get(b));
        before.filter(|before| before.is_option())
    }
}

/// Whether a word is a name of Python's.
fn is_identifier(word: &str) -> bool {
    let mut letters = word.bytes();
    let is_first = |b: u8| b.is_ascii_alphabetic() || b == b'_';
    letters.next().is_some_and(is_first) && letters.all(|b| is_first(b) || b.is_ascii_digit())
}

/// An argument in one token with its value, which begins at byte `value`.
fn inside<'a>(
    token: &Token<'a>,
    k: usize,
    form: ArgumentForm,
    name: usize,
    value: usize,
) -> Hit<'a> {
    Hit {
        name: &token.text[..name],
        form,
        token: k,
        value: Some(Value {
            text: &token.text[value..],
            at: token.at,
            from: token.from + value,
        }),
    }
}

/// `-b64`.
fn is_glued(text: &str, letter: u8) -> bool {
    let digits = text.as_bytes().strip_prefix(&[b'-', letter]);
    digits.is_some_and(|digits| !digits.is_empty() && digits.iter().all(u8::is_ascii_digit))
}

/// An option's name and, if it has a `=`, its value.
fn option_parts(text: &str) -> Option<(&str, Option<&str>)> {
    let bare = text.trim_start_matches('-');
    if bare.len() == text.len() || bare.is_empty() {
        return None;
    }
    Some(match text.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (text, None),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_hold_arguments_are_opened_with_their_places() {
        let word = Word::from("--bins 9  --accum 4");
        let value = Value {
            text: text(&word),
            at: 3,
            from: 0,
        };
        let inside = Arguments::inside(value, ' ').unwrap();
        let hit = inside.find(Name::new("--accum"))[0];
        assert_eq!(
            hit.value.map(|v| (v.text, v.at, v.from)),
            Some(("4", 3, 18))
        );
        let quoted = Value {
            text: "--a 'b c'",
            ..value
        };
        assert!(Arguments::inside(quoted, ' ').is_none());
    }

    #[test]
    fn a_setting_behind_an_option_of_one_letter_is_one() {
        for (line, wanted) in [
            ("run -d batch_size=32", &["-d", "batch_size"][..]),
            ("run -o data.batch_size=32", &["-o", "data.batch_size"]),
            ("run -n batch_size=32", &["-n"]),
            ("run --name batch_size=32", &["--name"]),
            ("run -d a=b/c=d", &["-d", "a"]),
        ] {
            let words: Vec<Word> = line.split(' ').map(Word::from).collect();
            let arguments = Arguments::of_words(&words, 0);
            let names: Vec<&str> = arguments.all().map(|hit| hit.name).collect();
            assert_eq!(names, wanted, "{line}");
        }
    }

    #[test]
    fn names_and_values_alternate_behind_an_option_for_a_group() {
        let words = "p.py a.b --opts train.batch 4 other.key x --opts=1 c.d e.f".split(' ');
        let words: Vec<Word> = words.map(Word::from).collect();
        let arguments = Arguments::of_words(&words, 0);
        let names: Vec<&str> = arguments.all().map(|hit| hit.name).collect();
        assert_eq!(
            names,
            ["--opts", "train.batch", "other.key", "--opts"],
            "as yacs takes them"
        );
    }

    /// `train.py data/*.jpg`: a look back from each word would take minutes.
    #[test]
    fn tens_of_thousands_of_words_are_read_at_once() {
        let words: Vec<Word> = (0..60_000)
            .map(|k| Word::from(format!("img_{k}.jpg").as_str()))
            .collect();
        let began = std::time::Instant::now();
        assert_eq!(Arguments::of_words(&words, 0).all().count(), 0);
        assert!(began.elapsed() < std::time::Duration::from_secs(10));
    }

    #[test]
    fn stars_stand_for_anything() {
        assert!(is_like("run_clm_no_trainer.py", "*_no_trainer.py"));
        assert!(is_like("DiT-XL/2", "DiT-*"));
        assert!(is_like("abc", "*b*"));
        assert!(!is_like("abc", "*d*"));
    }
}
