//! What was recognized in a command, and each remedy's edited command, as JSON for other programs.
//!
//! Nothing is masked: these are the caller's own words, and they are meant to be run.

use super::inputs::RemedyInputs;
use super::offer::remedies_of;
use super::plan::{Availability, Edit, Plan, Remedy};
use crate::command::{CommandLine, Word};
use crate::event::EDITS;
use crate::recognize::LearnedKnob;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// `{"program", "launcher", "batch", "found", "remedies"}`. Each `argv` begins with the variables typed
/// before the command; those that a remedy sets in addition are in its `env`.
pub fn plan_json(command: &CommandLine, inputs: &RemedyInputs<'_>) -> Value {
    let recognized = inputs.recognize(command);
    let batch = recognized.batch();
    let program = command.argv.get(recognized.layout.program);
    json!({
        "version": 1,
        "program": {
            "word": program.map(word),
            "kind": recognized.layout.kind,
            "known": recognized.known.map(|entry| entry.name.as_str()),
            "entry_from": recognized.known.and_then(|entry| entry.source.as_deref()),
        },
        "launcher": recognized.launchers().iter().map(|l| l.name.as_str()).collect::<Vec<_>>(),
        "torch": inputs.launch.torch,
        "batch": batch.map(|batch| json!({
            "value": batch.value,
            "scope": batch.scope,
            "arg": batch.argument,
        })),
        "found": recognized.batch_finding(),
        "learned": inputs.launch.learned.iter().map(learned).collect::<Vec<_>>(),
        "remedies": remedies_of(&recognized, inputs)
            .iter()
            .map(|remedy| in_json(command, remedy))
            .collect::<Vec<_>>(),
    })
}

fn learned(knob: &LearnedKnob) -> Value {
    json!({
        "number": knob.place.to_string(),
        "effect": knob.effect,
        "session": knob.session,
    })
}

fn in_json(command: &CommandLine, remedy: &Remedy) -> Value {
    let edited = Plan::new(command, &[remedy]).command;
    let reason = match &remedy.availability {
        Availability::Offered => None,
        Availability::NotOffered(reason) => Some(reason.as_str()),
    };
    let typed = |name: &str| command.env.iter().any(|change| change.name == *name);
    let (mut env, mut patches) = (serde_json::Map::new(), Vec::new());
    for edit in &remedy.edits {
        match edit {
            Edit::Env { name, value } => {
                env.insert(name.clone(), value.as_ref().map_or(Value::Null, word));
            }
            Edit::Patch(patch) => patches.push(patch.to_string()),
            Edit::Source(_) => {
                let value = edited.env_value(EDITS).map_or(Value::Null, word);
                env.insert(EDITS.into(), value);
            }
            Edit::Splice { .. } | Edit::Insert { .. } | Edit::Remove { .. } => {}
        }
    }
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
        "patches": patches,
        "title": remedy.title,
        "changes": remedy.changes,
        "effect": remedy.expectation.words,
        "expected": {
            "verdict": remedy.expectation.verdict().words(),
            "fits": remedy.expectation.fits,
            "needs": remedy.expectation.needs(),
            "peak": remedy.expectation.peak,
            "within": remedy.expectation.within(),
            "at_least": remedy.expectation.at_least,
            "room": remedy.expectation.room,
            "ram": remedy.expectation.ram,
            "relief": remedy.expectation.relief,
            "basis": remedy.expectation.basis,
            "ran_before": remedy.expectation.ran_before,
        },
        "cost": remedy.cost,
    })
}

fn assignment(name: &Word, value: &Word) -> Value {
    let bytes = [name.as_bytes(), b"=", value.as_bytes()].concat();
    word(&Word(OsString::from_vec(bytes)))
}

/// Bytes that aren't UTF-8 are kept in a string as characters of the last private plane until they
/// are written, with the offset that Python's surrogate escapes have in theirs.
const KEPT: u32 = 0x10_DC00;

fn word(word: &Word) -> Value {
    let mut text = String::new();
    for chunk in word.as_bytes().utf8_chunks() {
        text.push_str(chunk.valid());
        let kept = |byte: &u8| char::from_u32(KEPT + u32::from(*byte));
        text.extend(chunk.invalid().iter().filter_map(kept));
    }
    Value::String(text)
}

/// The JSON as text. Bytes that aren't UTF-8 are written as Python reads them: as lone surrogates,
/// `\udc80` to `\udcff`, which no Rust string can contain.
pub fn plan_text(outline: &Value) -> String {
    let mut text = String::new();
    for c in format!("{outline:#}").chars() {
        match (c as u32).checked_sub(KEPT) {
            Some(byte @ 0x80..=0xff) => text.push_str(&format!("\\udc{byte:02x}")),
            _ => text.push(c),
        }
    }
    text
}
