//! What programs print around a message (`phrases.toml`). White space is removed, as it is from the
//! lines.

use super::compact::squeeze;
use regex::Regex;
use serde::Deserialize;
use std::sync::LazyLock;

pub(super) static PHRASES: LazyLock<Phrases> =
    LazyLock::new(|| toml::from_str(include_str!("phrases.toml")).expect("phrases.toml is valid"));

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Phrases {
    pub(super) aftermath: AftermathPhrases,
    pub(super) prose: ProsePhrases,
    pub(super) continuation: ContinuationPhrases,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AftermathPhrases {
    /// Not compact: for the raw output.
    pub(super) find: Vec<String>,
    pub(super) exit_status: PhraseList,
    pub(super) ended_badly: PhraseList,
    pub(super) chain: PhraseList,
    pub(super) after_effect_begins: PhraseList,
    pub(super) after_effect_has: PhraseList,
    pub(super) handled: AnyOf,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProsePhrases {
    pub(super) before: PhraseList,
    pub(super) after: PhraseList,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ContinuationPhrases {
    pub(super) allocator: PhraseList,
    pub(super) not_allocator: PhraseList,
    pub(super) not_allocator_begins: PhraseList,
    pub(super) nccl: PhraseList,
    pub(super) tensor: PhraseList,
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
    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    pub(super) fn is_in(&self, compact: &str) -> bool {
        self.iter().any(|words| compact.contains(words))
    }

    pub(super) fn begins(&self, compact: &str) -> bool {
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
    pub(super) fn is_in(&self, compact: &str) -> bool {
        self.0.is_match(compact)
    }
}
