//! Accumulation of gradients by an argument that counts micro-batches: made longer where the command
//! says it, added where the program's default is known.

use super::super::argument::{ArgumentForm, Arguments, Hit, Name, Value, same};
use super::super::draft::Draft;
use super::super::program::{Accumulation, ProgramEntry};
use super::{Kept, last, times};

/// Sets or adds the accumulation of a [`AccumulationRule::Flag`] program.
pub(super) fn accumulate(
    draft: &mut Draft,
    arguments: &Arguments<'_>,
    entry: &ProgramEntry,
    batch: &Hit<'_>,
    old: u64,
    new: u64,
    scale: f64,
) -> Result<Kept, String> {
    let accumulation = &entry.accumulation;
    let there: Vec<Hit<'_>> = accumulation
        .names
        .iter()
        .filter_map(|name| last(arguments, name, entry))
        .collect();
    match there.as_slice() {
        [hit] => set_accumulation(draft, arguments, hit, scale),
        [one, two, ..] => Err(format!("{} and {} are both set", one.name, two.name)),
        [] => {
            let configured = accumulation.in_config && entry.is_configured(arguments);
            let refused = accumulation
                .refused_with
                .iter()
                .any(|option| arguments.has(Name::new(option)));
            let Some(default) = accumulation.default.filter(|_| !configured && !refused) else {
                return Ok(Kept::None);
            };
            let steps = times(default, scale);
            if steps <= default || old == new {
                return Ok(Kept::None);
            }
            let Some(words) = addition(accumulation, entry, batch, steps) else {
                return Ok(Kept::None);
            };
            draft.insert(arguments, batch.end(), &words, entry.separator);
            Ok(Kept::By(default, steps))
        }
    }
}

/// An accumulation argument written as the batch argument beside it is.
pub(super) fn addition(
    accumulation: &Accumulation,
    entry: &ProgramEntry,
    batch: &Hit<'_>,
    steps: u64,
) -> Option<Vec<String>> {
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
    let spec = accumulation.names.iter().find(of_same_kind).or_else(|| {
        accumulation
            .names
            .iter()
            .find(|spec| Name::new(spec).is_option() == (dashes > 0))
    })?;
    let canonical = entry
        .batch
        .names
        .iter()
        .find(|name| same(name.trim_start_matches('-'), typed.trim_start_matches('-')));
    let spelled = canonical.map_or_else(|| spec.clone(), |name| as_typed(spec, name, typed));
    Some(match batch.form {
        ArgumentForm::Equals => vec![format!("{spelled}={steps}")],
        ArgumentForm::KeyValue => vec![format!("{spelled}{steps}")],
        ArgumentForm::Space | ArgumentForm::Glued | ArgumentForm::Pair => {
            vec![spelled, steps.to_string()]
        }
        ArgumentForm::Colon => return None,
    })
}

/// `spec` with dashes or underscores as the user prefers them in `typed`.
fn as_typed(spec: &str, canonical: &str, typed: &str) -> String {
    let front = spec.len() - spec.trim_start_matches('-').len();
    let (dashes, body) = spec.split_at(front);
    let has = |name: &str, c| name.trim_start_matches('-').contains(c);
    if has(canonical, '_') && has(typed, '-') && !has(typed, '_') {
        format!("{dashes}{}", body.replace('_', "-"))
    } else if has(canonical, '-') && has(typed, '_') && !has(typed, '-') {
        format!("{dashes}{}", body.replace('-', "_"))
    } else {
        spec.to_string()
    }
}

/// Makes accumulation longer where it is said: a number, a list of them, several words.
pub(super) fn set_accumulation(
    draft: &mut Draft,
    arguments: &Arguments<'_>,
    hit: &Hit<'_>,
    scale: f64,
) -> Result<Kept, String> {
    let value = hit
        .value
        .ok_or_else(|| format!("{} has no value", hit.name))?;
    let numbers: Option<Vec<(usize, u64)>> = numbers_in(value.text);
    let Some(numbers) = numbers.filter(|n| !n.is_empty()) else {
        return Err(format!(
            "{} is {}, which isn't a number of steps",
            hit.name, value.text
        ));
    };
    // From the back: a splice moves what stands behind it, not what stands before.
    let mut new = value.text.to_string();
    for (from, number) in numbers.iter().rev() {
        let width = number.to_string().len();
        new.replace_range(*from..from + width, &times(*number, scale).to_string());
    }
    draft.set(hit.name, value, &new);
    // `-accum_count 2 4`: more numbers in the words behind it.
    let mut k = hit.end();
    while hit.form == ArgumentForm::Space
        && let Some(token) = arguments.tokens.get(k)
        && let Ok(number) = token.text.parse::<u64>()
    {
        let more = Value {
            text: token.text,
            at: token.at,
            from: token.from,
        };
        draft.set(hit.name, more, &times(number, scale).to_string());
        k += 1;
    }
    match numbers.as_slice() {
        [(_, number)] if k == hit.end() => Ok(Kept::By(*number, times(*number, scale))),
        _ => Ok(Kept::By(1, times(1, scale))),
    }
}

/// The numbers of `8`, `[8]`, `8,16`, `[8, 16]` with their places; nothing for anything else.
fn numbers_in(text: &str) -> Option<Vec<(usize, u64)>> {
    let inner = text
        .strip_prefix('[')
        .map_or(Some(text), |t| t.strip_suffix(']'))?;
    let mut at = usize::from(inner.len() < text.len());
    let mut numbers = Vec::new();
    for piece in inner.split(',') {
        let number = piece.trim();
        let canonical = !number.starts_with('0') && number.bytes().all(|b| b.is_ascii_digit());
        let value = number.parse::<u64>().ok().filter(|n| canonical && *n > 0)?;
        numbers.push((at + (piece.len() - piece.trim_start().len()), value));
        at += piece.len() + 1;
    }
    Some(numbers)
}
