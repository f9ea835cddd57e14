//! The accumulation argument: its numbers if there is one, and how to add one.

use super::{Addition, Knob, Place};
use crate::recognize::argument::{ArgumentForm, Arguments, Hit, Name, Value, same};
use crate::recognize::program::ProgramEntry;

/// An accumulation argument to add in the form of the batch argument.
pub(super) fn addition(
    arguments: &Arguments<'_>,
    entry: &ProgramEntry,
    batch: &Hit<'_>,
) -> Option<Addition> {
    let names = &entry.accumulation.names;
    let typed = batch.name;
    let dashes = typed.len() - typed.trim_start_matches('-').len();
    let of_same_kind = |spec: &&String| match (Name::new(spec), batch.form) {
        (Name::Option { dashes: d, .. }, ArgumentForm::Space | ArgumentForm::Equals)
            if typed.trim_start_matches('-').len() > 1 =>
        {
            d == dashes
        }
        (Name::Option { .. }, ArgumentForm::Space | ArgumentForm::Equals | ArgumentForm::Glued) => {
            true
        }
        (Name::Key { suffix, .. }, ArgumentForm::KeyValue) => !suffix,
        (Name::Pair(_), ArgumentForm::Pair) => true,
        _ => false,
    };
    let any = || {
        let mut names = names.iter();
        names.find(|spec| Name::new(spec).is_option() == (dashes > 0))
    };
    let spec = names.iter().find(of_same_kind).or_else(any)?;
    let bare = |name: &str| name.trim_start_matches('-').to_string();
    let mut canonical = entry.batch.names.iter();
    let canonical = canonical.find(|name| same(&bare(name), &bare(typed)));
    let mut spelled = canonical.map_or_else(|| spec.clone(), |name| as_typed(spec, name, typed));
    match batch.form {
        ArgumentForm::Equals => spelled.push('='),
        ArgumentForm::KeyValue | ArgumentForm::Space | ArgumentForm::Glued | ArgumentForm::Pair => {
        }
        ArgumentForm::Colon => return None,
    }
    Some(Addition::of(&spelled, arguments.gap(batch.end())?))
}

/// `spec` with dashes or underscores as in `typed`.
fn as_typed(spec: &str, canonical: &str, typed: &str) -> String {
    let front = spec.len() - spec.trim_start_matches('-').len();
    let (dashes, body) = spec.split_at(front);
    let has = |name: &str, c| name.trim_start_matches('-').contains(c);
    let prefers = |c, other| has(canonical, other) && has(typed, c) && !has(typed, other);
    match (prefers('-', '_'), prefers('_', '-')) {
        (true, _) => format!("{dashes}{}", body.replace('_', "-")),
        (_, true) => format!("{dashes}{}", body.replace('-', "_")),
        (false, false) => spec.to_string(),
    }
}

/// The numbers of an accumulation argument: one, a list (`[8]`, `8,16`) or several words
/// (`-accum_count 2 4`).
pub(super) fn numbers<'a>(
    arguments: &Arguments<'a>,
    hit: &Hit<'a>,
) -> Result<Vec<Knob<'a>>, String> {
    let value = hit
        .value
        .ok_or_else(|| format!("{} has no value", hit.name))?;
    let mut values = pieces(value);
    if hit.form == ArgumentForm::Space {
        let more = arguments.tokens[hit.end()..].iter();
        let more = more.take_while(|token| token.text.parse::<u64>().is_ok());
        values.extend(more.map(|token| token.value()));
    }
    let knob = |value: Value<'a>| {
        let is_plain =
            value.text.bytes().all(|b| b.is_ascii_digit()) && !value.text.starts_with('0');
        Some(Knob {
            name: hit.name.into(),
            value: value.text.parse().ok().filter(|_| is_plain)?,
            place: Place::Word(value),
            least: None,
        })
    };
    let knobs: Option<Vec<Knob<'a>>> = values.into_iter().map(knob).collect();
    knobs.ok_or_else(|| {
        format!(
            "{} is {}, which isn't a number of steps",
            hit.name, value.text
        )
    })
}

/// The parts of a value between its commas, without brackets around it.
fn pieces(value: Value<'_>) -> Vec<Value<'_>> {
    let listed = value
        .text
        .strip_prefix('[')
        .and_then(|t| t.strip_suffix(']'));
    let inner = listed.unwrap_or(value.text);
    let mut from = value.from + usize::from(listed.is_some());
    let mut pieces = Vec::new();
    for piece in inner.split(',') {
        let text = piece.trim();
        let indent = piece.len() - piece.trim_start().len();
        pieces.push(Value {
            text,
            at: value.at,
            from: from + indent,
        });
        from += piece.len() + 1;
    }
    pieces
}
