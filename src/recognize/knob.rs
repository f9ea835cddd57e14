//! The batch, found by its number: of the arguments that the program itself parsed, the one whose value is a size that its
//! model was given. So a batch is found that is a default or has a name of its own, in a program without an entry.
//!
//! That a number was typed, or is a default, is no evidence: it only says where to edit. A name that is spelled like a batch
//! confirms a number. Without one the number alone never suffices.

pub(crate) mod evaluation;
mod given;
pub(crate) mod sample;

use super::argument::{Arguments, Hit, Name, same};
use super::batch::{Addition, BatchSource, Knob, Place, WholeBatch};
use super::family;
use super::learned::{KnobEffect, KnobPlace, KnobStanding, LearnedKnob, standing};
use super::per_device::{self, DividedTotal};
use super::recognized::{Reach, Recognized};
use super::spellings::BatchArgument;
use crate::event::{Knobs, ParsedNumber, SourceEdit, SourceNumber, SourceNumberKind};
use std::path::Path;

/// How far a batch that is drawn by chance may be from its mean, in its standard deviations, of which it has at the least.
const MOST_DEVIATIONS: f64 = 5.0;
const FEWEST_DRAWN: u64 = 64;

/// What a number's name says that it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    Batch(BatchArgument),
    Accumulation,
    /// A size of something else, or no size.
    Other,
    Unknown,
}

/// How a number is a batch of the model's calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum SizeRelation {
    /// It is a size that the model was given.
    Given,
    /// It is that size times the ranks, the accumulation, or both.
    Total,
    /// That size is so many times it: the model is given several views of each sample at once.
    Views,
    /// That size is so many classes, each with the samples that an episode draws of one.
    Episode,
    /// That size is about it: the program draws each sample by chance.
    About,
}

/// A number of the program, and where it is set.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Origin<'a> {
    Parsed(&'a ParsedNumber),
    Literal(&'a SourceNumber),
}

impl<'a> Origin<'a> {
    fn names(self) -> Vec<&'a str> {
        match self {
            Origin::Parsed(number) => {
                let options = number.options.iter().map(String::as_str);
                options.chain([number.name.as_str()]).collect()
            }
            Origin::Literal(number) => vec![&number.name],
        }
    }

    fn value(self) -> u64 {
        match self {
            Origin::Parsed(number) => number.value,
            Origin::Literal(number) => number.value,
        }
    }

    fn meaning(self) -> Meaning {
        let names = self.names();
        if names.iter().any(|name| family::is_accumulation(name)) {
            return Meaning::Accumulation;
        }
        let level = names.iter().find_map(|name| family::batch_level(name));
        match level.or_else(|| names.iter().find_map(|name| family::like_a_batch(name))) {
            Some(level) => Meaning::Batch(level),
            None if (names.iter()).any(|name| family::is_other_than_a_count(name)) => {
                Meaning::Other
            }
            None => Meaning::Unknown,
        }
    }

    /// How far it may be the batch, by what was learned of it.
    fn standing(self, learned: &[LearnedKnob]) -> KnobStanding {
        let names = self.names();
        standing(learned, |place| match (self, place) {
            (Origin::Parsed(_), _) => place.is_argument(&names),
            (
                Origin::Literal(number),
                KnobPlace::Literal {
                    file,
                    line,
                    column,
                    name,
                },
            ) => {
                (&number.file, number.line, number.column, &number.name)
                    == (file, *line, *column, name)
            }
            (Origin::Literal(_), _) => false,
        })
    }

    /// As one types it, or where one reads it.
    fn shown(self) -> String {
        match self {
            Origin::Parsed(number) => shown(number).into(),
            Origin::Literal(number) => format!("{} {}", place(number), number.name),
        }
    }
}

/// What was told of the numbers, each with what its name says.
struct ToldNumbers<'a> {
    told: &'a Knobs,
    /// Without those that have no effect.
    all: Vec<(Meaning, Origin<'a>)>,
    learned: &'a [LearnedKnob],
    /// What counts the micro-batches of a step, if there is one number that does.
    steps: Option<Origin<'a>>,
}

/// Where a number stands: what goes before what in a program that has it in several places. A program that reads a file of
/// settings, and declares an argument with the same number, takes that of the file unless the argument is typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Standpoint {
    Typed,
    Settings,
    Default,
    Text,
}

/// A number that may set the batch.
#[derive(Clone, Copy)]
struct BatchCandidate<'a> {
    relation: SizeRelation,
    level: BatchArgument,
    origin: Origin<'a>,
    /// The batch of one call.
    size: u64,
    standing: KnobStanding,
}

impl BatchCandidate<'_> {
    /// What was confirmed first, then by where it stands; else by how sure the name is.
    fn rank(&self) -> (KnobStanding, SizeRelation, Standpoint, BatchArgument) {
        let standpoint = match self.origin {
            Origin::Parsed(number) if number.typed => Standpoint::Typed,
            Origin::Literal(number) if number.kind == SourceNumberKind::Setting => {
                Standpoint::Settings
            }
            Origin::Parsed(_) => Standpoint::Default,
            Origin::Literal(_) => Standpoint::Text,
        };
        (self.standing, self.relation, standpoint, self.level)
    }
}

impl<'a> ToldNumbers<'a> {
    fn new(told: &'a Knobs, learned: &'a [LearnedKnob]) -> ToldNumbers<'a> {
        let parsed = told.parsed.iter().filter(|number| number.reads_command);
        let literals = told.literals.iter().filter(|number| told.is_in_use(number));
        let all: Vec<(Meaning, Origin<'a>)> = parsed
            .map(Origin::Parsed)
            .chain(literals.map(Origin::Literal))
            .filter(|origin| origin.standing(learned) != KnobStanding::WithoutEffect)
            .map(|origin| (origin.meaning(), origin))
            .collect();
        let steps: Vec<Origin<'a>> = all
            .iter()
            .filter(|(meaning, origin)| *meaning == Meaning::Accumulation && origin.value() > 0)
            .map(|(_, origin)| *origin)
            .collect();
        let of_words: Vec<Origin<'a>> = (steps.iter().copied())
            .filter(|origin| matches!(origin, Origin::Parsed(_)))
            .collect();
        let steps = match of_words.as_slice() {
            [] => told.confirmed(steps),
            _ => of_words,
        };
        ToldNumbers {
            told,
            all,
            learned,
            steps: match steps.as_slice() {
                [one] => Some(*one),
                _ => None,
            },
        }
    }

    fn accumulation(&self) -> u64 {
        self.steps.map_or(1, |steps| steps.value().max(1))
    }

    fn candidates(&self) -> Vec<BatchCandidate<'a>> {
        let accumulation = self.accumulation();
        let mut found: Vec<BatchCandidate<'a>> = self
            .all
            .iter()
            .filter_map(|(meaning, origin)| {
                let standing = origin.standing(self.learned);
                let level = match (meaning, standing) {
                    (Meaning::Batch(level), _) => *level,
                    (Meaning::Unknown, KnobStanding::Confirmed) => BatchArgument::Plain,
                    (Meaning::Accumulation | Meaning::Other | Meaning::Unknown, _) => return None,
                };
                let (relation, size) = self.told.relation(origin.value(), accumulation)?;
                Some(BatchCandidate {
                    relation,
                    level,
                    origin: *origin,
                    size,
                    standing,
                })
            })
            .collect();
        found.sort_by_key(BatchCandidate::rank);
        found
    }

    /// The one number that can be the batch though its name does not say so: a size that only the first dimension has.
    fn by_number_alone(&self) -> Result<Option<BatchCandidate<'a>>, String> {
        let Some(size) = self.told.only_first() else {
            return Ok(None);
        };
        let is_it = |(meaning, origin): &&(Meaning, Origin<'a>)| {
            *meaning == Meaning::Unknown && origin.value() == size
        };
        let found: Vec<Origin<'a>> = self.all.iter().filter(is_it).map(|(_, o)| *o).collect();
        match found.as_slice() {
            [] => Ok(None),
            [origin] => Ok(Some(BatchCandidate {
                relation: SizeRelation::Given,
                level: BatchArgument::Plain,
                origin: *origin,
                size,
                standing: origin.standing(self.learned),
            })),
            several => Err(not_sure(several)),
        }
    }

    /// The one number of classes of a few-shot episode, where the model was given so many times the samples of each.
    fn classes(&self) -> Option<BatchCandidate<'a>> {
        let found = self.all.iter().filter_map(|(_, origin)| {
            let counts = (origin.names().iter()).any(|name| family::counts_classes(name));
            let size = self.told.episode(origin.value()).filter(|_| counts)?;
            Some(BatchCandidate {
                relation: SizeRelation::Episode,
                level: BatchArgument::Plain,
                origin: *origin,
                size,
                standing: origin.standing(self.learned),
            })
        });
        let found: Vec<BatchCandidate<'a>> = found.collect();
        match found.as_slice() {
            [one] => Some(*one),
            _ => None,
        }
    }

    /// The one number that is called a batch and is about the first dimension of every tensor: as where a loader draws each
    /// sample by chance, with a batch's size on average.
    fn drawn(&self) -> Option<BatchCandidate<'a>> {
        let size = self.told.first_of_all()?;
        let is_about = |value: u64| {
            let most = MOST_DEVIATIONS * (value as f64).sqrt();
            value >= FEWEST_DRAWN && (value.abs_diff(size) as f64) <= most
        };
        let found = self.all.iter().filter_map(|(meaning, origin)| {
            let is_named = (origin.names().iter()).any(|name| family::batch_level(name).is_some());
            match meaning {
                Meaning::Batch(level) if is_named && is_about(origin.value()) => {
                    Some(BatchCandidate {
                        relation: SizeRelation::About,
                        level: *level,
                        origin: *origin,
                        size: origin.value(),
                        standing: origin.standing(self.learned),
                    })
                }
                Meaning::Batch(_) | Meaning::Accumulation | Meaning::Other | Meaning::Unknown => {
                    None
                }
            }
        });
        let found: Vec<BatchCandidate<'a>> = found.collect();
        match found.as_slice() {
            [one] => Some(*one),
            _ => None,
        }
    }

    /// Numbers whose names say nothing, and which are the first size of a tensor or the length of a list that the model was
    /// given: arguments first, then what a variable has as well, then what stands in a file.
    fn by_sizes(&self) -> Vec<BatchCandidate<'a>> {
        let is_first = |value: u64| value > 1 && self.told.first_sizes().any(|size| size == value);
        let unnamed = self
            .all
            .iter()
            .filter(|(meaning, origin)| *meaning == Meaning::Unknown && is_first(origin.value()));
        let mut found: Vec<Origin<'a>> = unnamed.map(|(_, origin)| *origin).collect();
        found.sort_by_key(|origin| match origin {
            Origin::Parsed(_) => 0,
            Origin::Literal(_) if self.told.is_seen(*origin) => 1,
            Origin::Literal(_) => 2,
        });
        let candidate = |origin: Origin<'a>| BatchCandidate {
            relation: SizeRelation::Given,
            level: BatchArgument::Plain,
            origin,
            size: origin.value(),
            standing: origin.standing(self.learned),
        };
        found.into_iter().map(candidate).collect()
    }

    /// Why a number may be the batch, for a person.
    fn evidence(&self, candidate: &BatchCandidate<'_>) -> String {
        let (value, size) = (candidate.origin.value(), candidate.size);
        let stands = match candidate.origin {
            Origin::Parsed(number) if number.typed => "typed".to_string(),
            Origin::Parsed(_) => "default".to_string(),
            Origin::Literal(number) => place(number),
        };
        let shapes = self.told.shapes();
        let given = match shapes.is_empty() {
            true => "a list".into(),
            false => shapes,
        };
        match candidate.relation {
            SizeRelation::Given => format!("{value}, {stands}; the model was given {given}"),
            SizeRelation::Total => {
                let parts = value / size.max(1);
                format!("{value} = {parts} × {size}, {stands}; the model was given {given}")
            }
            SizeRelation::About => {
                format!("about {value}, {stands}, drawn by chance; the model was given {given}")
            }
            SizeRelation::Episode => {
                let samples = size / value.max(1);
                format!(
                    "{size} = {value} classes × {samples}, {stands}; the model was given {given}"
                )
            }
            SizeRelation::Views => {
                let views = size / value.max(1);
                format!("{size} = {views} × {value}, {stands}; the model was given {given}")
            }
        }
    }

    /// Why there is nothing to change, for a person.
    fn nothing_found(&self) -> String {
        let mut learned = self.learned.iter().rev();
        match learned.find(|known| known.effect == KnobEffect::Nothing) {
            Some(known) => format!("{known}, and nothing else looks like the batch"),
            None => self.told.looked_at(),
        }
    }

    /// An option for one device's batch beside the total that was found, which has no number yet.
    fn of_device(&self, found: &BatchCandidate<'a>) -> Option<&'a ParsedNumber> {
        let unset = self.all.iter().filter_map(|(_, origin)| match origin {
            Origin::Parsed(number) if per_device::is_unset(number) => Some(*number),
            Origin::Parsed(_) | Origin::Literal(_) => None,
        });
        let unset: Vec<&ParsedNumber> = unset.collect();
        let is_whole = matches!(found.origin, Origin::Parsed(_))
            && found.level != BatchArgument::Micro
            && !matches!(found.relation, SizeRelation::Views | SizeRelation::Episode)
            && self.steps.is_none();
        match unset.as_slice() {
            [one] if is_whole => Some(one),
            _ => None,
        }
    }

    /// An option that nobody has set and the program then computes (`args.batch_size = 4 * len(gpus)`): its variable has the
    /// number that the model was given.
    fn computed(&self) -> Option<(&'a ParsedNumber, u64)> {
        let is_batch = |number: &ParsedNumber| {
            let names = number.options.iter().chain([&number.name]);
            let mut levels = names.filter_map(|name| family::batch_level(name));
            levels.any(|level| matches!(level, BatchArgument::Plain | BatchArgument::Micro))
        };
        let unset = self.all.iter().filter_map(|(_, origin)| match origin {
            Origin::Parsed(number) if number.value == 0 && !number.typed => Some(*number),
            Origin::Parsed(_) | Origin::Literal(_) => None,
        });
        let unset: Vec<&ParsedNumber> = unset
            .filter(|number| !number.options.is_empty() && is_batch(number))
            .collect();
        let [option] = unset.as_slice() else {
            return None;
        };
        // Of several ranks it may count all, and the variable one's share.
        if self.told.world > 1 {
            return None;
        }
        let variables = self.told.names.iter().filter(|named| {
            let parts = named.name.rsplit_once('.');
            parts.is_some_and(|(_, leaf)| leaf == option.name)
        });
        let values: Vec<u64> = variables.map(|named| named.value).collect();
        let value = *values.first()?;
        let is_given = self.told.relation(value, 1) == Some((SizeRelation::Given, value));
        (is_given && values.iter().all(|other| *other == value)).then_some((option, value))
    }

    /// A total that the program keeps beside the number that was found.
    fn total(&self, found: &BatchCandidate<'a>) -> Option<Origin<'a>> {
        // Beside what is one device's by its name, a plain batch is the total.
        let is_total = |meaning: Meaning, value: u64| match meaning {
            Meaning::Batch(BatchArgument::Total) => true,
            Meaning::Batch(BatchArgument::Plain | BatchArgument::Divided) => {
                found.level == BatchArgument::Micro && value.is_multiple_of(found.origin.value())
            }
            Meaning::Batch(BatchArgument::Micro | BatchArgument::Unsure)
            | Meaning::Accumulation
            | Meaning::Other
            | Meaning::Unknown => false,
        };
        let is_it = |(meaning, origin): &&(Meaning, Origin<'a>)| {
            is_total(*meaning, origin.value())
                && *origin != found.origin
                && origin.value() >= found.origin.value()
        };
        self.all.iter().find(is_it).map(|(_, origin)| *origin)
    }

    /// Keeps a new value to what the program accepts: choices, equal shares of a total, and a divisor of a total beside
    /// it.
    fn bound(&self, source: &mut BatchSource<'a>, found: &BatchCandidate<'a>) {
        let bounds = &mut source.bounds;
        if let Origin::Parsed(number) = found.origin {
            bounds.choices = &number.choices;
        }
        match found.relation {
            SizeRelation::Total => bounds.multiple_of = (found.origin.value() / found.size).max(1),
            SizeRelation::Given
            | SizeRelation::Views
            | SizeRelation::Episode
            | SizeRelation::About => {
                let total = self.total(found).map(Origin::value);
                bounds.divisor_of = total.map(|total| self.told.share(total, found.size));
            }
        }
    }
}

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
    numbers.bound(source, &found);
    true
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
