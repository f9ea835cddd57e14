//! Where a command says its batch, and what goes with it: how it accumulates gradients, what a new
//! value must keep to, how each number is written back. Nothing is edited here.
//!
//! A known program's entry says which argument counts and how accumulation is counted (`known`);
//! for any other the families of spelling are asked (`unknown`), and where two readings are possible
//! there is none.

mod deepspeed;
mod known;
mod steps;
mod unknown;

use super::argument::{Arguments, Hit, InsertPoint, Name, Value};
use super::environment::{ConfigFile, LaunchEnvironment};
use super::family;
use super::file::FoundValue;
use super::program::{ProgramEntry, Scope};
use super::recognition::{Recognised, arguments_of, opened};
use super::spellings::BatchArgument;
use crate::command::CommandLine;

/// The batch of a command and all that a smaller one depends on.
#[derive(Debug)]
pub(crate) struct BatchSource<'a> {
    /// The numbers that say what a device takes at once, the one that counts first. None where the
    /// program divides a batch by its steps.
    pub sizes: Vec<Knob<'a>>,
    /// The numbers that count the micro-batches of an optimizer step.
    pub steps: Vec<Knob<'a>>,
    /// What a device takes at once.
    pub at_once: u64,
    /// What becomes of the batch of an optimizer step.
    pub whole: WholeBatch,
    /// Among how many devices a size is split, where the parts must be equal.
    pub split_among: u64,
    /// What is counted, if not samples.
    pub unit: Option<&'a str>,
    /// The file that says the batch, where the command does not.
    pub file: Option<&'a ConfigFile>,
}

/// A number, and how another is written in its place.
#[derive(Debug, Clone)]
pub(crate) struct Knob<'a> {
    /// Its name, as typed.
    pub name: String,
    /// What it is.
    pub value: u64,
    /// Where it stands.
    pub place: Place<'a>,
    /// An argument below which it must not fall, and its value.
    pub least: Option<(&'a str, u64)>,
}

/// Where a number stands.
#[derive(Debug, Clone)]
pub(crate) enum Place<'a> {
    /// In a word of the command.
    Word(Value<'a>),
    /// In a variable that was typed before the command.
    Variable(&'a str),
    /// In a file that the command names.
    File(&'a ConfigFile, FoundValue),
    /// Nowhere that is edited: words are added that say it.
    Added(Addition),
}

/// Words to be added, with a number at their end.
#[derive(Debug, Clone)]
pub(crate) struct Addition {
    /// The words; the number continues the last.
    pub words: Vec<String>,
    /// Where they go.
    pub gap: InsertPoint,
}

/// The batch of an optimizer step.
#[derive(Debug)]
pub(crate) enum WholeBatch {
    /// What a device takes at once times the steps.
    Follows,
    /// It is said beside them and stays: the parts must fill it.
    Fixed {
        /// What says it.
        name: String,
        /// What it is.
        value: u64,
        /// What a device's parts of it must fill, where no steps are counted.
        parts_of: u64,
    },
    /// The program keeps it, as these words say.
    Kept(String),
}

/// The batch of a command, for the eye.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// What it is.
    pub value: u64,
    /// What it counts for.
    pub scope: Scope,
    /// The argument, as typed.
    pub argument: String,
}

/// The batch that a command says, if one can be read.
pub fn batch_of(command: &CommandLine, recognised: &Recognised<'_>) -> Option<Batch> {
    let arguments = arguments_of(command, &recognised.anatomy);
    let arguments = opened(arguments, recognised.known).ok()?;
    let (level, hit) = *candidates(&arguments, recognised.known).first()?;
    let scope = match level {
        BatchArgument::Micro | BatchArgument::Plain | BatchArgument::Divided => Scope::Micro,
        BatchArgument::Total => Scope::Global,
        BatchArgument::Unsure => return None,
    };
    let knob = Knob::of(&hit).ok()?;
    Some(Batch {
        value: knob.value,
        scope,
        argument: knob.name,
    })
}

/// Every argument that may say the batch, the one that counts first.
pub(crate) fn candidates<'a>(
    arguments: &Arguments<'a>,
    known: Option<&ProgramEntry>,
) -> Vec<(BatchArgument, Hit<'a>)> {
    let Some(entry) = known else {
        let mut found = family::batches(arguments);
        found.reverse();
        found.sort_by_key(|(level, _)| *level);
        return found;
    };
    let level = match entry.batch.scope {
        Scope::Micro => BatchArgument::Micro,
        Scope::Global => BatchArgument::Total,
    };
    let names = entry.batch.names.iter();
    names
        .flat_map(|name| hits(arguments, name, entry).into_iter().rev())
        .map(|hit| (level, hit))
        .collect()
}

/// Where the batch of a command stands, or why none can be changed.
pub(crate) fn source<'a>(
    command: &'a CommandLine,
    recognised: &Recognised<'a>,
    launch: &LaunchEnvironment<'a>,
) -> Result<BatchSource<'a>, String> {
    recognised.check_open()?;
    let arguments = arguments_of(command, &recognised.anatomy);
    let arguments = opened(arguments, recognised.known)?;
    match recognised.known {
        Some(entry) => known::source(arguments, entry, recognised, launch),
        None => unknown::source(command, recognised, &arguments, launch),
    }
}

impl<'a> BatchSource<'a> {
    /// Sizes that are there, and nothing that goes with them.
    fn of(sizes: Vec<Knob<'a>>) -> BatchSource<'a> {
        BatchSource {
            at_once: sizes.first().map_or(1, |knob| knob.value),
            sizes,
            steps: Vec::new(),
            whole: WholeBatch::Follows,
            split_among: 1,
            unit: None,
            file: None,
        }
    }

    /// The micro-batches of a step; 1 where they change from epoch to epoch.
    pub(crate) fn accumulation(&self) -> u64 {
        match self.steps.as_slice() {
            [first, rest @ ..] if rest.iter().all(|k| k.value == first.value) => first.value,
            _ => 1,
        }
    }
}

impl<'a> Knob<'a> {
    fn new(name: &str, text: &str, place: Place<'a>) -> Result<Knob<'a>, String> {
        Ok(Knob {
            name: name.into(),
            value: parsed(text, name)?,
            place,
            least: None,
        })
    }

    fn of(hit: &Hit<'a>) -> Result<Knob<'a>, String> {
        let value = hit
            .value
            .ok_or_else(|| format!("{} has no value", hit.name))?;
        Knob::new(hit.name, value.text, Place::Word(value))
    }
}

impl Addition {
    /// An argument as the data files write it: `--x`, `x=`, `--x=`, `A.B`.
    fn of(spec: &str, gap: InsertPoint) -> Addition {
        let mut words = vec![spec.to_string()];
        if !spec.ends_with('=') {
            words.push(String::new());
        }
        Addition { words, gap }
    }

    /// The words with their number.
    pub(crate) fn saying(&self, number: u64) -> Vec<String> {
        let mut words = self.words.clone();
        if let Some(last) = words.last_mut() {
            *last += &number.to_string();
        }
        words
    }
}

/// Every place of an argument of a known program, abbreviated or not.
pub(crate) fn hits<'a>(
    arguments: &Arguments<'a>,
    name: &str,
    entry: &ProgramEntry,
) -> Vec<Hit<'a>> {
    let wanted = Name::new(name);
    if entry.abbreviates == Some(false) {
        return arguments.find(wanted);
    }
    let look_alikes = entry.look_alikes.iter();
    let others: Vec<Name<'_>> = look_alikes
        .chain(&entry.batch.names)
        .chain(&entry.accumulation.names)
        .map(|other| Name::new(other))
        .collect();
    arguments.find_abbreviated(wanted, &others)
}

/// The argument that counts: of several of one name the last.
fn last<'a>(arguments: &Arguments<'a>, name: &str, entry: &ProgramEntry) -> Option<Hit<'a>> {
    hits(arguments, name, entry).pop()
}

/// A text as a number of samples.
fn parsed(text: &str, name: &str) -> Result<u64, String> {
    // Signs, spaces and leading zeros would not come back as they went.
    let is_plain = text.bytes().all(|b| b.is_ascii_digit()) && !text.starts_with('0');
    match text.parse::<u64>() {
        Ok(number) if is_plain => Ok(number),
        _ if matches!(text, "-1" | "auto")
            || text.parse::<f64>().is_ok_and(|f| f > 0.0 && f < 1.0) =>
        {
            Err(format!(
                "{name} is {text}: the program finds a batch size that fits by itself"
            ))
        }
        _ if text.contains(',') => Err(format!(
            "{name} is a list, {text}: several runs or several batch sizes"
        )),
        _ => Err(format!("{name} is {text}, which isn't a number of samples")),
    }
}
