//! A smaller batch for a program that an entry knows.

use super::super::argument::{Arguments, Hit, Name};
use super::super::draft::Draft;
use super::super::environment::LaunchEnvironment;
use super::super::program::{AccumulationRule, ProgramEntry};
use super::super::recognition::Recognised;
use super::accumulation::{accumulate, addition};
use super::deepspeed;
use super::demands::check;
use super::in_file;
use super::{BatchEdit, Kept, count, last, reduced, times};

pub(super) fn smaller(
    arguments: Arguments<'_>,
    entry: &ProgramEntry,
    recognised: &Recognised<'_>,
    launch: &LaunchEnvironment<'_>,
    scale: f64,
) -> Result<BatchEdit, String> {
    if let Some(reason) = &entry.batch.none {
        return Err(reason.clone());
    }
    let refused = entry
        .batch
        .refused_with
        .iter()
        .find(|(option, _)| arguments.has(Name::new(option)));
    if let Some((option, reason)) = refused {
        // The file after the option counts: where it was read, it is edited.
        let is_file = entry.file.named.contains(option);
        let by_file =
            is_file.then(|| in_file::smaller(&arguments, entry, recognised, launch, scale));
        return by_file.flatten().unwrap_or_else(|| Err(reason.clone()));
    }
    let mut hits: Vec<Hit<'_>> = Vec::new();
    for name in &entry.batch.names {
        if let Some(hit) = last(&arguments, name, entry)
            && (entry.batch.together || hits.is_empty())
        {
            hits.push(hit);
        }
    }
    let Some(first) = hits.first().copied() else {
        if let Some(smaller) = in_file::smaller(&arguments, entry, recognised, launch, scale) {
            return smaller;
        }
        return Err(if entry.is_configured(&arguments) {
            format!(
                "the batch size is not in the command but in {}'s configuration",
                entry.name
            )
        } else {
            format!(
                "no batch size in the command ({} has its default)",
                entry.name
            )
        });
    };
    let accumulation = &entry.accumulation;
    match accumulation.rule {
        AccumulationRule::MicroSize => return by_micro_size(&arguments, &first, entry, scale),
        AccumulationRule::Divides => return by_dividing(&arguments, &first, entry, scale),
        AccumulationRule::Flag | AccumulationRule::Implicit | AccumulationRule::None => {}
    }
    let mut draft = Draft::default();
    let mut ends: Vec<(Hit<'_>, u64, u64)> = Vec::new();
    let mut refusal = None;
    for hit in hits {
        match count(&hit).and_then(|old| Ok((old, reduced(old, scale, hit.name)?))) {
            Ok((old, new)) => {
                check(&arguments, entry, recognised, hit.name, new)?;
                ends.push((hit, old, new));
            }
            // Of several limits one that is at its least already does not speak against the rest;
            // one that cannot be read does.
            Err(reason) if count(&hit) == Ok(1) => refusal = Some(reason),
            Err(reason) => return Err(reason),
        }
    }
    let Some(&(first, old, new)) = ends.first() else {
        return Err(refusal.unwrap_or_else(|| "the batch size is already 1".into()));
    };
    // One accumulation serves all limits, so all must have shrunk by as much.
    for (hit, _, new) in &ends {
        if let Some(value) = hit.value {
            draft.set(hit.name, value, &new.to_string());
        }
    }
    let kept = match accumulation.rule {
        AccumulationRule::Flag => {
            let kept = accumulate(&mut draft, &arguments, entry, &first, old, new, scale)?;
            deepspeed::agree(&mut draft, &arguments, launch, (old, new), &kept)?;
            kept
        }
        AccumulationRule::Implicit => Kept::Whole(match partner(&arguments, entry) {
            Some(total) => format!(
                "same effective batch: {} stays, with more micro-batches",
                total.name
            ),
            None if accumulation.names.is_empty() => {
                "the program accumulates up to its nominal batch by itself".into()
            }
            None => "the total batch comes from the program's default or configuration".into(),
        }),
        AccumulationRule::None | AccumulationRule::MicroSize | AccumulationRule::Divides => {
            Kept::None
        }
    };
    let unit = entry.batch.unit.as_deref();
    Ok(BatchEdit::of(draft, (old, new), kept, unit))
}

/// The argument that counts micro-batches, gives their size or the total, as the entry's rule says.
fn partner<'a>(arguments: &Arguments<'a>, entry: &ProgramEntry) -> Option<Hit<'a>> {
    let mut names = entry.accumulation.names.iter();
    names.find_map(|name| last(arguments, name, entry))
}

/// Gives the batch's partner the value `new` where it stands, or adds it beside the batch.
fn set_partner(
    arguments: &Arguments<'_>,
    batch: &Hit<'_>,
    entry: &ProgramEntry,
    new: u64,
) -> Result<Draft, String> {
    let mut draft = Draft::default();
    match partner(arguments, entry).and_then(|hit| Some((hit, hit.value?))) {
        Some((hit, value)) => draft.set(hit.name, value, &new.to_string()),
        None => {
            let words = addition(&entry.accumulation, entry, batch, new).ok_or_else(|| {
                format!("{} is written in a way that cannot be extended", batch.name)
            })?;
            draft.insert(arguments, batch.end(), &words, entry.separator);
        }
    }
    Ok(draft)
}

/// A program whose batch is split by an argument that gives the part's size.
fn by_micro_size(
    arguments: &Arguments<'_>,
    batch: &Hit<'_>,
    entry: &ProgramEntry,
    scale: f64,
) -> Result<BatchEdit, String> {
    let accumulation = &entry.accumulation;
    let whole = count(batch)?;
    let there = partner(arguments, entry);
    let shared = match &accumulation.shared_among {
        None => 1,
        Some(name) => arguments.value_of(name).map_or(Ok(1), |text| {
            text.parse::<u64>()
                .map_err(|_| format!("{name} is {text}, which isn't a number"))
        })?,
    };
    // -1 is "off": the part is the whole.
    let old = match &there {
        Some(hit) if hit.value.is_none_or(|value| value.text != "-1") => count(hit)?,
        Some(_) | None => whole / shared.max(1),
    };
    let new = reduced(old, scale, batch.name)?;
    if let Some((name, default)) = &accumulation.floor {
        let floor = arguments
            .value_of(name)
            .and_then(|text| text.parse().ok())
            .unwrap_or(*default);
        if new < floor {
            return Err(format!(
                "{new} on each device would be less than {name}, {floor}"
            ));
        }
    }
    if !whole.is_multiple_of(new.saturating_mul(shared.max(1))) {
        return Err(format!(
            "{} {whole} cannot be split into micro-batches of {new}",
            batch.name
        ));
    }
    let kept = Kept::Whole(format!(
        "effective batch {whole}, in micro-batches of {new}"
    ));
    let draft = set_partner(arguments, batch, entry, new)?;
    Ok(BatchEdit::of(draft, (old, new), kept, None))
}

/// A program that divides its batch by the accumulation steps: those alone are raised.
fn by_dividing(
    arguments: &Arguments<'_>,
    batch: &Hit<'_>,
    entry: &ProgramEntry,
    scale: f64,
) -> Result<BatchEdit, String> {
    let accumulation = &entry.accumulation;
    let whole = count(batch)?;
    let there = partner(arguments, entry);
    let steps = match &there {
        Some(hit) => count(hit)?,
        None => accumulation.default.unwrap_or(1),
    };
    let old = whole / steps.max(1);
    reduced(old, scale, batch.name)?;
    let more = times(steps, scale);
    if more <= steps {
        return Err(
            "accumulation works in whole steps; such a small reduction is not possible".into(),
        );
    }
    let kept = Kept::Whole(format!("effective batch {whole}, in {more} micro-batches"));
    let draft = set_partner(arguments, batch, entry, more)?;
    Ok(BatchEdit::of(draft, (old, whole / more), kept, None))
}
