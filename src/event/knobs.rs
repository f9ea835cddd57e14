//! The numbers that set a program's sizes, as its probe knows them when memory has run out: what its model was given, what
//! its parsers made of its words, and where such numbers stand in its variables and its text. Also the wire format of the
//! probe.

use crate::units::Pid;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Knobs {
    pub pid: Pid,
    /// The device's index in that process.
    pub device: u32,
    /// Of the outermost trained model that was called last: its tensors, and its lists of them.
    pub given: Vec<GivenSize>,
    /// Whether those are the sizes of an evaluation, in which memory ran out.
    #[serde(skip_serializing_if = "is_false")]
    pub evaluated: bool,
    /// Whether they are those of the very call that failed, and not of one before it.
    #[serde(skip_serializing_if = "is_false")]
    pub failed: bool,
    /// The modules' own word on whether the batch is the first dimension; `None` if they say nothing, or not the same.
    pub batch_first: Option<bool>,
    /// Ranks that train together.
    pub world: u64,
    /// The whole numbers of the command line.
    pub parsed: Vec<ParsedNumber>,
    /// Those that the program has a name for, innermost function first.
    pub names: Vec<NamedNumber>,
    /// Those that stand in its own sources.
    pub literals: Vec<SourceNumber>,
}

fn is_false(value: &bool) -> bool {
    !value
}

impl Knobs {
    /// Whether a call had tensors of the same sizes at the same places.
    pub fn given_alike(&self, other: &[GivenSize]) -> bool {
        let shapes = |given: &[GivenSize]| -> Vec<(String, Vec<u64>)> {
            let tensors = given.iter().filter(|one| !one.shape.is_empty());
            tensors
                .map(|one| (one.at.clone(), one.shape.clone()))
                .collect()
        };
        let own = shapes(&self.given);
        !own.is_empty() && own == shapes(other)
    }

    /// What a later call says of a batch that was to be changed by as much as `from` to `to`.
    ///
    /// That nothing has changed takes more than equal sizes: the batch itself must be among them, as it was. An evaluation may
    /// take half of the training's, and the training then as much as it did.
    pub fn changed_to(&self, later: &[GivenSize], from: u64, to: u64) -> GivenChange {
        let of_rank = from
            .checked_div(self.world.max(1))
            .filter(|part| part * self.world.max(1) == from);
        let mut before = self.given.iter().flat_map(|given| &given.shape);
        let is_among = before.any(|size| *size == from || Some(*size) == of_rank);
        if self.given_alike(later) && !self.evaluated {
            return match is_among {
                true => GivenChange::None,
                false => GivenChange::Unclear,
            };
        }
        let pairs: Vec<(&[u64], &[u64])> = self
            .given
            .iter()
            .filter(|one| !one.shape.is_empty())
            .filter_map(|one| {
                let same = later.iter().find(|other| other.at == one.at)?;
                (same.shape.len() == one.shape.len()).then_some((&one.shape[..], &same.shape[..]))
            })
            .collect();
        let is_scaled = |(old, new): (&u64, &u64)| {
            old > new && u128::from(*new) * u128::from(from) == u128::from(*old) * u128::from(to)
        };
        let mut sizes = pairs.iter().flat_map(|(old, new)| old.iter().zip(*new));
        if sizes.any(is_scaled) {
            return GivenChange::Taken;
        }
        // Lengths may differ from call to call.
        let leads = pairs.iter().any(|(old, _)| old.first() == Some(&from));
        let is_led_alike = pairs.iter().all(|(old, new)| old.first() == new.first());
        match leads && is_led_alike && !self.evaluated {
            true => GivenChange::None,
            false => GivenChange::Unclear,
        }
    }

    /// For a person: the first few different sizes.
    pub fn shapes(&self) -> String {
        let with_shape = self.given.iter().filter(|given| !given.shape.is_empty());
        let mut shapes: Vec<String> = with_shape
            .map(|given| {
                let sizes: Vec<String> = given.shape.iter().map(u64::to_string).collect();
                sizes.join("×")
            })
            .collect();
        shapes.dedup();
        shapes.truncate(3);
        shapes.join(", ")
    }
}

/// Whether a model is given another batch than before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GivenChange {
    /// The one that was asked for.
    Taken,
    /// The same as before.
    None,
    Unclear,
}

/// The first call of a relaunched run's model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Called {
    pub pid: Pid,
    pub given: Vec<GivenSize>,
}

/// A tensor among a model's arguments, or a list of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GivenSize {
    /// Where it is: `0`, `input_ids`, `0.image`.
    pub at: String,
    /// The tensor's dimensions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shape: Vec<u64>,
    /// Dimensions that were not the same in all calls.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub varies: Vec<usize>,
    /// The least of each dimension in all calls, and the most; empty where no call differed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub least: Vec<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub most: Vec<u64>,
    /// How many there are in a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length: Option<u64>,
}

/// A whole number that a parser of the command line made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ParsedNumber {
    /// As the program knows it: `batch_size`.
    pub name: String,
    /// As it is typed: `-b`, `--batch-size`; empty for one that is told by its place.
    pub options: Vec<String>,
    pub value: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<u64>,
    /// The values that it may have; empty if any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<u64>,
    /// Whether it was among the words.
    pub typed: bool,
    /// Whether an argument that is added to the command reaches the parser.
    pub reads_command: bool,
    /// The parser: `argparse`, `click`, `absl`, `fire`, `tyro`.
    pub by: String,
}

/// A whole number in a variable, or in what a variable holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NamedNumber {
    /// `batch_size`, `args.batch_size`.
    pub name: String,
    pub value: u64,
    pub file: String,
    /// `<module>` for a global.
    pub function: String,
}

/// A whole number in the text of the program's own sources.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SourceNumber {
    pub file: String,
    /// The file's checksum, as it was read.
    pub crc: u32,
    /// Counted from 1.
    pub line: u32,
    /// The byte of the line, as UTF-8, at which it begins.
    pub column: u32,
    /// What it is assigned to, or passed as.
    pub name: String,
    pub kind: SourceNumberKind,
    pub value: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceNumberKind {
    /// `batch = 64`.
    Assignment,
    /// `DataLoader(data, batch_size=64)`.
    Keyword,
    /// `def train(batch=64)`.
    Default,
    /// `{"batch": 64}`.
    Entry,
    /// `add_argument("--batch", default=64)`.
    Declared,
    /// `"batch": 64` in a file of settings that the program reads by itself.
    Setting,
    #[default]
    #[serde(other)]
    Other,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(shapes: &[&[u64]]) -> Vec<GivenSize> {
        let each = shapes.iter().enumerate();
        each.map(|(at, shape)| GivenSize {
            at: at.to_string(),
            shape: shape.to_vec(),
            ..GivenSize::default()
        })
        .collect()
    }

    #[test]
    fn the_first_call_says_whether_a_smaller_batch_is_in_force() {
        use GivenChange::{None, Taken, Unclear};
        for (before, after, from, to, said) in [
            (&[128, 3, 8][..], &[64, 3, 8][..], 128, 64, Taken),
            (&[128, 3, 8], &[128, 3, 8], 128, 64, None),
            // A length that is another one in each call.
            (&[128, 57], &[128, 43], 128, 64, None),
            (&[57, 128], &[43, 64], 128, 64, Taken),
            (&[57, 128], &[43, 128], 128, 64, Unclear),
            // A total over two ranks.
            (&[64, 1024], &[16, 1024], 128, 32, Taken),
            (&[128, 57], &[100, 57], 128, 64, Unclear),
            (&[128, 57], &[128], 128, 64, Unclear),
        ] {
            let knobs = Knobs {
                given: given(&[before]),
                ..Knobs::default()
            };
            let found = knobs.changed_to(&given(&[after]), from, to);
            assert_eq!(found, said, "{before:?} {after:?}");
        }
        // An evaluation took half of the batch, and the training of the next run takes as much.
        for (evaluated, world, from, said) in [
            (false, 1, 64, Unclear),
            (true, 1, 32, Unclear),
            (false, 2, 64, None),
        ] {
            let knobs = Knobs {
                given: given(&[&[32, 176]]),
                evaluated,
                world,
                ..Knobs::default()
            };
            assert_eq!(
                knobs.changed_to(&given(&[&[32, 176]]), from, from / 2),
                said
            );
        }
    }
}
