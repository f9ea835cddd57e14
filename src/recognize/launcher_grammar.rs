//! The launchers of `launchers.toml`, where the keys are explained, and how wide their options are.

use super::argument::text;
use super::memory_limit::{LimitedMemory, SizeLimit, SizeStyle};
use crate::command::Word;
use serde::Deserialize;
use std::path::Path;
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
enum UnlistedOption {
    Value,
    Flag,
}

/// A launcher of `launchers.toml`, where the keys are explained.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LauncherGrammar {
    words: Vec<Vec<String>>,
    #[serde(default)]
    pub modules: Vec<String>,
    pub then: Then,
    unknown: UnlistedOption,
    #[serde(default)]
    pub flags: Vec<String>,
    #[serde(default)]
    values: Vec<String>,
    #[serde(default)]
    pairs: Vec<String>,
    #[serde(default)]
    pub skip: usize,
    #[serde(default)]
    pub module: Vec<String>,
    #[serde(default)]
    pub command: Vec<String>,
    #[serde(default)]
    pub each: Vec<String>,
    #[serde(default)]
    pub nodes: Vec<String>,
    #[serde(default)]
    pub node: Vec<String>,
    #[serde(default)]
    pub cluster: bool,
    #[serde(default)]
    pub env: Option<String>,
    #[serde(default)]
    pub outside: bool,
    #[serde(default)]
    pub inside: Vec<String>,
    sizes: Option<SizeStyle>,
    #[serde(default)]
    ram: Vec<String>,
    #[serde(default)]
    ram_each: Vec<String>,
    #[serde(default)]
    ram_swap: Vec<String>,
    #[serde(default)]
    pub shm: Vec<String>,
}

impl LauncherGrammar {
    /// Its options for sizes of the host's memory, and what each is for.
    fn sized(&self) -> impl Iterator<Item = (LimitedMemory, &str)> {
        [
            (LimitedMemory::Ram, &self.ram),
            (LimitedMemory::RamOfEach, &self.ram_each),
            (LimitedMemory::RamAndSwap, &self.ram_swap),
            (LimitedMemory::Shm, &self.shm),
        ]
        .into_iter()
        .flat_map(|(what, options)| options.iter().map(move |option| (what, option.as_str())))
    }

    /// The size that the option in the word at `k` sets, if it sets one.
    pub fn limit(&self, word: &str, k: usize, next: Option<&str>) -> Option<SizeLimit> {
        let style = self.sizes?;
        self.sized().find_map(|(what, option)| {
            // `-p MemoryMax=`: the size stands behind a name in the option's value.
            let (option, name) = option.split_once(' ').unwrap_or((option, ""));
            let rest = word.strip_prefix(option)?;
            let is_long = option.starts_with("--");
            let (at, text) = match rest {
                "" => (k + 1, next?),
                _ if rest.starts_with('=') => (k, &rest[1..]),
                // `-m8g`, `-pMemoryMax=8G`
                _ if !is_long => (k, rest),
                _ => return None,
            };
            let size = text.strip_prefix(name)?;
            let whole = if at == k { word } else { text };
            Some(SizeLimit {
                option: format!("{option}{}{name}", if name.is_empty() { "" } else { " " }),
                what,
                style,
                at,
                from: whole.len() - size.len(),
                text: size.to_string(),
            })
        })
    }

    /// The words that an option takes, including itself. `glued`: its value is in the same word.
    pub fn width(&self, name: &str, glued: bool) -> usize {
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
        // `-m8g`
        let is_glued_size = || {
            let mut sized = self.sized().filter(|(_, option)| option.len() == 2);
            let digit = name.as_bytes().get(2).is_some_and(u8::is_ascii_digit);
            digit && sized.any(|(_, option)| name.starts_with(option))
        };
        if glued || is_switches || is(&self.flags) || is(&self.command) || is_glued_size() {
            1
        } else if self.sized().any(|(_, option)| option == name) {
            2
        } else if is(&self.pairs) {
            3
        } else if is(&self.values) {
            2
        } else {
            // `-n8`, `-N2`: a letter and its value in one word.
            let is_number =
                |value: &str| !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
            match self.unknown {
                UnlistedOption::Flag => 1,
                UnlistedOption::Value if !is_long && name.get(2..).is_some_and(is_number) => 1,
                UnlistedOption::Value => 2,
            }
        }
    }
}

#[derive(Deserialize)]
struct Grammars {
    launcher: Vec<LauncherGrammar>,
}

pub(super) fn grammars() -> &'static [LauncherGrammar] {
    static GRAMMARS: OnceLock<Vec<LauncherGrammar>> = OnceLock::new();
    GRAMMARS.get_or_init(|| {
        toml::from_str::<Grammars>(include_str!("launchers.toml"))
            .expect("launchers.toml is part of the binary and read by a test")
            .launcher
    })
}

/// The launcher that is called at `at`, and the number of words of the call.
pub(super) fn launcher_at(words: &[Word], at: usize) -> Option<(&'static LauncherGrammar, usize)> {
    let called = text(words.get(at)?);
    // Once for all launchers: a command may have tens of thousands of words, and each is asked about.
    let file = Path::new(called).file_name().and_then(|name| name.to_str());
    let is_called = |call: &[String]| {
        let Some((first, rest)) = call.split_first() else {
            return false;
        };
        let follows = |(k, part): (usize, &String)| words.get(at + 1 + k).map(text) == Some(part);
        (called == first || file == Some(first)) && rest.iter().enumerate().all(follows)
    };
    grammars()
        .iter()
        .flat_map(|grammar| grammar.words.iter().map(move |call| (grammar, call)))
        .filter(|(_, call)| is_called(call))
        .map(|(grammar, call)| (grammar, call.len()))
        .max_by_key(|(_, length)| *length)
}
