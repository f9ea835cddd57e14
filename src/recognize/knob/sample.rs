//! The numbers that set how large one sample is: the length of its sequence, the sides of its image. By their names and by the
//! sizes that the model was given: a name alone says nothing (`--max-length` may be what is generated afterwards), nor does a
//! number.

use super::{Origin, ToldNumbers, knob};
use crate::event::Knobs;
use crate::recognize::batch::{Knob, Place};
use crate::recognize::family;
use crate::recognize::recognized::Recognized;
use crate::recognize::spellings::SampleSize;

/// Sequences are rarely shorter, and small numbers are everywhere.
const SHORTEST: u64 = 16;
/// Dimensions of a batch of images: samples, channels, height, width.
const DIMENSIONS_OF_IMAGES: usize = 4;

/// What sets the size of a sample.
#[derive(Debug)]
pub(crate) struct SampleKnobs<'a> {
    pub what: SampleSize,
    /// All that set it: height and width, source and target.
    pub knobs: Vec<SampleKnob<'a>>,
    /// What the model was given, for a person.
    pub given: String,
}

/// One number of it.
#[derive(Debug)]
pub(crate) struct SampleKnob<'a> {
    pub knob: Knob<'a>,
    /// The values that the program's parser takes; empty if any.
    pub choices: &'a [u64],
}

impl<'c> Recognized<'c> {
    /// What sets the size of a sample of the training, if that is known. Of two kinds the one of the largest tensor.
    pub(crate) fn sample_sizes(&self) -> Option<SampleKnobs<'c>> {
        self.check_open().ok()?;
        let told = self.launch.told.filter(|told| !told.evaluated)?;
        let batch = self.batch_source().ok().map(|source| source.at_once);
        let largest = |what| told.elements_with(what, batch);
        let mut kinds = [SampleSize::Length, SampleSize::Side];
        kinds.sort_by_key(|what| std::cmp::Reverse(largest(*what)));
        kinds.into_iter().find_map(|what| {
            let knobs = self.of_sample(told, what, batch);
            (!knobs.is_empty()).then(|| SampleKnobs {
                what,
                knobs,
                given: told.shapes(),
            })
        })
    }

    /// The arguments first: what is typed or a default goes before what stands in a file, and that before the program's
    /// text. Of what only the text has, none where it has several.
    fn of_sample(
        &self,
        told: &'c Knobs,
        what: SampleSize,
        batch: Option<u64>,
    ) -> Vec<SampleKnob<'c>> {
        let Ok(arguments) = self.opened() else {
            return Vec::new();
        };
        let is_it = |name: &str, value: u64| {
            family::sample_size(name) == Some(what) && told.is_sample_size(what, value, batch)
        };
        let numbers = ToldNumbers::new(told, self.launch.learned);
        let named = numbers.all.iter().map(|(_, origin)| *origin);
        let named = named.filter(|origin| {
            let mut names = origin.names().into_iter();
            names.any(|name| is_it(name, origin.value()))
        });
        let (parsed, literals): (Vec<Origin<'c>>, Vec<Origin<'c>>) =
            named.partition(|origin| matches!(origin, Origin::Parsed(_)));
        let found = |origins: Vec<Origin<'c>>| -> Vec<SampleKnob<'c>> {
            let knobs = origins.into_iter().filter_map(|origin| {
                let knob = knob(origin, &arguments, self).ok()?;
                let choices = match origin {
                    Origin::Parsed(number) => number.choices.as_slice(),
                    Origin::Literal(_) => &[],
                };
                Some(SampleKnob { knob, choices })
            });
            knobs.collect()
        };
        let parsed = found(parsed);
        if !parsed.is_empty() {
            return parsed;
        }
        let typed = arguments.all().filter_map(|hit| Knob::of(&hit).ok());
        let in_files = self.launch.files.iter().flat_map(|file| {
            let names = file.names().unwrap_or_default().into_iter();
            names.filter_map(move |name| {
                let setting = file.scalar(&name).ok()??;
                let place = Place::File(file, setting.clone());
                Knob::new(&setting.name, &setting.text, place).ok()
            })
        });
        let set = typed
            .chain(in_files)
            .filter(|knob| is_it(&knob.name, knob.value));
        let set: Vec<SampleKnob<'c>> = set.map(|knob| SampleKnob { knob, choices: &[] }).collect();
        if !set.is_empty() {
            return set;
        }
        let literals = told.confirmed(literals);
        match literals.as_slice() {
            [_] => found(literals),
            _ => Vec::new(),
        }
    }
}

impl Knobs {
    /// Whether a number is such a size of what the model was given, beside its batch.
    fn is_sample_size(&self, what: SampleSize, value: u64, batch: Option<u64>) -> bool {
        let mut shapes = self.given.iter().map(|given| given.shape.as_slice());
        shapes.any(|shape| has_size(shape, what, value, batch))
    }

    /// The elements of the largest tensor that may have such a size.
    fn elements_with(&self, what: SampleSize, batch: Option<u64>) -> u64 {
        let shapes = self.given.iter().map(|given| given.shape.as_slice());
        let fitting = shapes.filter(|shape| {
            let mut sizes = shape.iter();
            sizes.any(|size| has_size(shape, what, *size, batch))
        });
        let elements =
            fitting.map(|shape| shape.iter().fold(1, |all: u64, n| all.saturating_mul(*n)));
        elements.max().unwrap_or(0)
    }
}

/// Whether a tensor has it beside the batch, which is one of its sizes. A sequence is often given without its first or last
/// element.
fn has_size(shape: &[u64], what: SampleSize, value: u64, batch: Option<u64>) -> bool {
    let of_batch = shape
        .iter()
        .position(|size| Some(*size) == batch)
        .unwrap_or(0);
    let mut others = (shape.iter().enumerate())
        .filter(|(at, _)| *at != of_batch)
        .map(|(_, size)| *size);
    match what {
        SampleSize::Length => {
            let is_sequence = (2..DIMENSIONS_OF_IMAGES).contains(&shape.len());
            is_sequence && value > SHORTEST && others.any(|size| size.abs_diff(value) <= 1)
        }
        SampleSize::Side => {
            let is_images = shape.len() >= DIMENSIONS_OF_IMAGES;
            is_images && value >= SHORTEST && others.any(|size| size == value)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::SourceNumber;
    use crate::recognize::knob::tests::{self, command, number};
    use crate::recognize::{ConfigFile, LaunchEnvironment};

    fn told(shapes: &[&[u64]], numbers: &[(&str, u64)], literals: &[(&str, u64)]) -> Knobs {
        let numbers: Vec<_> = (numbers.iter().map(|(o, v)| number(o, *v, false))).collect();
        let literals = literals.iter().zip(1..);
        let literals = literals.map(|((name, value), line)| SourceNumber {
            file: "/p/a.py".into(),
            line,
            name: (*name).into(),
            value: *value,
            ..SourceNumber::default()
        });
        Knobs {
            literals: literals.collect(),
            ..tests::told(shapes, &numbers)
        }
    }

    fn found(line: &str, told: &Knobs, files: &[ConfigFile]) -> String {
        let command = command(line);
        let launch = LaunchEnvironment {
            told: Some(told),
            files,
            ..LaunchEnvironment::default()
        };
        let Some(found) = Recognized::new(&command, &launch).sample_sizes() else {
            return "nothing".into();
        };
        let knobs = found.knobs.iter();
        let knobs: Vec<String> = knobs
            .map(|one| format!("{} {}", one.knob.name, one.knob.value))
            .collect();
        format!("{:?}: {}", found.what, knobs.join(", "))
    }

    #[test]
    fn lengths_and_sides_are_found_by_name_and_size() {
        let tokens: &[&[u64]] = &[&[32, 512]];
        let images: &[&[u64]] = &[&[32, 3, 224, 224]];
        let batch = ("--batch-size", 32);
        for (told, wanted) in [
            (
                told(tokens, &[batch, ("--seq-len", 512)], &[]),
                "Length: --seq-len 512",
            ),
            // The last token is only a target.
            (
                told(&[&[32, 511]], &[batch, ("--block_size", 512)], &[]),
                "Length: --block_size 512",
            ),
            (told(tokens, &[batch, ("--seq-len", 256)], &[]), "nothing"),
            (told(tokens, &[batch, ("--vocab", 512)], &[]), "nothing"),
            (
                told(tokens, &[batch, ("--eval_seq_len", 512)], &[]),
                "nothing",
            ),
            // Time comes first.
            (
                told(&[&[512, 32]], &[batch, ("--bptt", 512)], &[]),
                "Length: --bptt 512",
            ),
            // It is the batch, by all that is known.
            (
                told(&[&[32, 10]], &[batch, ("--max_len", 32)], &[]),
                "nothing",
            ),
            (
                told(
                    &[&[32, 64], &[32, 48]],
                    &[
                        batch,
                        ("--max_source_length", 64),
                        ("--max_target_length", 48),
                    ],
                    &[],
                ),
                "Length: --max_source_length 64, --max_target_length 48",
            ),
            (
                told(images, &[batch, ("--img-size", 224)], &[]),
                "Side: --img-size 224",
            ),
            (told(images, &[batch, ("--seq-len", 224)], &[]), "nothing"),
            (
                told(
                    &[&[32, 3, 128, 256]],
                    &[batch, ("--img-height", 128), ("--img-width", 256)],
                    &[],
                ),
                "Side: --img-height 128, --img-width 256",
            ),
            // Text and image: the larger one.
            (
                told(
                    &[&[32, 3, 224, 224], &[32, 77]],
                    &[batch, ("--img-size", 224), ("--context-length", 77)],
                    &[],
                ),
                "Side: --img-size 224",
            ),
            (
                told(tokens, &[batch], &[("block_size", 512)]),
                "Length: block_size 512",
            ),
            (
                told(tokens, &[batch], &[("block_size", 512), ("max_len", 512)]),
                "nothing",
            ),
        ] {
            assert_eq!(found("python a.py", &told, &[]), wanted, "{told:?}");
        }
        let evaluated = Knobs {
            evaluated: true,
            ..told(tokens, &[batch, ("--seq-len", 512)], &[])
        };
        assert_eq!(found("python a.py", &evaluated, &[]), "nothing");
    }

    #[test]
    fn a_word_or_a_file_has_it_where_no_parser_was_seen() {
        let told = told(&[&[8, 1024]], &[], &[]);
        let line = "python a.py data.seq_len=1024 data.batch_size=8";
        assert_eq!(found(line, &told, &[]), "Length: data.seq_len 1024");
        let file = ConfigFile {
            at: 3,
            from: 0,
            name: "c.yaml".into(),
            text: "batch_size: 8\nmax_seq_length: 1024\n".into(),
            bases: Default::default(),
        };
        let line = "python a.py --config c.yaml";
        assert_eq!(found(line, &told, &[file]), "Length: max_seq_length 1024");
    }
}
