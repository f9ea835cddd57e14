//! The launchers of `launchers.toml`: how each is called, and how many words each option takes.

use super::file_name;
use crate::command::Word;
use crate::recognize::argument::text;
use serde::Deserialize;
use std::sync::OnceLock;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Then {
    Python,
    Command,
    Recipe,
    Image,
    Remote,
}

/// How to read options that the data does not list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Unknown {
    Value,
    Flag,
}

/// A launcher of `launchers.toml`, where the keys are explained.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Grammar {
    words: Vec<Vec<String>>,
    #[serde(default)]
    pub(super) modules: Vec<String>,
    pub(super) then: Then,
    unknown: Unknown,
    #[serde(default)]
    pub(super) flags: Vec<String>,
    #[serde(default)]
    values: Vec<String>,
    #[serde(default)]
    pairs: Vec<String>,
    #[serde(default)]
    pub(super) skip: usize,
    #[serde(default)]
    pub(super) module: Vec<String>,
    #[serde(default)]
    pub(super) command: Vec<String>,
    #[serde(default)]
    pub(super) each: Vec<String>,
    #[serde(default)]
    pub(super) nodes: Vec<String>,
    #[serde(default)]
    pub(super) node: Vec<String>,
    #[serde(default)]
    pub(super) cluster: bool,
    #[serde(default)]
    pub(super) env: Option<String>,
}

impl Grammar {
    /// The words that an option takes, including itself. `glued`: its value is in the same word.
    pub(super) fn width(&self, name: &str, glued: bool) -> usize {
        let is = |list: &[String]| list.iter().any(|option| option == name);
        let is_long = name.starts_with("--");
        // `-itd`: several switches in one word.
        let is_switches = !is_long
            && name.len() > 2
            && name[1..].chars().all(|letter| {
                self.flags.iter().any(|flag| {
                    flag.strip_prefix('-')
                        .is_some_and(|f| f.chars().eq([letter]))
                })
            });
        if glued || is_switches || is(&self.flags) || is(&self.command) {
            1
        } else if is(&self.pairs) {
            3
        } else if is(&self.values) {
            2
        } else {
            // `-n8`, `-N2`: a letter and its value in one word.
            let is_number =
                |value: &str| !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
            match self.unknown {
                Unknown::Flag => 1,
                Unknown::Value if !is_long && name.get(2..).is_some_and(is_number) => 1,
                Unknown::Value => 2,
            }
        }
    }
}

#[derive(Deserialize)]
struct Grammars {
    launcher: Vec<Grammar>,
}

pub(super) fn grammars() -> &'static [Grammar] {
    static GRAMMARS: OnceLock<Vec<Grammar>> = OnceLock::new();
    GRAMMARS.get_or_init(|| {
        toml::from_str::<Grammars>(include_str!("../launchers.toml"))
            .expect("launchers.toml is part of the binary and read by a test")
            .launcher
    })
}

/// The launcher that is called at `at`, and the number of words of the call.
pub(super) fn launcher_at(words: &[Word], at: usize) -> Option<(&'static Grammar, usize)> {
    let is_called = |call: &[String]| {
        call.iter().enumerate().all(|(k, part)| {
            words.get(at + k).map(text).is_some_and(|word| {
                let word = if k == 0 { file_name(word) } else { word };
                word == part
            })
        })
    };
    grammars()
        .iter()
        .flat_map(|grammar| grammar.words.iter().map(move |call| (grammar, call)))
        .filter(|(_, call)| is_called(call))
        .map(|(grammar, call)| (grammar, call.len()))
        .max_by_key(|(_, length)| *length)
}
