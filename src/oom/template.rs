//! A wording with placeholders for what varies.

use super::compact::{number_at_start, size_at_start, squeeze};
use super::report::OomReport;
use crate::units::Bytes;
use memchr::memmem;
use serde::Deserialize;

/// Places tried in a line, which bounds the time for a line full of a wording's first words.
const MOST_PLACES: usize = 16;

/// `Failed to allocate request for {requested} on device {device}`; `wordings.toml` has the rules.
#[derive(Debug, Deserialize)]
#[serde(from = "String")]
pub(super) struct Template {
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
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) figures: OomReport,
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
            at_start,
            at_end,
            any_case: false,
            parts,
        }
    }
}

impl Template {
    pub(super) fn ignore_case(&mut self) {
        self.any_case = true;
        for part in &mut self.parts {
            if let TemplatePart::Words(words) = part {
                words.make_ascii_lowercase();
            }
        }
    }

    /// Its first words.
    pub(super) fn head(&self) -> &str {
        match self.parts.first() {
            Some(TemplatePart::Words(words)) => words,
            _ => panic!("a template begins with words"),
        }
    }

    /// An expression for a quick test: every text with the template matches it.
    pub(super) fn gate(&self) -> String {
        let begin = if self.at_start { "^" } else { "" };
        let end = if self.at_end && self.parts.len() == 1 {
            "$"
        } else {
            ""
        };
        format!("{begin}{}{end}", regex::escape(self.head()))
    }

    pub(super) fn has_figures(&self) -> bool {
        self.parts.iter().any(|part| {
            !matches!(
                part,
                TemplatePart::Words(_) | TemplatePart::Number | TemplatePart::Anything
            )
        })
    }

    /// Whether it has to be the whole line.
    pub(super) fn is_whole_line(&self) -> bool {
        self.at_start && self.at_end
    }

    /// Its place in `compact`; `lower` is the same in lower case.
    pub(super) fn find(&self, compact: &str, lower: &str) -> Option<TemplateMatch> {
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
