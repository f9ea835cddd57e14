//! Where a command sets its batch size and gradient accumulation, what bounds a new value, and how
//! each number is written back. Nothing is edited here.
//!
//! What is found where in a command is for `batch_source.rs`; the config file of DeepSpeed's engine is
//! read here.

use super::argument::{ArgumentForm, Arguments, Hit, InsertPoint, Name, Value, same};
use super::config_file::FoundValue;
use super::family;
use super::launch::ConfigFile;
use super::learned::KnobPlace;
use super::learning_rate_rule::LearningRateRule;
use super::program::{ProgramEntry, Scope};
use super::recognized::Recognized;
use super::spellings::BatchArgument;
use crate::event::SourceEdit;

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
    pub bounds: BatchBounds<'a>,
    /// What else a person is told of another batch.
    pub remarks: Vec<String>,
    /// How the program's learning rate follows the batch, if it does.
    pub rate: Option<LearningRateRule>,
}

/// What the program itself accepts as its batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BatchBounds<'a> {
    /// The values that its parser takes; empty if any.
    pub choices: &'a [u64],
    /// What a total is divided by.
    pub multiple_of: u64,
    /// What it must divide.
    pub divisor_of: Option<u64>,
}

impl BatchBounds<'_> {
    /// The largest value that is accepted and no larger than this one.
    pub(crate) fn at_most(&self, most: u64) -> Option<u64> {
        let is_taken = |value: &u64| {
            value.is_multiple_of(self.multiple_of.max(1))
                && self
                    .divisor_of
                    .is_none_or(|total| total.is_multiple_of(*value))
        };
        match self.choices {
            [] => (1..=most).rev().find(is_taken),
            choices => {
                let taken = choices
                    .iter()
                    .copied()
                    .filter(|value| *value > 0 && *value <= most);
                taken.filter(is_taken).max()
            }
        }
    }

    /// For display.
    pub(crate) fn shown(&self) -> String {
        let listed: Vec<String> = self.choices.iter().map(u64::to_string).collect();
        match (self.choices, self.divisor_of) {
            ([], Some(total)) => format!("what divides {total}"),
            ([], None) => format!("multiples of {}", self.multiple_of),
            _ => listed.join(", "),
        }
    }
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
    /// In the text of the program itself, as it is now: it becomes what it is.
    Literal(SourceEdit),
}

/// Words to add, ending in a number.
#[derive(Debug, Clone, PartialEq, Eq)]
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

impl BatchSource<'_> {
    /// What it counts is the classes of an episode.
    pub(crate) fn of_classes(&mut self) {
        self.unit = Some("classes");
        self.remarks
            .push("an episode draws fewer classes, which is an easier task".into());
    }
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
    pub(super) fn new(sizes: Vec<Knob<'a>>) -> BatchSource<'a> {
        BatchSource {
            at_once: sizes.first().map_or(1, |knob| knob.value),
            sizes,
            steps: Vec::new(),
            whole: WholeBatch::Follows,
            split_among: 1,
            unit: None,
            file: None,
            bounds: BatchBounds {
                choices: &[],
                multiple_of: 1,
                divisor_of: None,
            },
            remarks: Vec::new(),
            rate: None,
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
    pub(super) fn new(name: &str, text: &str, place: Place<'a>) -> Result<Knob<'a>, String> {
        Ok(Knob {
            name: name.into(),
            value: parsed(text, name)?,
            place,
            least: None,
        })
    }

    pub(super) fn of(hit: &Hit<'a>) -> Result<Knob<'a>, String> {
        let value = hit
            .value
            .ok_or_else(|| format!("{} has no value", hit.name))?;
        Knob::new(hit.name, value.text, Place::Word(value))
    }

    /// The variable that a program likely has it in: `--batch-size`, `train.batch_size=`.
    pub(super) fn variable(&self) -> String {
        let name = self
            .name
            .trim_start_matches(['-', '+'])
            .trim_end_matches('=');
        let leaf = name.rsplit('.').next().unwrap_or(name);
        leaf.replace('-', "_")
    }

    /// Where it is set, as it is known again in another session.
    pub(crate) fn lasting_place(&self) -> KnobPlace {
        let name = self.name.clone();
        match &self.place {
            Place::Word(_) | Place::Variable(_) | Place::Added(_) => KnobPlace::Argument { name },
            Place::File(file, _) => KnobPlace::Setting {
                file: file.shown(),
                name,
            },
            Place::Literal(edit) => KnobPlace::Literal {
                file: edit.file.clone(),
                line: edit.line,
                column: edit.column,
                name,
            },
        }
    }
}

impl Addition {
    /// Of an argument in the notation of the data files: `--x`, `x=`, `--x=`, `A.B`.
    pub(super) fn new(spec: &str, gap: InsertPoint) -> Addition {
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
pub(super) fn last<'a>(
    arguments: &Arguments<'a>,
    name: &str,
    entry: &ProgramEntry,
) -> Option<Hit<'a>> {
    hits(arguments, name, entry).pop()
}

/// A text as a number of samples.
pub(super) fn parsed(text: &str, name: &str) -> Result<u64, String> {
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
        ArgumentForm::Colon | ArgumentForm::Place => return None,
    }
    Some(Addition::new(&spelled, arguments.gap(batch.end())?))
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

const MICRO: &str = "train_micro_batch_size_per_gpu";
const STEPS: &str = "gradient_accumulation_steps";
const TOTAL: &str = "train_batch_size";

/// What the config file of DeepSpeed's engine sets: the total is the micro-batch times accumulation times
/// processes, and any two of these are enough. `auto` counts as not set, since the program around it fills it in.
struct DeepspeedBatch<'a> {
    micro: Option<Knob<'a>>,
    steps: Option<Knob<'a>>,
    total: Option<Knob<'a>>,
}

impl<'a> DeepspeedBatch<'a> {
    fn read(file: &'a ConfigFile) -> Result<DeepspeedBatch<'a>, String> {
        let number = |name: &str| {
            let found = file.scalar(name)?.filter(|found| found.text != "auto");
            let knob =
                |found: FoundValue| Knob::new(name, &found.text.clone(), Place::File(file, found));
            found.map(knob).transpose()
        };
        Ok(DeepspeedBatch {
            micro: number(MICRO)?,
            steps: number(STEPS)?,
            total: number(TOTAL)?,
        })
    }
}

/// The batch of a command that sets none itself, by DeepSpeed's file.
pub(super) fn deepspeed_source(file: &ConfigFile) -> Result<BatchSource<'_>, String> {
    let in_file = DeepspeedBatch::read(file)?;
    let mut source = BatchSource::new(in_file.micro.into_iter().collect());
    source.steps.extend(in_file.steps);
    let at_once = match (source.sizes.first(), source.steps.first(), &in_file.total) {
        (Some(micro), _, _) => micro.value,
        (None, Some(steps), Some(total)) => total.value / steps.value,
        (None, _, _) => {
            return Err(format!(
                "{} does not set the micro-batch size",
                file.shown()
            ));
        }
    };
    source.at_once = at_once;
    if let Some(total) = in_file.total {
        source.whole = deepspeed_total(&total, at_once, file);
    }
    Ok(source)
}

/// Adds the numbers of DeepSpeed's file to those of a command that sets its batch itself, so that both change
/// together. Numbers that already differ are an error, as they are for frameworks.
pub(super) fn agree_with_deepspeed<'a>(
    source: &mut BatchSource<'a>,
    file: &'a ConfigFile,
) -> Result<(), String> {
    let in_file = DeepspeedBatch::read(file)?;
    let steps = source.accumulation();
    for (knob, is) in [(&in_file.micro, source.at_once), (&in_file.steps, steps)] {
        if let Some(knob) = knob.as_ref().filter(|knob| knob.value != is) {
            return Err(format!(
                "{} is {} in {}, but {is} in the command",
                knob.name,
                knob.value,
                file.shown()
            ));
        }
    }
    if let Some(total) = &in_file.total {
        source.whole = deepspeed_total(total, source.at_once, file);
    }
    source.sizes.extend(in_file.micro);
    if !source.steps.is_empty() {
        source.steps.extend(in_file.steps);
    }
    Ok(())
}

fn deepspeed_total(total: &Knob<'_>, at_once: u64, file: &ConfigFile) -> WholeBatch {
    WholeBatch::Fixed {
        name: format!("{TOTAL} in {}", file.shown()),
        value: total.value,
        parts_of: at_once,
    }
}
