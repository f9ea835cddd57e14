//! The table of wordings, `wordings.toml`, and how a line is read by it. The search of the raw
//! output and the tests follow from its rows.

use crate::oom::allocator::{self, AllocatorHeads};
use crate::oom::other_libraries;
use crate::oom::report::{OomKind, OomOutcome, OomSign};
use crate::oom::wording::{CompactLine, MessageForm, OomReading, Template, form_at, is_prose};
use regex::Regex;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wording {
    pub kind: OomKind,
    #[serde(default = "most_find")]
    pub find: Vec<String>,
    pub text: Vec<Template>,
    #[serde(default)]
    also: Vec<Template>,
    #[serde(default)]
    before: Vec<String>,
    #[serde(default)]
    without: Vec<String>,
    #[serde(default)]
    any_case: bool,
    #[serde(default)]
    outcome: OomOutcome,
    #[serde(default)]
    pub suspicion: bool,
    #[serde(default)]
    hearsay: bool,
    #[serde(default)]
    pub sign: Option<OomSign>,
    #[serde(default)]
    pub reader: WordingReader,
}

/// What reads a line with a row's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum WordingReader {
    #[default]
    Template,
    Allocator,
    AsyncAllocator,
    AllocatorClass,
    Mps,
    Nccl,
    Tensor,
}

/// What was earlier in the stream.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct StreamContext {
    pub gpu_ran_out: bool,
    /// NCCL's last failure was no OOM.
    pub nccl_failed_otherwise: bool,
}

fn most_find() -> Vec<String> {
    vec!["ut of memory".into()]
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WordingTable {
    #[serde(rename = "wording")]
    pub wordings: Vec<Wording>,
    not_oom: BTreeMap<String, Vec<Template>>,
    #[serde(skip)]
    gate: Option<Regex>,
    #[serde(skip)]
    allocator_heads: Vec<(String, OomKind)>,
}

static TABLE: LazyLock<WordingTable> = LazyLock::new(|| {
    let mut table: WordingTable =
        toml::from_str(include_str!("wordings.toml")).expect("wordings.toml is valid");
    for wording in table.wordings.iter_mut().filter(|row| row.any_case) {
        wording.text.iter_mut().for_each(Template::ignore_case);
    }
    table.allocator_heads = table
        .wordings
        .iter()
        .filter(|row| row.reader == WordingReader::Allocator)
        .flat_map(|row| {
            row.text
                .iter()
                .map(|text| (text.head().to_owned(), row.kind))
        })
        .collect();
    let gates: Vec<String> = table.texts().map(Template::gate).collect();
    let gate = format!("(?i-u){}", gates.join("|"));
    table.gate = Some(Regex::new(&gate).expect("escaped words are a valid expression"));
    table
});

impl WordingTable {
    pub fn get() -> &'static WordingTable {
        &TABLE
    }

    fn texts(&self) -> impl Iterator<Item = &Template> {
        self.wordings.iter().flat_map(|wording| &wording.text)
    }

    /// What looks like an OOM and is none: of whom, and the words.
    pub fn none_of_it(&self) -> impl Iterator<Item = (&str, &Template)> {
        let all = self.not_oom.iter();
        all.flat_map(|(whose, texts)| texts.iter().map(move |text| (whose.as_str(), text)))
    }

    pub fn allocator_heads(&self) -> &AllocatorHeads {
        &self.allocator_heads
    }

    /// A quick test before all wordings are tried.
    pub fn may_match(&self, line: &CompactLine) -> bool {
        let gate = self.gate.as_ref().expect("made with the table");
        gate.is_match(&line.compact)
    }

    /// Whether a line has all the words of a message; one with the first of them alone may be the end of another message.
    pub fn has_words(&self, line: &CompactLine) -> bool {
        if !self.may_match(line) {
            return false;
        }
        let lower = line.compact.to_ascii_lowercase();
        self.texts()
            .any(|text| text.find(&line.compact, &lower).is_some())
    }

    /// The messages in a line, by the first row whose words it has.
    pub fn read(&self, line: &CompactLine, earlier: StreamContext) -> Vec<OomReading> {
        if !self.may_match(line) {
            return Vec::new();
        }
        let lower = line.compact.to_ascii_lowercase();
        for wording in &self.wordings {
            let Some(found) = wording.read(line, &lower, earlier, &self.allocator_heads) else {
                continue;
            };
            if found.is_empty() && wording.reader != WordingReader::Template {
                continue;
            }
            let is_none = || {
                let mut texts = self.not_oom.values().flatten();
                texts.any(|text| text.find(&line.compact, &lower).is_some())
            };
            let is_allocator = wording.reader.is_of_an_allocator();
            return if is_allocator || !is_none() {
                found
            } else {
                Vec::new()
            };
        }
        Vec::new()
    }
}

impl WordingReader {
    /// Whether it reads PyTorch's own messages, about which there is no doubt.
    fn is_of_an_allocator(self) -> bool {
        matches!(
            self,
            WordingReader::Allocator
                | WordingReader::AsyncAllocator
                | WordingReader::AllocatorClass
        )
    }
}

impl Wording {
    fn read(
        &self,
        line: &CompactLine,
        lower: &str,
        earlier: StreamContext,
        heads: &AllocatorHeads,
    ) -> Option<Vec<OomReading>> {
        if self.suspicion && earlier.gpu_ran_out {
            return None;
        }
        if self.without.iter().any(|words| line.has(words)) {
            return None;
        }
        if self.reader == WordingReader::Template {
            return Some(self.read_template(line, lower)?.into_iter().collect());
        }
        self.text
            .iter()
            .find_map(|text| text.find(&line.compact, lower))?;
        Some(match self.reader {
            WordingReader::Template => Vec::new(),
            WordingReader::Allocator => allocator::read(line, heads),
            WordingReader::AsyncAllocator => allocator::read_async(line).into_iter().collect(),
            WordingReader::AllocatorClass => {
                allocator::read_class(line, heads).into_iter().collect()
            }
            WordingReader::Mps => other_libraries::read_mps(line).into_iter().collect(),
            WordingReader::Tensor => other_libraries::read_tensor(line).into_iter().collect(),
            WordingReader::Nccl => other_libraries::read_nccl(line)
                .filter(|found| {
                    !(earlier.nccl_failed_otherwise && other_libraries::is_refusal(found))
                })
                .into_iter()
                .collect(),
        })
    }

    /// `None` if the line does not have the words; `Some(None)` if it has them and is no message.
    fn read_template(&self, line: &CompactLine, lower: &str) -> Option<Option<OomReading>> {
        let (text, found) = self
            .text
            .iter()
            .find_map(|text| Some((text, text.find(&line.compact, lower)?)))?;
        let before = &lower[..found.start];
        if !self.before.is_empty() && !self.before.iter().any(|words| before.contains(words)) {
            return None;
        }
        let Some(form) = form_at(line, found.start) else {
            return Some(None);
        };
        if !text.has_figures() && is_prose(line, found.start, found.end) {
            return Some(None);
        }
        let mut report = found.figures;
        report.kind = self.kind;
        report.hearsay = self.hearsay;
        report.sign = self.sign;
        report.outcome = match self.suspicion {
            // A launcher or shell says that the process has ended.
            true => OomOutcome::Fatal,
            false => self.outcome,
        };
        for also in self
            .also
            .iter()
            .filter_map(|also| also.find(&line.compact, lower))
        {
            report.allocated = report.allocated.or(also.figures.allocated);
            report.limit = report.limit.or(also.figures.limit);
            report.device = report.device.or(also.figures.device);
        }
        let form = match text.is_whole_line() && text.head().ends_with("Error") {
            true => MessageForm::Exception,
            false => form,
        };
        Some(Some(OomReading {
            report,
            form,
            more: None,
        }))
    }
}

#[cfg(test)]
mod tests;
