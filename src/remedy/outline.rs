//! What was recognised in a command and every remedy's edited command, as JSON for other programs.
//!
//! The words are the caller's own and come back unmasked: they are there to be run.

use super::batch;
use super::context::Context;
use super::offer::remedies;
use super::plan::{Availability, Edit, Plan, Remedy};
use super::recognition::recognise;
use crate::command::{CommandLine, Word};
use serde_json::{Value, json};

/// `{"program", "launcher", "batch", "remedies"}`. Variables that were typed before the command are
/// the first words of each `argv`; what a remedy sets beside them is in its `env`.
pub fn plan_json(command: &CommandLine, context: &Context<'_>) -> Value {
    let recognised = recognise(command);
    let batch = batch::of(command, &recognised);
    let program = command.argv.get(recognised.anatomy.program);
    json!({
        "program": {
            "word": program.map(word),
            "kind": recognised.anatomy.kind,
            "known": recognised.known.map(|entry| entry.name.as_str()),
        },
        "launcher": recognised.launchers().iter().map(|l| l.name.as_str()).collect::<Vec<_>>(),
        "torch": context.torch,
        "batch": batch.map(|batch| json!({
            "value": batch.value,
            "scope": batch.scope,
            "arg": batch.argument,
        })),
        "remedies": remedies(command, context)
            .iter()
            .map(|remedy| in_json(command, remedy))
            .collect::<Vec<_>>(),
    })
}

fn in_json(command: &CommandLine, remedy: &Remedy) -> Value {
    let edited = Plan::of(command, &[remedy]).command;
    let reason = match &remedy.availability {
        Availability::Offered => None,
        Availability::NotOffered(reason) => Some(reason.as_str()),
    };
    let typed = |name: &str| command.env.iter().any(|change| change.name == *name);
    let env: serde_json::Map<String, Value> = remedy
        .edits
        .iter()
        .filter_map(|edit| match edit {
            Edit::Env { name, value } => {
                Some((name.clone(), value.as_ref().map_or(Value::Null, word)))
            }
            Edit::Replace { .. }
            | Edit::Splice { .. }
            | Edit::Insert { .. }
            | Edit::Remove { .. } => None,
        })
        .collect();
    let mut argv: Vec<Value> = edited
        .env
        .iter()
        .filter(|change| change.name.as_str().is_none_or(typed))
        .filter_map(|change| Some(assignment(&change.name, change.value.as_ref()?)))
        .collect();
    argv.extend(edited.argv.iter().map(word));
    json!({
        "id": remedy.id,
        "available": remedy.is_offered(),
        "reason": reason,
        "argv": argv,
        "env": env,
        "patches": [],
        "title": remedy.title,
        "changes": remedy.changes,
        "effect": remedy.expectation.words,
        "cost": remedy.cost,
    })
}

fn assignment(name: &Word, value: &Word) -> Value {
    let mut bytes = name.as_bytes().to_vec();
    bytes.push(b'=');
    bytes.extend_from_slice(value.as_bytes());
    use std::os::unix::ffi::OsStringExt;
    word(&Word(std::ffi::OsString::from_vec(bytes)))
}

fn word(word: &Word) -> Value {
    Value::String(word.to_string_lossy())
}
