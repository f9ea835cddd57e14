//! The numbers that a program told of, what their names say that they are, and which of them can be its batch by what the
//! model was given.

use super::{not_sure, place, shown};
use crate::event::{Knobs, ParsedNumber, SourceNumber, SourceNumberKind};
use crate::recognize::batch::BatchSource;
use crate::recognize::family;
use crate::recognize::learned::{KnobEffect, KnobPlace, KnobStanding, LearnedKnob, standing};
use crate::recognize::per_device;
use crate::recognize::spellings::BatchArgument;

/// How far a batch that is drawn by chance may be from its mean, in its standard deviations, of which it has at the least.
const MOST_DEVIATIONS: f64 = 5.0;
const FEWEST_DRAWN: u64 = 64;

/// What a number's name says that it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    Batch(BatchArgument),
    Accumulation,
    /// A size of something else, or no size.
    Other,
    Unknown,
}

/// How a number is a batch of the model's calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SizeRelation {
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
pub(super) enum Origin<'a> {
    Parsed(&'a ParsedNumber),
    Literal(&'a SourceNumber),
}

impl<'a> Origin<'a> {
    pub(super) fn names(self) -> Vec<&'a str> {
        match self {
            Origin::Parsed(number) => {
                let options = number.options.iter().map(String::as_str);
                options.chain([number.name.as_str()]).collect()
            }
            Origin::Literal(number) => vec![&number.name],
        }
    }

    pub(super) fn value(self) -> u64 {
        match self {
            Origin::Parsed(number) => number.value,
            Origin::Literal(number) => number.value,
        }
    }

    pub(super) fn meaning(self) -> Meaning {
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
    pub(super) fn standing(self, learned: &[LearnedKnob]) -> KnobStanding {
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
    pub(super) fn shown(self) -> String {
        match self {
            Origin::Parsed(number) => shown(number).into(),
            Origin::Literal(number) => format!("{} {}", place(number), number.name),
        }
    }
}

/// What was told of the numbers, each with what its name says.
pub(super) struct ToldNumbers<'a> {
    pub(super) told: &'a Knobs,
    /// Without those that have no effect.
    pub(super) all: Vec<(Meaning, Origin<'a>)>,
    pub(super) learned: &'a [LearnedKnob],
    /// What counts the micro-batches of a step, if there is one number that does.
    pub(super) steps: Option<Origin<'a>>,
}

/// Where a number stands: what goes before what in a program that has it in several places. A program that reads a file of
/// settings, and declares an argument with the same number, takes that of the file unless the argument is typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standpoint {
    Typed,
    Settings,
    Default,
    Text,
}

/// A number that may set the batch.
#[derive(Clone, Copy)]
pub(super) struct BatchCandidate<'a> {
    pub(super) relation: SizeRelation,
    pub(super) level: BatchArgument,
    pub(super) origin: Origin<'a>,
    /// The batch of one call.
    pub(super) size: u64,
    pub(super) standing: KnobStanding,
}

impl BatchCandidate<'_> {
    /// What was confirmed first, then by where it stands; else by how sure the name is.
    pub(super) fn rank(&self) -> (KnobStanding, SizeRelation, Standpoint, BatchArgument) {
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
    pub(super) fn new(told: &'a Knobs, learned: &'a [LearnedKnob]) -> ToldNumbers<'a> {
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

    pub(super) fn accumulation(&self) -> u64 {
        self.steps.map_or(1, |steps| steps.value().max(1))
    }

    pub(super) fn candidates(&self) -> Vec<BatchCandidate<'a>> {
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
    pub(super) fn by_number_alone(&self) -> Result<Option<BatchCandidate<'a>>, String> {
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
    pub(super) fn classes(&self) -> Option<BatchCandidate<'a>> {
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
    pub(super) fn drawn(&self) -> Option<BatchCandidate<'a>> {
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
    pub(super) fn by_sizes(&self) -> Vec<BatchCandidate<'a>> {
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
    pub(super) fn evidence(&self, candidate: &BatchCandidate<'_>) -> String {
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
    pub(super) fn nothing_found(&self) -> String {
        let mut learned = self.learned.iter().rev();
        match learned.find(|known| known.effect == KnobEffect::Nothing) {
            Some(known) => format!("{known}, and nothing else looks like the batch"),
            None => self.told.looked_at(),
        }
    }

    /// An option for one device's batch beside the total that was found, which has no number yet.
    pub(super) fn of_device(&self, found: &BatchCandidate<'a>) -> Option<&'a ParsedNumber> {
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
    pub(super) fn computed(&self) -> Option<(&'a ParsedNumber, u64)> {
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

    /// What counts the parts that the program cuts a batch into: the model was given one of them. More ranks that would explain
    /// as much leave it open.
    pub(super) fn cut_into(&self, found: &BatchCandidate<'a>) -> Option<Origin<'a>> {
        let steps = self.steps.filter(|steps| steps.value() > 1)?;
        let parts = found.origin.value() / found.size.max(1);
        let (count, world) = (steps.value(), self.told.world.max(1));
        let is_cut = parts == count && count != world || parts == count.saturating_mul(world);
        (found.relation == SizeRelation::Total && is_cut).then_some(steps)
    }

    /// A total that the program keeps beside the number that was found.
    pub(super) fn total(&self, found: &BatchCandidate<'a>) -> Option<Origin<'a>> {
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
    pub(super) fn bound(&self, source: &mut BatchSource<'a>, found: &BatchCandidate<'a>) {
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
