//! A file of settings that goes over the arguments that were parsed: there a word of the command has no effect, and the file
//! is what sets the batch.

use super::statements::{CallSite, SourceStatements, TokenRange};
use std::collections::BTreeSet;

/// `vars(args).update(yaml.safe_load(f))`, `args.__dict__.update(settings)`, `setattr(args, key, value)` of what a file says.
pub(super) fn goes_over_arguments(said: &SourceStatements<'_>) -> bool {
    let tokens = &said.tokens;
    let of_file: BTreeSet<&str> = (said.calls.iter())
        .filter(|call| is_loading(call.callee))
        .filter_map(|call| said.target_of(call))
        .collect();
    let is_of_file = |part: &TokenRange| {
        let mut inside = said.calls.iter().filter(|call| part.contains(&call.at));
        inside.any(|call| is_loading(call.callee)) || of_file.contains(tokens.text_of(part))
    };
    said.calls.iter().any(|call| {
        let owner = call.callee.strip_suffix(".__dict__.update");
        let updated = owner.or_else(|| updated_variables(said, call));
        updated.is_some_and(|name| is_parsed(said, name)) && call.positional.iter().any(is_of_file)
            || is_set_in_a_loop(said, call, &of_file)
    })
}

fn is_loading(callee: &str) -> bool {
    let Some((module, name)) = callee.split_once('.') else {
        return false;
    };
    let is_module = matches!(module, "yaml" | "json" | "toml" | "tomllib");
    is_module && matches!(name, "safe_load" | "load" | "full_load" | "loads")
}

/// Whether a name is what a parser has made of the command's words.
fn is_parsed(said: &SourceStatements<'_>, name: &str) -> bool {
    let mut calls = said.calls.iter();
    calls.any(|call| call.name() == "parse_args" && said.target_of(call) == Some(name))
}

/// `args` of `vars(args).update(...)`.
fn updated_variables<'t>(said: &SourceStatements<'t>, call: &CallSite<'_>) -> Option<&'t str> {
    let tokens = &said.tokens;
    // Its closing bracket, the dot, and the name before this bracket.
    let close = call.at.checked_sub(3).filter(|_| call.callee == "update")?;
    let mut calls = said.calls.iter();
    let of_vars = calls.find(|one| one.end == close && one.callee == "vars")?;
    Some(tokens.text_of(of_vars.positional.first()?))
}

/// `for key, value in settings.items(): setattr(args, key, value)`.
fn is_set_in_a_loop(
    said: &SourceStatements<'_>,
    call: &CallSite<'_>,
    of_file: &BTreeSet<&str>,
) -> bool {
    let tokens = &said.tokens;
    let [owner, key, _] = call.positional.as_slice() else {
        return false;
    };
    let is_set = call.name() == "setattr"
        && is_parsed(said, tokens.text_of(owner))
        && tokens.is_name(key.start);
    let before = tokens.statements.iter().rev();
    // The loop's head, which is not far.
    let mut heads = before.filter(|line| line.tokens.start < call.at).take(6);
    is_set
        && heads.any(|line| {
            let from = line.tokens.start;
            let is_loop =
                tokens.text(from) == "for" && tokens.text(from + 1) == tokens.text(key.start);
            is_loop
                && line
                    .tokens
                    .clone()
                    .any(|at| of_file.contains(tokens.text(at)))
        })
}
