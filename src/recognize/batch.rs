//! Where a command sets its batch size and gradient accumulation, what bounds a new value, and how
//! each number is written back. Nothing is edited here.
//!
//! A known program's entry says which argument counts and how accumulation is counted (`known`);
//! other programs are read by common spellings (`unknown`), and not at all if two readings are
//! possible.

mod deepspeed;
mod known;
mod steps;
mod unknown;

use super::argument::{Arguments, Hit, InsertPoint, Name, Value};
use super::environment::ConfigFile;
use super::family;
use super::file::FoundValue;
use super::program::{ProgramEntry, Scope};
use super::recognized::Recognized;
use super::spellings::BatchArgument;

/// The batch of a command and everything that a smaller batch depends on.
#[derive(Debug)]
pub(crate) struct BatchSource<'a> {
    /// The numbers that set the per-device batch, first the one that counts. Empty if the program
    /// divides its batch by the accumulation steps.
    pub sizes: Vec<Knob<'a>>,
    /// The numbers that set the micro-batches per optimizer step.
    pub steps: Vec<Knob<'a>>,
    /// Samples per device and forward pass.
    pub at_once: u64,
    pub whole: WholeBatch,
    /// The number of devices that a size is split among, if the parts must be equal.
    pub split_among: u64,
    /// What is counted, if not samples.
    pub unit: Option<&'a str>,
    /// The file that sets the batch, if the command does not.
    pub file: Option<&'a ConfigFile>,
}

/// A number in the command and how to replace it.
#[derive(Debug, Clone)]
pub(crate) struct Knob<'a> {
    /// As typed.
    pub name: String,
    pub value: u64,
    pub place: Place<'a>,
    /// An argument whose value is a lower bound, and that value.
    pub least: Option<(&'a str, u64)>,
}

/// Where a number is.
#[derive(Debug, Clone)]
pub(crate) enum Place<'a> {
    /// In a word of the command.
    Word(Value<'a>),
    /// In a variable typed before the command.
    Variable(&'a str),
    /// In a config file of the command.
    File(&'a ConfigFile, FoundValue),
    /// Not set: words are added for it.
    Added(Addition),
}

/// Words to add, ending in a number.
#[derive(Debug, Clone)]
pub(crate) struct Addition {
    /// The number is appended to the last word.
    pub words: Vec<String>,
    pub gap: InsertPoint,
}

/// The batch of an optimizer step.
#[derive(Debug)]
pub(crate) enum WholeBatch {
    /// The per-device batch times the accumulation steps.
    Follows,
    /// Set separately and kept: the micro-batches must fill it.
    Fixed {
        /// What sets it.
        name: String,
        value: u64,
        /// The share of a device, which its micro-batches must fill, if no steps are counted.
        parts_of: u64,
    },
    /// The program keeps it, for this reason.
    Kept(String),
}

/// The batch of a command, for display.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    pub value: u64,
    pub scope: Scope,
    /// As typed.
    pub argument: String,
}

impl<'c> Recognized<'c> {
    /// The batch that the command sets, if it can be read.
    pub fn batch(&self) -> Option<Batch> {
        let (level, hit) = *candidates(&self.opened().ok()?, self.known).first()?;
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

    /// Where the command sets its batch; the error says why it can't be changed.
    pub(crate) fn batch_source(&self) -> Result<BatchSource<'c>, String> {
        self.check_open()?;
        let arguments = self.opened()?;
        match self.known {
            Some(entry) => known::source(arguments, entry, self),
            None => unknown::source(self, &arguments),
        }
    }
}

/// All arguments that may set the batch, first the one that counts.
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

impl<'a> BatchSource<'a> {
    /// Sizes without anything else.
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

    /// Micro-batches per step; 1 if they change from epoch to epoch.
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
    /// Of an argument in the notation of the data files: `--x`, `x=`, `--x=`, `A.B`.
    fn of(spec: &str, gap: InsertPoint) -> Addition {
        let mut words = vec![spec.to_string()];
        if !spec.ends_with('=') {
            words.push(String::new());
        }
        Addition { words, gap }
    }

    /// The words to add for this number.
    pub(crate) fn saying(&self, number: u64) -> Vec<String> {
        let mut words = self.words.clone();
        if let Some(last) = words.last_mut() {
            *last += &number.to_string();
        }
        words
    }
}

/// All matches for an argument of a known program, including abbreviations if the program takes
/// them.
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

/// The match that counts: the last one.
fn last<'a>(arguments: &Arguments<'a>, name: &str, entry: &ProgramEntry) -> Option<Hit<'a>> {
    hits(arguments, name, entry).pop()
}

/// A text as a number of samples.
fn parsed(text: &str, name: &str) -> Result<u64, String> {
    // Signs, spaces and leading zeros would be lost when writing it back.
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
