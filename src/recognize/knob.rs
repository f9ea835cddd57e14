//! The batch, found by its number: of the arguments that the program itself parsed, the one whose value is a size that its
//! model was given. So a batch is found that is a default or has a name of its own, in a program without an entry.
//!
//! That a number was typed, or is a default, is no evidence: it only says where to edit. A name that is spelled like a batch
//! confirms a number. Without one the number alone never suffices.

use super::argument::{Arguments, InsertPoint, Name, same};
use super::batch::{Addition, BatchSource, Knob, Place, WholeBatch};
use super::family;
use super::recognized::Recognized;
use super::spellings::BatchArgument;
use crate::event::{Knobs, ParsedNumber};

/// What an argument's name says that it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    Batch(BatchArgument),
    Accumulation,
    /// Something else, or nothing that is known.
    Other,
}

impl Meaning {
    fn new(number: &ParsedNumber) -> Meaning {
        let spelled = || {
            let options = number.options.iter().map(String::as_str);
            options.chain([number.name.as_str()])
        };
        if spelled().any(family::is_accumulation) {
            return Meaning::Accumulation;
        }
        let level = spelled().find_map(family::batch_level);
        match level.or_else(|| spelled().find_map(family::like_a_batch)) {
            Some(level) => Meaning::Batch(level),
            None => Meaning::Other,
        }
    }
}

/// How a number is a batch of the model's calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum SizeRelation {
    /// It is a size that the model was given.
    Given,
    /// It is that size times the ranks, the accumulation, or both.
    Total,
}

/// Where the program's own parsers have the batch: the arguments that set it and its accumulation. The error says what was
/// looked at.
pub(super) fn source<'a>(
    recognized: &Recognized<'a>,
    told: &'a Knobs,
) -> Result<BatchSource<'a>, String> {
    let arguments = recognized.opened()?;
    let numbers = || told.parsed.iter().filter(|number| number.reads_command);
    let steps: Vec<&ParsedNumber> = numbers()
        .filter(|number| Meaning::new(number) == Meaning::Accumulation)
        .collect();
    let accumulation = match steps.as_slice() {
        [one] => one.value.max(1),
        _ => 1,
    };
    let mut found: Vec<(SizeRelation, BatchArgument, &ParsedNumber, u64)> = numbers()
        .filter_map(|number| match Meaning::new(number) {
            Meaning::Batch(level) => {
                let (relation, size) = told.relation(number.value, accumulation)?;
                Some((relation, level, number, size))
            }
            Meaning::Accumulation | Meaning::Other => None,
        })
        .collect();
    found.sort_by_key(|(relation, level, _, _)| (*relation, *level));
    let Some(&(relation, level, number, size)) = found.first() else {
        return Err(told.looked_at());
    };
    let same = |(other, at, _, _): &&(SizeRelation, BatchArgument, &ParsedNumber, u64)| {
        (*other, *at) == (relation, level)
    };
    let rivals: Vec<&str> = found
        .iter()
        .filter(same)
        .map(|(.., n, _)| shown(n))
        .collect();
    if rivals.len() > 1 {
        return Err(format!(
            "not sure which sets the batch: {} are all {}",
            rivals.join(", "),
            number.value
        ));
    }
    let mut source = BatchSource::new(vec![knob(number, &arguments, recognized)?]);
    // A later run may have another value of the same argument.
    source.at_once = (source.at_once.saturating_mul(size) / number.value).max(1);
    if let (SizeRelation::Given, [steps]) = (relation, steps.as_slice()) {
        source.steps = vec![knob(steps, &arguments, recognized)?];
    }
    let total = found.iter().find(|(_, level, other, _)| {
        *level == BatchArgument::Total && other.name != number.name && other.value >= number.value
    });
    if let (SizeRelation::Given, Some((_, _, total, _)), true) = (relation, total, steps.is_empty())
    {
        source.whole = WholeBatch::Kept(format!("{} {} stays", shown(total), total.value));
    }
    Ok(source)
}

/// Whether the batch that was found by its name is what the program parsed and its model was given; sets the batch of one
/// call, of which a total has several.
pub(super) fn confirms(told: &Knobs, source: &mut BatchSource<'_>) -> bool {
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
    match told.relation(number.value, source.accumulation()) {
        Some((_, size)) => {
            source.at_once = (knob.value.saturating_mul(size) / number.value).max(1);
            true
        }
        None => false,
    }
}

/// The options that set the batch or its accumulation, as they were found by number.
pub(super) fn options<'a>(recognized: &Recognized<'_>, told: &'a Knobs) -> Vec<&'a str> {
    let names: Vec<String> = match source(recognized, told) {
        Ok(source) => source
            .sizes
            .iter()
            .chain(&source.steps)
            .map(|k| k.name.clone())
            .collect(),
        Err(_) => return Vec::new(),
    };
    let is_it = |number: &&ParsedNumber| {
        let mut options = number.options.iter();
        options.any(|option| names.iter().any(|name| same(option, name)))
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

/// The word of the command that sets it, or the words that will.
fn knob<'a>(
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
    let end = InsertPoint::Before(recognized.layout.arguments.end);
    Ok(Knob {
        name: shown(number).into(),
        value: number.value,
        place: Place::Added(Addition::new(&spec, end)),
        least: None,
    })
}

impl Knobs {
    /// How a number relates to what the model was given, and the batch of one call; `None` if it does not.
    fn relation(&self, value: u64, accumulation: u64) -> Option<(SizeRelation, u64)> {
        let is_given = |size: u64| size > 1 && self.sizes().any(|given| given == size);
        if is_given(value) {
            return Some((SizeRelation::Given, value));
        }
        let world = self.world.max(1);
        [world.saturating_mul(accumulation), accumulation, world]
            .into_iter()
            .filter(|parts| *parts > 1 && value.is_multiple_of(*parts))
            .map(|parts| value / parts)
            .find(|size| is_given(*size))
            .map(|size| (SizeRelation::Total, size))
    }

    /// What may be a batch: the first dimensions, the second ones where the modules do not say that the batch comes first,
    /// and lengths of lists.
    fn sizes(&self) -> impl Iterator<Item = u64> + '_ {
        let dimensions = match self.batch_first {
            Some(true) => 1,
            Some(false) | None => 2,
        };
        let first = self
            .given
            .iter()
            .flat_map(move |given| given.shape.iter().take(dimensions));
        first
            .copied()
            .chain(self.given.iter().filter_map(|given| given.length))
    }

    /// For a person: which sizes were looked for among what.
    fn looked_at(&self) -> String {
        let mut shapes: Vec<String> = self
            .given
            .iter()
            .filter(|given| !given.shape.is_empty())
            .map(|given| {
                given
                    .shape
                    .iter()
                    .map(u64::to_string)
                    .collect::<Vec<_>>()
                    .join("×")
            })
            .collect();
        shapes.dedup();
        shapes.truncate(3);
        let parsed = self
            .parsed
            .iter()
            .filter(|number| number.reads_command)
            .count();
        let among = match parsed {
            0 => "the program parses no arguments".to_string(),
            one => format!("none of its {one} arguments with a number sets one of these"),
        };
        match shapes.is_empty() {
            true => "no batch size in the command".into(),
            false => format!("the model was given {}; {among}", shapes.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{CommandLine, Word};
    use crate::event::GivenSize;
    use crate::recognize::LaunchEnvironment;

    fn number(option: &str, value: u64, typed: bool) -> ParsedNumber {
        ParsedNumber {
            name: option.trim_start_matches('-').replace('-', "_"),
            options: vec![option.into()],
            value,
            default: Some(value),
            typed,
            reads_command: true,
            by: "argparse".into(),
            ..ParsedNumber::default()
        }
    }

    fn shape(dimensions: &[u64]) -> GivenSize {
        GivenSize {
            at: "0".into(),
            shape: dimensions.to_vec(),
            ..GivenSize::default()
        }
    }

    fn told(given: &[&[u64]], parsed: &[ParsedNumber]) -> Knobs {
        Knobs {
            given: given.iter().map(|each| shape(each)).collect(),
            parsed: parsed.to_vec(),
            world: 1,
            ..Knobs::default()
        }
    }

    fn command(text: &str) -> CommandLine {
        CommandLine {
            argv: text.split(' ').map(Word::from).collect(),
            env: Vec::new(),
            cwd: "/".into(),
        }
    }

    /// What sets the batch, its value, the batch of one call, and what counts the micro-batches.
    fn found(text: &str, told: &Knobs) -> Result<(String, u64, u64, Vec<String>), String> {
        let command = command(text);
        let launch = LaunchEnvironment {
            told: Some(told),
            ..LaunchEnvironment::default()
        };
        let recognized = Recognized::new(&command, &launch);
        let source = recognized.batch_source()?;
        let knob = &source.sizes[0];
        let steps = source.steps.iter().map(|knob| knob.name.clone()).collect();
        Ok((knob.name.clone(), knob.value, source.at_once, steps))
    }

    fn is(name: &str, value: u64, at_once: u64) -> Result<(String, u64, u64, Vec<String>), String> {
        Ok((name.into(), value, at_once, Vec::new()))
    }

    #[test]
    fn a_default_is_found_and_becomes_an_argument() {
        let told = told(
            &[&[256, 3, 224, 224], &[256]],
            &[
                number("--batch-size", 256, false),
                number("--workers", 4, false),
            ],
        );
        assert_eq!(
            found("python train.py data", &told),
            is("--batch-size", 256, 256)
        );
        let command = command("python train.py data");
        let launch = LaunchEnvironment {
            told: Some(&told),
            ..LaunchEnvironment::default()
        };
        let recognized = Recognized::new(&command, &launch);
        let source = recognized.batch_source().unwrap();
        let Place::Added(addition) = &source.sizes[0].place else {
            panic!("{source:?}");
        };
        assert_eq!(addition.saying(128), ["--batch-size", "128"]);
        assert_eq!(addition.gap, InsertPoint::Before(3));
    }

    #[test]
    fn a_typed_number_beside_it_is_no_batch() {
        let told = told(
            &[&[64, 3, 32, 32]],
            &[number("--workers", 64, true), number("--batch", 64, false)],
        );
        assert_eq!(
            found("python train.py --workers 64", &told),
            is("--batch", 64, 64)
        );
    }

    #[test]
    fn a_name_of_its_own_is_confirmed_by_its_number() {
        let told = told(
            &[&[96, 3, 64, 64]],
            &[
                number("--batch_size_A", 96, false),
                number("--num_batches", 96, false),
                number("--val-batch-size", 96, false),
            ],
        );
        assert_eq!(
            found("python train.py", &told),
            is("--batch_size_A", 96, 96)
        );
    }

    #[test]
    fn the_second_dimension_counts_unless_the_modules_say_otherwise() {
        let mut told = told(
            &[&[35, 20], &[2, 20, 200]],
            &[number("--batch_size", 20, false)],
        );
        assert_eq!(found("python main.py", &told), is("--batch_size", 20, 20));
        told.batch_first = Some(true);
        assert!(found("python main.py", &told).is_err());
    }

    #[test]
    fn a_total_is_told_from_the_size_per_device() {
        let per_device = [
            number("--batch-size", 64, false),
            number("--batch-per-gpu", 8, false),
        ];
        let given: &[&[u64]] = &[&[8, 3, 64, 64]];
        assert_eq!(
            found("python t.py", &told(given, &per_device)),
            is("--batch-per-gpu", 8, 8)
        );
        let mut total = told(&[&[8, 3, 64, 64]], &[number("--batch-size", 64, true)]);
        total.world = 8;
        assert_eq!(
            found("torchrun t.py --batch-size 64", &total),
            is("--batch-size", 64, 8)
        );
    }

    #[test]
    fn accumulation_moves_along() {
        let told = told(
            &[&[16, 1024]],
            &[
                number("--batch", 16, false),
                number("--grad-accum-steps", 4, false),
            ],
        );
        let (.., steps) = found("python t.py", &told).unwrap();
        assert_eq!(steps, ["--grad-accum-steps"]);
    }

    #[test]
    fn where_the_name_says_nothing_the_number_alone_does_not_suffice() {
        let told = told(
            &[&[512, 64]],
            &[number("--hidden", 512, false), number("--width", 64, false)],
        );
        let why = found("python t.py", &told).unwrap_err();
        assert!(why.contains("512×64"), "{why}");
        assert!(why.contains("none of its 2 arguments"), "{why}");
    }

    #[test]
    fn two_that_are_alike_are_not_sure() {
        let told = told(
            &[&[32, 64]],
            &[
                number("--batch-a", 32, false),
                number("--batch-b", 32, false),
            ],
        );
        assert!(
            found("python t.py", &told)
                .unwrap_err()
                .contains("not sure")
        );
    }

    #[test]
    fn what_does_not_read_the_command_is_not_added() {
        let mut hidden = number("--batch-size", 64, false);
        hidden.reads_command = false;
        assert!(found("python t.py", &told(&[&[64, 3]], &[hidden])).is_err());
    }

    #[test]
    fn runs_with_a_default_and_with_the_argument_are_compared() {
        let told = told(&[&[256, 3]], &[number("--nbatch", 256, false)]);
        let launch = LaunchEnvironment {
            told: Some(&told),
            ..LaunchEnvironment::default()
        };
        let key = |text: &str| {
            let command = command(text);
            Recognized::new(&command, &launch).workload()
        };
        let (default, typed) = (
            key("python t.py data"),
            key("python t.py data --nbatch 128"),
        );
        assert_eq!(default.likeness, typed.likeness);
        assert_eq!((default.at_once, typed.at_once), (256, 128));
    }
}
