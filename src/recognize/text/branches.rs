//! In which branches of a program a number stands, and whether the command takes them: `if args.debug: batch_size = 2` says
//! nothing where `--debug` is not given.

use super::ReadSource;
use super::statements::{CallSite, SourceStatements, TokenRange};
use crate::recognize::argument::{Arguments, Name};
use std::collections::BTreeMap;

/// What a branch asks of one value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BranchCondition {
    /// The last part of the name that is asked for.
    name: String,
    /// The values that it may have; none where it only must be true.
    equals: Vec<String>,
    /// Whether the branch is taken where that is so, or where it is not.
    wanted: bool,
}

/// A value that branches depend on: an argument, or a constant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BranchSwitch {
    /// How it is typed; nothing for a constant.
    options: Vec<String>,
    /// What it is where the option is typed, if that takes no value.
    bare: Option<String>,
    /// As the text has it, without quotes.
    default: String,
}

/// The values that branches may depend on, by their names; none of a name that the text has several values for.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct BranchSwitches(BTreeMap<String, Option<BranchSwitch>>);

impl BranchSwitches {
    pub(super) fn read(sources: &[ReadSource<'_, '_>]) -> BranchSwitches {
        let mut found = BranchSwitches::default();
        for (_, said) in sources {
            let declared = said.calls.iter().filter_map(|call| of_option(said, call));
            let assigned = said.assigned.iter().filter_map(|one| {
                let constant = BranchSwitch {
                    options: Vec::new(),
                    bare: None,
                    default: value(said, &one.value).unwrap_or_default(),
                };
                let is_field = one.target.contains('.');
                (!is_field).then(|| (one.target.to_string(), constant))
            });
            for (name, switch) in declared.chain(assigned) {
                let is_new = !found.0.contains_key(&name);
                // Computed, or set again: not known.
                let known = Some(switch).filter(|switch| is_new && !switch.default.is_empty());
                found.0.insert(name, known);
            }
        }
        found
    }

    /// Whether the command takes a branch, as far as is known.
    fn is_taken(&self, condition: &BranchCondition, arguments: &Arguments<'_>) -> Option<bool> {
        let switch = self.0.get(&condition.name)?.as_ref()?;
        let options = switch.options.iter();
        let typed = options.flat_map(|option| arguments.find(Name::new(option)));
        let value = match typed.max_by_key(|hit| hit.token) {
            Some(hit) => match &switch.bare {
                Some(bare) => bare.as_str(),
                None => hit.value?.text,
            },
            None => &switch.default,
        };
        let is_met = match condition.equals.as_slice() {
            [] => !matches!(value, "False" | "false" | "None" | "0"),
            equals => equals.iter().any(|equal| equal == value),
        };
        Some(is_met == condition.wanted)
    }

    /// Whether the command takes all of these branches; `None` where that is not known of one, and none is left out.
    pub(super) fn are_taken(
        &self,
        conditions: &[BranchCondition],
        arguments: &Arguments<'_>,
    ) -> Option<bool> {
        let mut all = Some(true);
        for condition in conditions {
            match self.is_taken(condition, arguments) {
                Some(true) => {}
                Some(false) => return Some(false),
                None => all = None,
            }
        }
        all
    }
}

/// `add_argument("--debug", action="store_true")`, `add_argument("--data", default="small")`.
fn of_option(said: &SourceStatements<'_>, call: &CallSite<'_>) -> Option<(String, BranchSwitch)> {
    let tokens = &said.tokens;
    matches!(call.name(), "add_argument" | "option").then_some(())?;
    let words = call.positional.iter().filter(|part| part.len() == 1);
    let words = words.filter_map(|part| tokens.string(part.start));
    let options: Vec<String> = words
        .filter(|word| word.starts_with('-'))
        .map(String::from)
        .collect();
    let longest = options.iter().max_by_key(|option| option.len())?;
    let text = |name: &str| call.keyword(name).map(|part| tokens.text_of(part));
    let dest = call
        .keyword("dest")
        .and_then(|dest| tokens.string(dest.start));
    let name = dest.map_or_else(
        || longest.trim_start_matches('-').replace('-', "_"),
        String::from,
    );
    let action = call
        .keyword("action")
        .map(|action| tokens.string(action.start).unwrap_or("other"));
    let (bare, default) = match action {
        Some("store_true") => (Some("True"), "False"),
        Some("store_false") => (Some("False"), "True"),
        Some("store") | None if text("is_flag") == Some("True") => (Some("True"), "False"),
        Some("store") | None if text("nargs").is_none() => (None, "None"),
        Some(_) | None => return None,
    };
    let default = match call.keyword("default") {
        Some(default) => value(said, default)?,
        None => default.to_string(),
    };
    let bare = bare.map(String::from);
    Some((
        name,
        BranchSwitch {
            options,
            bare,
            default,
        },
    ))
}

/// `True`, `None`, a number or a string; nothing else is known before the program runs.
fn value(said: &SourceStatements<'_>, part: &TokenRange) -> Option<String> {
    let tokens = &said.tokens;
    let written = tokens.text_of(part);
    let is_plain = matches!(written, "True" | "False" | "None") || written.parse::<u64>().is_ok();
    let string = (part.len() == 1)
        .then(|| tokens.string(part.start))
        .flatten();
    string.or(is_plain.then_some(written)).map(String::from)
}

/// What the branches around this token ask for, as far as it is understood.
pub(super) fn around(said: &SourceStatements<'_>, at: usize) -> Vec<BranchCondition> {
    let mut all = Vec::new();
    for (condition, holds) in said.branch(at) {
        conditions(said, condition.clone(), *holds, &mut all);
    }
    all
}

/// `debug`, `not args.debug`, `args.data == "x"`, `args.data in ["x", "y"]`, and several with `and` between them.
pub(super) fn conditions(
    said: &SourceStatements<'_>,
    mut part: TokenRange,
    mut holds: bool,
    found: &mut Vec<BranchCondition>,
) {
    let tokens = &said.tokens;
    if holds && let Some(and) = part.clone().find(|at| tokens.text(*at) == "and") {
        // What stands beside an `or` is not asked for by itself.
        if part
            .clone()
            .all(|at| tokens.text(at) != "or" && tokens.text(at) != "(")
        {
            conditions(said, part.start..and, holds, found);
            conditions(said, and + 1..part.end, holds, found);
        }
        return;
    }
    while tokens.text(part.start) == "not" {
        part.start += 1;
        holds = !holds;
    }
    let Some((name, behind)) = tokens.dotted(part.start, part.end) else {
        return;
    };
    let right = behind + 1..part.end;
    let listed = || -> Option<Vec<String>> {
        let is_list = ["[", "(", "{"]
            .iter()
            .any(|open| tokens.is_operator(right.start, open));
        (is_list && tokens.after(right.start) == right.end).then_some(())?;
        tokens
            .parts(right.start)
            .iter()
            .map(|part| value(said, part))
            .collect()
    };
    let (equals, wanted) = match tokens.text(behind) {
        _ if behind == part.end => (Some(Vec::new()), holds),
        "==" | "is" => (value(said, &right).map(|value| vec![value]), holds),
        "!=" => (value(said, &right).map(|value| vec![value]), !holds),
        "in" => (listed().filter(|all| !all.is_empty()), holds),
        _ => (None, holds),
    };
    found.extend(equals.map(|equals| BranchCondition {
        name: name.rsplit('.').next().unwrap_or(name).into(),
        equals,
        wanted,
    }));
}
