//! A wording with placeholders for what varies, and what the readers of messages share: the line without white space,
//! its figures, the result, how a message stands in its line, and what programs print around one (`phrases.toml`).

use crate::oom::report::{OomKind, OomReport};
use crate::units::Bytes;
use memchr::memmem;
use regex::Regex;
use serde::Deserialize;
use std::str::FromStr;
use std::sync::LazyLock;

/// A line, or a wrapped message's joined lines.
#[derive(Debug)]
pub(super) struct CompactLine {
    /// With white space.
    pub plain: String,
    /// Without white space; wordings are searched here.
    pub compact: String,
    /// The end of the line before, compact.
    pub previous: String,
}

impl CompactLine {
    pub fn new(plain: String, previous: &str) -> CompactLine {
        CompactLine {
            compact: squeeze(&plain),
            previous: squeeze(previous),
            plain,
        }
    }

    /// Whether it has `words`, written with spaces.
    pub fn has(&self, words: &str) -> bool {
        self.compact.contains(&squeeze(words))
    }

    /// Whether it has one of `words`, which are compact.
    pub fn has_any(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.compact.contains(word))
    }
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OomReading {
    pub report: OomReport,
    pub form: MessageForm,
    /// How it may continue on the next lines.
    pub more: Option<Continuation>,
}

impl OomReading {
    pub fn whole(kind: OomKind, form: MessageForm) -> OomReading {
        OomReading {
            report: OomReport {
                kind,
                ..OomReport::default()
            },
            form,
            more: None,
        }
    }
}

/// The form of a message in its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageForm {
    /// `Class: message`, the last line of a traceback.
    Exception,
    /// `Class('message')`.
    Quoted,
    /// Anywhere in a line.
    Logged,
}

/// What the next lines of an unfinished message have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Continuation {
    /// Clauses of a caching allocator's message.
    Allocator,
    /// NCCL's second warning, with the size.
    Nccl,
    /// The device of TensorFlow's tensor.
    Tensor,
}

impl Continuation {
    /// Whether `line` can be the next line of such a message.
    pub fn takes(self, line: &CompactLine) -> bool {
        let compact = &line.compact;
        let phrases = &PHRASES.continuation;
        match self {
            Continuation::Allocator => {
                phrases.allocator.is_in(compact)
                    && !phrases.not_allocator.is_in(compact)
                    && !phrases.not_allocator_begins.begins(compact)
            }
            Continuation::Nccl => phrases.nccl.is_in(compact),
            Continuation::Tensor => phrases.tensor.is_in(compact),
        }
    }
}

/// The form of the message at `at` in the compact text; `None` if it is an echo of source code or a
/// comment.
pub(super) fn form_at(text: &CompactLine, at: usize) -> Option<MessageForm> {
    let before = &text.compact[..at];
    let open = before.trim_end_matches(['"', '\'', '`', '*', '\\']);
    let quoted = open.len() < before.len();
    if before.starts_with('#') && !before.starts_with("##") {
        return None;
    }
    // String literals in source code: f"CUDA out of memory…".
    if quoted
        && let Some(call) = open.strip_suffix(['f', 'r', 'b'])
        && call.ends_with('(')
    {
        return None;
    }
    if let Some(call) = open.strip_suffix('(') {
        return form_of_argument(call, quoted);
    }
    if quoted {
        // A call's argument on a line of its own, as tracebacks of Python 3.13 show it, or a test
        // for the message in source code.
        let argument = open.is_empty() && text.previous.ends_with('(');
        let asked_for = ["match=", "regex=", "if", "assert", "=="]
            .iter()
            .any(|word| open.ends_with(word));
        if argument || asked_for {
            return None;
        }
    }
    let class = open.strip_suffix(':').unwrap_or(open);
    Some(if class.len() < open.len() && ends_with_class(class) {
        MessageForm::Exception
    } else {
        MessageForm::Logged
    })
}

/// `call("message")` is a repr if `call` is an exception's class, and else source code.
fn form_of_argument(call: &str, quoted: bool) -> Option<MessageForm> {
    let name_from = call
        .rfind(|c: char| !c.is_alphanumeric() && c != '_' && c != '.')
        .map_or(0, |at| {
            at + call[at..].chars().next().map_or(1, char::len_utf8)
        });
    let (before, name) = call.split_at(name_from);
    let raised = name.starts_with("raise") || before.ends_with("raise");
    let bound = before.ends_with('=') && name_is_source(before);
    match () {
        () if raised || bound => None,
        () if name.is_empty() => Some(MessageForm::Logged),
        () if ends_with_class(name) => Some(MessageForm::Quoted),
        () if quoted => None,
        () => Some(MessageForm::Logged),
    }
}

/// `error = RuntimeError("…")`, but not a logger's `err=`.
fn name_is_source(before: &str) -> bool {
    let name = before.trim_end_matches('=');
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_')
}

fn ends_with_class(text: &str) -> bool {
    ["Error", "Exception", "OutOfMemory"]
        .iter()
        .any(|suffix| text.ends_with(suffix))
}

/// Whether the line is prose about such messages. Only for messages without figures of the device,
/// which nobody writes in prose.
pub(super) fn is_prose(text: &CompactLine, at: usize, end: usize) -> bool {
    let before = text.compact[..at].to_lowercase();
    let after = text.compact[end..].trim_start_matches(['"', '\'', '`', ')', '*']);
    let after = after.get(..12).unwrap_or(after).to_lowercase();
    PHRASES.prose.before.is_in(&before) || PHRASES.prose.after.begins(&after)
}

/// Places tried in a line, which bounds the time for a line full of a wording's first words.
const MOST_PLACES: usize = 16;

/// `Failed to allocate request for {requested} on device {device}`; `wordings.toml` has the rules.
#[derive(Debug, Deserialize)]
#[serde(from = "String")]
pub(super) struct Template {
    /// As the table has it.
    written: String,
    at_start: bool,
    at_end: bool,
    any_case: bool,
    parts: Vec<TemplatePart>,
}

#[derive(Debug, PartialEq, Eq)]
enum TemplatePart {
    Words(String),
    Requested,
    RequestedBytes,
    Allocated,
    Limit,
    Device,
    Number,
    Anything,
}

/// A template's place in a line, and the figures in it.
#[derive(Debug)]
pub(super) struct TemplateMatch {
    pub start: usize,
    pub end: usize,
    pub figures: OomReport,
}

impl From<String> for Template {
    fn from(text: String) -> Template {
        let inner = text.strip_prefix('^').unwrap_or(&text);
        let at_start = inner.len() < text.len();
        let words = inner.strip_suffix('$').unwrap_or(inner);
        let at_end = words.len() < inner.len();
        let mut parts = Vec::new();
        let mut rest = words;
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}').expect("a placeholder's end");
            parts.push(TemplatePart::Words(squeeze(before)));
            parts.push(match name {
                "requested" => TemplatePart::Requested,
                "requested_bytes" => TemplatePart::RequestedBytes,
                "allocated" => TemplatePart::Allocated,
                "limit" => TemplatePart::Limit,
                "device" => TemplatePart::Device,
                "n" => TemplatePart::Number,
                "..." => TemplatePart::Anything,
                _ => panic!("{name} is no placeholder: {text}"),
            });
            rest = after;
        }
        parts.push(TemplatePart::Words(squeeze(rest)));
        parts.retain(|part| *part != TemplatePart::Words(String::new()));
        Template {
            written: words.into(),
            at_start,
            at_end,
            any_case: false,
            parts,
        }
    }
}

impl Template {
    pub fn ignore_case(&mut self) {
        self.any_case = true;
        for part in &mut self.parts {
            if let TemplatePart::Words(words) = part {
                words.make_ascii_lowercase();
            }
        }
    }

    /// For a reader: what varies is SIZE, N or an ellipsis.
    pub fn shown(&self) -> String {
        let mut shown = self.written.clone();
        for (part, words) in [
            ("{requested_bytes}", "N"),
            ("{requested}", "SIZE"),
            ("{allocated}", "SIZE"),
            ("{limit}", "SIZE"),
            ("{device}", "N"),
            ("{n}", "N"),
            ("{...}", "…"),
        ] {
            shown = shown.replace(part, words);
        }
        shown
    }

    /// Its first words.
    pub fn head(&self) -> &str {
        match self.parts.first() {
            Some(TemplatePart::Words(words)) => words,
            _ => panic!("a template begins with words"),
        }
    }

    /// An expression for a quick test: every text with the template matches it.
    pub fn gate(&self) -> String {
        let begin = if self.at_start { "^" } else { "" };
        let end = if self.at_end && self.parts.len() == 1 {
            "$"
        } else {
            ""
        };
        format!("{begin}{}{end}", regex::escape(self.head()))
    }

    pub fn has_figures(&self) -> bool {
        self.parts.iter().any(|part| {
            !matches!(
                part,
                TemplatePart::Words(_) | TemplatePart::Number | TemplatePart::Anything
            )
        })
    }

    /// Whether it has to be the whole line.
    pub fn is_whole_line(&self) -> bool {
        self.at_start && self.at_end
    }

    /// Its place in `compact`; `lower` is the same in lower case.
    pub fn find(&self, compact: &str, lower: &str) -> Option<TemplateMatch> {
        let text = if self.any_case { lower } else { compact };
        let head = self.head();
        let mut places = memmem::find_iter(text.as_bytes(), head.as_bytes())
            .take(if self.at_start { 1 } else { MOST_PLACES })
            .filter(|&at| at == 0 || !self.at_start);
        places.find_map(|start| {
            let mut figures = OomReport::default();
            let rest = self.rest(&self.parts, &text[start..], &mut figures)?;
            Some(TemplateMatch {
                start,
                end: text.len() - rest.len(),
                figures,
            })
        })
    }

    /// The rest of `text` behind these parts, if it begins with them.
    fn rest<'t>(
        &self,
        parts: &[TemplatePart],
        text: &'t str,
        figures: &mut OomReport,
    ) -> Option<&'t str> {
        let Some((part, parts)) = parts.split_first() else {
            return (!self.at_end || text.is_empty()).then_some(text);
        };
        let rest = match part {
            TemplatePart::Words(words) => text.strip_prefix(words.as_str())?,
            TemplatePart::Number => number_at_start::<u64>(text)?.1,
            TemplatePart::RequestedBytes => {
                let (bytes, rest) = number_at_start(text)?;
                figures.requested = Some(Bytes(bytes));
                rest
            }
            TemplatePart::Device => {
                let (device, rest) = number_at_start(text)?;
                figures.device = Some(device);
                rest
            }
            TemplatePart::Requested | TemplatePart::Allocated | TemplatePart::Limit => {
                let (size, rest) = size_at_start(text)?;
                match part {
                    TemplatePart::Requested => figures.requested = size,
                    TemplatePart::Allocated => figures.allocated = size,
                    _ => figures.limit = size,
                }
                rest
            }
            TemplatePart::Anything => {
                let Some(TemplatePart::Words(next)) = parts.first() else {
                    return Some("");
                };
                return memmem::find_iter(text.as_bytes(), next.as_bytes())
                    .take(MOST_PLACES)
                    .find_map(|at| self.rest(parts, &text[at..], figures));
            }
        };
        self.rest(parts, rest, figures)
    }
}

// Text without white space, and the figures in it.
//
// Terminals and loggers wrap a long message anywhere, even in the middle of a number. Without
// white space it does not matter where, so wordings are searched in this form:
// `Triedtoallocate2.00GiB`.

/// The units that frameworks print behind a figure; longer ones before those they end with.
const UNITS: [&str; 9] = ["bytes", "KiB", "MiB", "GiB", "TiB", "KB", "MB", "GB", "TB"];

/// `text` without white space, escaped line ends (`\n`) and the borders of a box around it.
pub(super) fn squeeze(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        let mut word = word;
        while let Some(at) = memchr::memchr(b'\\', word.as_bytes()) {
            let written_end = matches!(word.as_bytes().get(at + 1), Some(b'n' | b'r' | b't'));
            let (kept, skipped) = if written_end { (at, 2) } else { (at + 1, 1) };
            out.push_str(&word[..kept]);
            word = &word[at + skipped..];
        }
        out.push_str(word);
    }
    // rich and others draw boxes around wrapped text.
    if memchr::memmem::find(out.as_bytes(), "│".as_bytes()).is_some() {
        out.retain(|c| c != '│');
    }
    out
}

/// Like [`str::find`], but without its setup for long texts.
pub(super) fn find(text: &str, words: &str) -> Option<usize> {
    memchr::memmem::find(text.as_bytes(), words.as_bytes())
}

/// The figure behind the first `words`. `None` also for figures that mean "not available".
pub(super) fn size_after(text: &str, words: &str) -> Option<Bytes> {
    size_at_start(&text[find(text, words)? + words.len()..])?.0
}

/// The figure before the first `words` that have one.
pub(super) fn size_before(text: &str, words: &str) -> Option<Bytes> {
    memchr::memmem::find_iter(text.as_bytes(), words.as_bytes())
        .find_map(|at| size_at_end(&text[..at]))
}

/// The figure at the start of `text` and the rest; the figure is `None` if it means "not
/// available".
pub(super) fn size_at_start(text: &str) -> Option<(Option<Bytes>, &str)> {
    let number = text
        .find(|c: char| !c.is_ascii_digit() && c != '.' && c != ',')
        .unwrap_or(text.len());
    let unit = UNITS
        .iter()
        .find(|unit| text[number..].starts_with(**unit))?;
    if !text.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let end = number + unit.len();
    Some((parse(&text[..end]), &text[end..]))
}

fn size_at_end(text: &str) -> Option<Bytes> {
    let unit = UNITS.iter().find(|unit| text.ends_with(**unit))?;
    let number = &text[..text.len() - unit.len()];
    let start = number
        .rfind(|c: char| !c.is_ascii_digit() && c != '.')
        .map_or(0, |at| {
            at + number[at..].chars().next().map_or(1, char::len_utf8)
        });
    // `free.1.20GiBallowed`: the first full stop ends a sentence.
    let number = &number[start..];
    let dots = if *unit == "bytes" { 1 } else { 2 };
    let number = match number.rmatch_indices('.').nth(dots - 1) {
        Some((stop, _)) => &number[stop + 1..],
        None => number.trim_start_matches('.'),
    };
    parse(&text[text.len() - unit.len() - number.len()..])
}

/// CuPy prints commas between thousands.
fn parse(figure: &str) -> Option<Bytes> {
    if figure.contains(',') {
        Bytes::parse(&figure.replace(',', ""))
    } else {
        Bytes::parse(figure)
    }
}

/// The integer behind the first `words`.
pub(super) fn number_after(text: &str, words: &str) -> Option<u32> {
    number_at_start(&text[find(text, words)? + words.len()..]).map(|(number, _)| number)
}

/// The integer at the start of `text`, and the rest.
pub(super) fn number_at_start<T: FromStr>(text: &str) -> Option<(T, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

// What programs print around a message (`phrases.toml`). White space is removed, as it is from the
// lines.

pub(super) static PHRASES: LazyLock<Phrases> =
    LazyLock::new(|| toml::from_str(include_str!("phrases.toml")).expect("phrases.toml is valid"));

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Phrases {
    pub aftermath: AftermathPhrases,
    pub prose: ProsePhrases,
    pub continuation: ContinuationPhrases,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AftermathPhrases {
    /// Not compact: for the raw output.
    pub find: Vec<String>,
    pub exit_status: PhraseList,
    pub ended_badly: PhraseList,
    pub chain: PhraseList,
    pub after_effect_begins: PhraseList,
    pub after_effect_has: PhraseList,
    pub handled: AnyOf,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProsePhrases {
    pub before: PhraseList,
    pub after: PhraseList,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ContinuationPhrases {
    pub allocator: PhraseList,
    pub not_allocator: PhraseList,
    pub not_allocator_begins: PhraseList,
    pub nccl: PhraseList,
    pub tensor: PhraseList,
}

#[derive(Debug, Deserialize)]
#[serde(from = "Vec<String>")]
pub(super) struct PhraseList(Vec<String>);

impl From<Vec<String>> for PhraseList {
    fn from(words: Vec<String>) -> PhraseList {
        PhraseList(words.iter().map(|words| squeeze(words)).collect())
    }
}

impl PhraseList {
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    pub fn is_in(&self, compact: &str) -> bool {
        self.iter().any(|words| compact.contains(words))
    }

    pub fn begins(&self, compact: &str) -> bool {
        self.iter().any(|words| compact.starts_with(words))
    }
}

/// Several expressions in one.
#[derive(Debug, Deserialize)]
#[serde(try_from = "Vec<String>")]
pub(super) struct AnyOf(Regex);

impl TryFrom<Vec<String>> for AnyOf {
    type Error = regex::Error;

    fn try_from(expressions: Vec<String>) -> Result<AnyOf, regex::Error> {
        Regex::new(&squeeze(&expressions.join("|"))).map(AnyOf)
    }
}

impl AnyOf {
    pub fn is_in(&self, compact: &str) -> bool {
        self.0.is_match(compact)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_of_every_kind_goes() {
        assert_eq!(squeeze(" a b\t\u{a0}c\r\nd\\n e \\x"), "abcde\\x");
    }

    #[test]
    fn figures_are_read_on_either_side_of_words() {
        let text = "Triedtoallocate1.50GiB.Ofwhich0bytesisfree.Processhas3.25MiBcached";
        assert_eq!(size_after(text, "Triedtoallocate"), Some(Bytes::mib(1536)));
        assert_eq!(size_after(text, "Ofwhich"), Some(Bytes(0)));
        assert_eq!(size_before(text, "cached"), Some(Bytes(3_407_872)));
        assert_eq!(size_before(text, "isfree"), Some(Bytes(0)));
        assert_eq!(size_after(text, "Process"), None);
        assert_eq!(size_before(text, "Of"), None);
        assert_eq!(size_after(text, "absent"), None);
    }

    #[test]
    fn odd_figures_are_refused_or_read() {
        assert_eq!(size_after("x1,234,567bytes", "x"), Some(Bytes(1_234_567)));
        assert_eq!(size_after("x184.MiB", "x"), Some(Bytes::mib(184)));
        assert_eq!(size_after("x17179869184.00GiB", "x"), None);
        assert_eq!(size_after("x.GiB", "x"), None);
        assert_eq!(size_after("x1.2.3GiB", "x"), None);
        assert_eq!(size_before("\u{e9}GiBx", "x"), None);
        assert_eq!(size_before("\u{e9}2GiBx", "x"), Some(Bytes::gib(2)));
        assert_eq!(size_before("free.1.50GiBx", "x"), Some(Bytes::mib(1536)));
        assert_eq!(size_before("free.17bytesx", "x"), Some(Bytes(17)));
        assert_eq!(size_before("free.3GiBx", "x"), Some(Bytes::gib(3)));
        assert_eq!(number_after("GPU99999999999", "GPU"), None);
        assert_eq!(number_after("GPU3;", "GPU"), Some(3));
    }
}
