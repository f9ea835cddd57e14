//! The batch, found by its number: of the arguments that the program itself parsed, the one whose value is a size that its
//! model was given. So a batch is found that is a default or has a name of its own, in a program without an entry.
//!
//! That a number was typed, or is a default, is no evidence: it only says where to edit. A name that is spelled like a batch
//! confirms a number. Without one the number alone never suffices.

mod candidates;
pub(crate) mod evaluation;
mod given;
pub(crate) mod sample;

use super::argument::{Arguments, Hit, Name, same};
use super::batch::{Addition, BatchSource, Knob, Place, WholeBatch};
use super::family;
use super::learned::{KnobStanding, LearnedKnob};
use super::per_device::{self, DividedTotal};
use super::recognized::{Reach, Recognized};
use super::spellings::BatchArgument;
use crate::event::{Knobs, ParsedNumber, SourceEdit, SourceNumber, SourceNumberKind};
use candidates::{BatchCandidate, Meaning, Origin, SizeRelation, ToldNumbers};
use std::path::Path;

/// Where the program's own parsers, or its own files, have the batch: the numbers that set it and its accumulation. The
/// error says what was looked at.
pub(super) fn source<'a>(
    recognized: &Recognized<'a>,
    told: &'a Knobs,
) -> Result<BatchSource<'a>, String> {
    let numbers = ToldNumbers::new(told, recognized.launch.learned);
    let candidates = numbers.candidates();
    let Some(first) = candidates.first() else {
        if let Some((option, value)) = numbers.computed() {
            return of_computed(recognized, option, value);
        }
        if let Some(found) = numbers.classes().or_else(|| numbers.drawn()) {
            return of_candidate(recognized, &numbers, found);
        }
        return match numbers.by_number_alone()? {
            Some(found) => of_candidate(recognized, &numbers, found),
            None => Err(numbers.nothing_found()),
        };
    };
    let rivals = candidates
        .iter()
        .filter(|other| other.rank() == first.rank());
    let rivals = told.confirmed(rivals.map(|rival| rival.origin).collect());
    let found = candidates
        .iter()
        .find(|one| rivals.first() == Some(&one.origin));
    match (found, rivals.len()) {
        (Some(found), 1) => of_candidate(recognized, &numbers, *found),
        _ => Err(not_sure(&rivals)),
    }
}

/// A number that may set the batch where none is sure to, for a person to choose.
#[derive(Debug)]
pub(crate) struct PossibleBatch<'a> {
    pub source: BatchSource<'a>,
    /// Why it may be the batch, and where it stands.
    pub evidence: String,
}

/// Those that may set the batch where [`source`] is not sure: the rivals of the same rank, or, where nothing is named like
/// one, numbers that are a size of the model's input. The likeliest first.
pub(super) fn possible<'a>(recognized: &Recognized<'a>, told: &'a Knobs) -> Vec<PossibleBatch<'a>> {
    let numbers = ToldNumbers::new(told, recognized.launch.learned);
    let candidates = numbers.candidates();
    let found: Vec<BatchCandidate<'a>> = match candidates.first() {
        Some(first) => {
            let rivals = candidates
                .iter()
                .filter(|other| other.rank() == first.rank());
            let rivals: Vec<BatchCandidate<'a>> = rivals.copied().collect();
            let confirmed = told.confirmed(rivals.iter().map(|rival| rival.origin).collect());
            let is_confirmed = |rival: &BatchCandidate<'a>| confirmed.contains(&rival.origin);
            rivals.into_iter().filter(is_confirmed).collect()
        }
        None => numbers.by_sizes(),
    };
    let described = found.into_iter().filter_map(|candidate| {
        let evidence = numbers.evidence(&candidate);
        let source = of_candidate(recognized, &numbers, candidate).ok()?;
        Some(PossibleBatch { source, evidence })
    });
    described.collect()
}

/// The option is added, with less than what the program computes without it.
fn of_computed<'a>(
    recognized: &Recognized<'a>,
    option: &'a ParsedNumber,
    value: u64,
) -> Result<BatchSource<'a>, String> {
    let mut knob = knob_of_parsed(option, &recognized.opened()?, recognized)?;
    // The command may have it by now.
    if knob.value == 0 {
        knob.value = value;
    }
    let mut source = BatchSource::new(vec![knob]);
    source.bounds.choices = &option.choices;
    Ok(source)
}

fn of_candidate<'a>(
    recognized: &Recognized<'a>,
    numbers: &ToldNumbers<'a>,
    found: BatchCandidate<'a>,
) -> Result<BatchSource<'a>, String> {
    let arguments = recognized.opened()?;
    let of_device = numbers.of_device(&found).and_then(|option| {
        let shown = found.origin.shown();
        let total = DividedTotal {
            name: &shown,
            value: found.origin.value(),
            ranks: found.origin.value() / found.size.max(1),
        };
        let knob = knob_of_parsed(option, &arguments, recognized).ok()?;
        per_device::source(option, total, knob)
    });
    if let Some(source) = of_device {
        return Ok(source);
    }
    let mut source = BatchSource::new(vec![knob(found.origin, &arguments, recognized)?]);
    // A later run may have another value of the same number.
    let size = u128::from(source.at_once) * u128::from(found.size);
    let at_once = size / u128::from(found.origin.value().max(1));
    source.at_once = u64::try_from(at_once).unwrap_or(u64::MAX).max(1);
    if let Some(steps) = numbers.cut_into(&found) {
        // The total stays as it is.
        source.steps = vec![knob(steps, &arguments, recognized)?];
        source.sizes.clear();
        return Ok(source);
    }
    numbers.bound(&mut source, &found);
    if found.relation == SizeRelation::Episode {
        source.of_classes();
    }
    match (found.relation, numbers.steps, numbers.total(&found)) {
        (
            SizeRelation::Given | SizeRelation::Views | SizeRelation::Episode | SizeRelation::About,
            Some(steps),
            _,
        ) => {
            source.steps = vec![knob(steps, &arguments, recognized)?];
        }
        (
            SizeRelation::Given | SizeRelation::Views | SizeRelation::Episode | SizeRelation::About,
            None,
            Some(total),
        ) => {
            source.whole = WholeBatch::Kept(format!("{} {} stays", total.shown(), total.value()));
        }
        (
            SizeRelation::Given | SizeRelation::Views | SizeRelation::Episode | SizeRelation::About,
            None,
            None,
        )
        | (SizeRelation::Total, _, _) => {}
    }
    Ok(source)
}

fn not_sure(rivals: &[Origin<'_>]) -> String {
    let named: Vec<String> = rivals.iter().map(|rival| rival.shown()).collect();
    format!(
        "not sure which sets the batch: {} are all {}",
        named.join(", "),
        rivals.first().map_or(0, |rival| rival.value())
    )
}

/// Whether the batch that was found by its name is what the program parsed and its model was given; sets the batch of one
/// call, of which a total has several, and what bounds a new value.
pub(super) fn confirms<'a>(
    told: &'a Knobs,
    learned: &'a [LearnedKnob],
    source: &mut BatchSource<'a>,
) -> bool {
    let Some(knob) = source.sizes.first() else {
        return true;
    };
    let is_it = |number: &&ParsedNumber| {
        let mut options = number.options.iter();
        options.any(|option| same(option, &knob.name))
    };
    let Some(number) = told.parsed.iter().find(is_it) else {
        return true;
    };
    let numbers = ToldNumbers::new(told, learned);
    let accumulation = source.accumulation().max(numbers.accumulation());
    let relation = told.relation(number.value, accumulation).or_else(|| {
        let mut names = number.options.iter().chain([&number.name]);
        let size = told.episode(number.value);
        let size = size.filter(|_| names.any(|name| family::counts_classes(name)));
        Some((SizeRelation::Episode, size?))
    });
    let Some((relation, size)) = relation else {
        return false;
    };
    // Beside a number of one device's batch a total is not what memory depends on.
    let is_of_device = |other: &BatchCandidate<'_>| {
        other.relation == SizeRelation::Given && other.level != BatchArgument::Total
    };
    if relation == SizeRelation::Total && numbers.candidates().iter().any(is_of_device) {
        return false;
    }
    let at_once = u128::from(knob.value) * u128::from(size) / u128::from(number.value.max(1));
    source.at_once = u64::try_from(at_once).unwrap_or(u64::MAX).max(1);
    let origin = Origin::Parsed(number);
    let found = BatchCandidate {
        relation,
        level: match origin.meaning() {
            Meaning::Batch(level) => level,
            Meaning::Accumulation | Meaning::Other | Meaning::Unknown => BatchArgument::Plain,
        },
        origin,
        size,
        standing: KnobStanding::Unknown,
    };
    if numbers.of_device(&found).is_some() {
        return false;
    }
    if let Some(steps) = numbers.cut_into(&found) {
        let is_steps = |knob: &Knob<'_>| steps.names().iter().any(|name| same(name, &knob.name));
        if !matches!(source.steps.as_slice(), [one] if is_steps(one)) {
            return false;
        }
        source.sizes.clear();
        return true;
    }
    numbers.bound(source, &found);
    true
}

/// Whether the model was given as much of anything.
pub(super) fn is_given(told: &Knobs, size: u64) -> bool {
    let is_it = |relation| matches!(relation, (SizeRelation::Given, _));
    told.relation(size, 1).is_some_and(is_it)
}

/// The accumulation by what the running program calls so, where no word or line sets it that could be edited (`5 * 8`).
pub(crate) fn accumulation(told: &Knobs) -> Option<u64> {
    let named = told.names.iter();
    let mut called_so = named.filter(|number| family::is_accumulation(&number.name));
    let first = called_so.next()?.value;
    called_so.all(|other| other.value == first).then_some(first)
}

/// The options that set the batch or its accumulation, as they were found by number.
pub(super) fn options<'a>(source: &BatchSource<'_>, told: &'a Knobs) -> Vec<&'a str> {
    let named = || source.sizes.iter().chain(&source.steps);
    let is_it = |number: &&ParsedNumber| {
        let mut options = number.options.iter();
        options.any(|option| named().any(|knob| same(option, &knob.name)))
    };
    let found = told.parsed.iter().filter(is_it);
    found
        .flat_map(|number| number.options.iter().map(String::as_str))
        .collect()
}

/// Its name as one types it.
fn shown(number: &ParsedNumber) -> &str {
    let longest = number.options.iter().max_by_key(|option| option.len());
    longest.unwrap_or(&number.name)
}

/// The file's name and the line.
fn place(number: &SourceNumber) -> String {
    let name = Path::new(&number.file).file_name();
    let name = name.map_or_else(|| number.file.clone().into(), |name| name.to_string_lossy());
    format!("{name}:{}", number.line)
}

/// The word of the command that sets it, the words that will, or its place in a file.
fn knob<'a>(
    origin: Origin<'a>,
    arguments: &Arguments<'a>,
    recognized: &Recognized<'a>,
) -> Result<Knob<'a>, String> {
    match origin {
        Origin::Parsed(number) => knob_of_parsed(number, arguments, recognized),
        Origin::Literal(number) => knob_of_literal(number, recognized),
    }
}

pub(super) fn knob_of_parsed<'a>(
    number: &'a ParsedNumber,
    arguments: &Arguments<'a>,
    recognized: &Recognized<'a>,
) -> Result<Knob<'a>, String> {
    let typed = number
        .options
        .iter()
        .flat_map(|option| arguments.find(Name::new(option)));
    if let Some(hit) = typed.max_by_key(|hit| hit.token) {
        return Knob::of(&hit);
    }
    if number.typed && number.by == "argparse" {
        let options = number.options.iter();
        let cut_short = options.flat_map(|option| arguments.find_cut_short(option, |_| false));
        let hits: Vec<Hit<'a>> = cut_short.collect();
        if let [hit] = hits.as_slice() {
            return Knob::of(hit);
        }
    }
    if number.typed || number.options.is_empty() {
        return Err(format!(
            "{} is written in a way that is not edited",
            shown(number)
        ));
    }
    if arguments.nested.is_some() {
        return Err("its arguments are inside one word".into());
    }
    let spec = match number.by.as_str() {
        "absl" | "fire" => format!("{}=", shown(number)),
        _ => shown(number).to_string(),
    };
    let end = recognized.place_for(shown(number));
    Ok(Knob {
        name: shown(number).trim_end_matches('=').into(),
        value: number.value,
        place: Place::Added(Addition::new(&spec, end)),
        least: None,
    })
}

pub(super) fn knob_of_literal<'a>(
    number: &'a SourceNumber,
    recognized: &Recognized<'a>,
) -> Result<Knob<'a>, String> {
    let at = place(number);
    if recognized.reach() != Reach::ThisNode {
        return Err(format!(
            "{} is {} in {at}; a file is edited only where all ranks are on this node",
            number.name, number.value
        ));
    }
    let mut edit = SourceEdit {
        file: number.file.clone(),
        line: number.line,
        column: number.column,
        from: number.value,
        to: number.value,
        crc: number.crc,
        spelled: match number.kind {
            SourceNumberKind::Assignment => format!("{} = ", number.name),
            SourceNumberKind::Entry => format!("\"{}\": ", number.name),
            SourceNumberKind::Setting => format!("{}: ", number.name),
            SourceNumberKind::Declared => format!("{}, default ", number.name),
            SourceNumberKind::Keyword | SourceNumberKind::Default | SourceNumberKind::Other => {
                format!("{}=", number.name)
            }
        },
    };
    // The command may have it changed already; it was told before that or after it.
    let edits = SourceEdit::of(recognized.command);
    if let Some(made) = edits.into_iter().find(|made| made.is_at(&edit)) {
        edit = SourceEdit {
            spelled: edit.spelled,
            ..made
        };
    }
    Ok(Knob {
        name: number.name.clone(),
        value: edit.to,
        place: Place::Literal(edit),
        least: None,
    })
}

#[cfg(test)]
pub(crate) mod tests;
