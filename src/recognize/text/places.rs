//! Where in a command a program's parser reads an option that is added: not behind a word with which it takes all the rest, and
//! one of its own not behind a subcommand. And which options it takes cut short.

use super::ReadSource;
use super::statements::{CallSite, SourceStatements};
use crate::recognize::family::LISTS_OF_GPUS;
use std::collections::BTreeSet;

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct OptionPlaces {
    /// Whether a positional argument takes everything behind it.
    pub takes_rest: bool,
    pub subcommands: BTreeSet<String>,
    /// The options that stand before a subcommand.
    pub of_main: BTreeSet<String>,
}

impl OptionPlaces {
    pub(super) fn add(&mut self, said: &SourceStatements<'_>) {
        let tokens = &said.tokens;
        let mut main = BTreeSet::new();
        for call in &said.calls {
            let first = call.positional.first();
            let first = first.and_then(|part| tokens.string(part.start));
            match call.name() {
                "add_argument" => {
                    let rest = call.keyword("nargs").map(|part| tokens.text_of(part));
                    let is_rest = rest.is_some_and(|rest| {
                        rest.ends_with("REMAINDER") || rest.trim_matches(['"', '\'']) == "..."
                    });
                    self.takes_rest |= is_rest && first.is_some_and(|word| !word.starts_with('-'));
                }
                "add_parser" => self.subcommands.extend(first.map(String::from)),
                "add_subparsers" => main.extend(owner(call)),
                _ => {}
            }
        }
        let of_main = said.calls.iter().filter(|call| {
            call.name() == "add_argument" && owner(call).is_some_and(|owner| main.contains(owner))
        });
        let words = of_main.flat_map(|call| &call.positional);
        let words = words.filter_map(|part| tokens.string(part.start));
        self.of_main.extend(words.map(String::from));
    }
}

/// How many devices the default of an option for a list of them has: `add_argument("--gpus", nargs="+", default=[0, 1])`.
pub(super) fn listed_devices(said: &SourceStatements<'_>) -> Option<u64> {
    let tokens = &said.tokens;
    said.calls.iter().find_map(|call| {
        let mut words = call.positional.iter();
        let is_list = words.any(|word| {
            (tokens.string(word.start)).is_some_and(|word| LISTS_OF_GPUS.contains(&word))
        });
        let default = call.keyword("default").filter(|_| is_list)?;
        let is_open = tokens.is_operator(default.start, "[");
        let count = match tokens.string(default.start) {
            Some(written) => written.split(',').filter(|part| !part.is_empty()).count(),
            None if is_open => tokens.parts(default.start).len(),
            None => return None,
        };
        (call.name() == "add_argument").then_some(count as u64)
    })
}

/// The option behind which settings of a config are typed: `add_argument("--options", nargs="+", action=DictAction)`.
pub(super) fn group_option(said: &SourceStatements<'_>) -> Option<String> {
    let tokens = &said.tokens;
    said.calls.iter().find_map(|call| {
        let action = tokens.text_of(call.keyword("action")?);
        let mut words = call.positional.iter();
        let option = words.find_map(|word| {
            tokens
                .string(word.start)
                .filter(|word| word.starts_with("--"))
        })?;
        let is_it = call.name() == "add_argument" && action.ends_with("DictAction");
        is_it.then(|| option.to_string())
    })
}

/// `parser` of `parser.add_argument`.
pub(super) fn owner<'t>(call: &CallSite<'t>) -> Option<&'t str> {
    call.callee.rsplit_once('.').map(|(owner, _)| owner)
}

/// All options of argparse's, which takes each of them cut short as well; none where one parser does not.
pub(super) fn abbreviated(read: &[ReadSource<'_, '_>]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (_, said) in read {
        let tokens = &said.tokens;
        for call in &said.calls {
            let whole = call.keyword("allow_abbrev");
            if whole.is_some_and(|part| tokens.text_of(part) == "False") {
                return BTreeSet::new();
            }
            if call.name() == "add_argument" {
                let words = call.positional.iter();
                let words = words.filter_map(|part| tokens.string(part.start));
                found.extend(
                    words
                        .filter(|word| word.starts_with("--"))
                        .map(String::from),
                );
            }
        }
    }
    found
}
