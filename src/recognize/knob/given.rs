//! What the model was given beside the program's own numbers: how a number relates to a size, which numbers of its text are in
//! use, and what was looked at.

use super::super::family;
use super::{Origin, SizeRelation};
use crate::event::{Knobs, ParsedNumber, SourceNumber, SourceNumberKind};
use std::path::Path;

/// Views of a sample above which a multiple is more likely chance, unless the program has a number for them: the frames of a
/// video, the steps of a sequence.
const MOST_VIEWS: u64 = 16;

/// A smaller square is a mask.
const FEWEST_NODES: u64 = 256;

impl Knobs {
    /// How a number relates to what the model was given, and the batch of one call; `None` if it does not.
    pub(super) fn relation(&self, value: u64, accumulation: u64) -> Option<(SizeRelation, u64)> {
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
            .or_else(|| self.views(value).map(|size| (SizeRelation::Views, size)))
    }

    /// The first dimension of a tensor that is a small multiple of what a loader or a setting of the program's calls its
    /// batch: several views of each sample, laid together.
    pub(super) fn views(&self, value: u64) -> Option<u64> {
        let is_batch = |name: &str| {
            let leaf = name.rsplit('.').next().unwrap_or_default();
            leaf != name && (family::batch_level(leaf).or(family::like_a_batch(leaf))).is_some()
        };
        let mut names = self.names.iter();
        if value < 2 || !names.any(|named| named.value == value && is_batch(&named.name)) {
            return None;
        }
        let has = |number: u64| self.names.iter().any(|named| named.value == number);
        let are_views = |views: u64| (2..=MOST_VIEWS).contains(&views) || views > 1 && has(views);
        let mut first = self.given.iter().filter_map(|given| given.shape.first());
        first
            .find(|size| size.is_multiple_of(value) && are_views(*size / value))
            .copied()
    }

    /// The first dimension of a tensor that is so many classes, each with as many samples as the program draws of one: those it
    /// learns from, those it is asked for, or both in one tensor.
    pub(super) fn episode(&self, classes: u64) -> Option<u64> {
        let is_it = |name: &str| {
            family::counts_samples_of_a_class(name.rsplit('.').next().unwrap_or_default())
        };
        let parsed = self.parsed.iter().map(|one| (&one.name, one.value));
        let literals = self.literals.iter().map(|one| (&one.name, one.value));
        let drawn = parsed.chain(literals).filter(|(name, _)| is_it(name));
        let drawn: Vec<(&String, u64)> = drawn.collect();
        let is_drawn = |samples: u64| {
            let alone = drawn.iter().any(|(_, one)| *one == samples);
            let of_two = |(name, one): &(&String, u64)| {
                let mut others = drawn.iter().filter(|(other, _)| other != name);
                others.any(|(_, other)| one + other == samples)
            };
            alone || drawn.iter().any(of_two)
        };
        let first = self.given.iter().filter_map(|given| given.shape.first());
        let is_it =
            |size: &u64| classes > 1 && size.is_multiple_of(classes) && is_drawn(size / classes);
        first.copied().filter(is_it).max()
    }

    /// What may be a batch: the first dimensions, the second ones where the modules do not say that the batch comes first,
    /// and lengths of lists.
    pub(super) fn sizes(&self) -> impl Iterator<Item = u64> + '_ {
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

    /// The size that is the first dimension of every tensor.
    pub(super) fn first_of_all(&self) -> Option<u64> {
        let mut first = (self.given.iter()).filter_map(|given| given.shape.first().copied());
        let size = first.next()?;
        first.all(|other| other == size).then_some(size)
    }

    /// The size that is the first dimension of every tensor, and nothing else; too small numbers are everywhere.
    pub(super) fn only_first(&self) -> Option<u64> {
        let mut shapes = self.given.iter().map(|given| given.shape.as_slice());
        let tensors = || self.given.iter().filter(|given| !given.shape.is_empty());
        let size = *shapes.find_map(<[u64]>::first)?;
        let leads = tensors().all(|given| given.shape.first() == Some(&size));
        let mut others = tensors().flat_map(|given| given.shape.iter().skip(1));
        let is_another = others.any(|other| *other == size) || self.world == size;
        (leads && !is_another && size > 16).then_some(size)
    }

    /// Whether a number of the program's text is the one that counts: not where an argument of this name is as good, or
    /// was given.
    pub(super) fn is_in_use(&self, literal: &SourceNumber) -> bool {
        let name = family::plain(&literal.name);
        let is_same = |number: &&ParsedNumber| {
            let mut options = number.options.iter();
            family::plain(&number.name) == name
                || options.any(|option| family::plain(option) == name)
        };
        let mut parsed = self.parsed.iter().filter(is_same);
        match literal.kind {
            // What the program reads from a file goes before what an argument is without a word.
            SourceNumberKind::Setting => !parsed.any(|number| number.typed),
            SourceNumberKind::Assignment
            | SourceNumberKind::Keyword
            | SourceNumberKind::Default
            | SourceNumberKind::Entry
            | SourceNumberKind::Declared
            | SourceNumberKind::Other => !parsed.any(|number| {
                number.typed || number.reads_command || number.value != literal.value
            }),
        }
    }

    /// Of several numbers in the program's text, those that a variable of this name and value confirms; all where none
    /// is.
    pub(super) fn confirmed<'a>(&self, rivals: Vec<Origin<'a>>) -> Vec<Origin<'a>> {
        if rivals.len() < 2 {
            return rivals;
        }
        let seen: Vec<Origin<'a>> = rivals
            .iter()
            .copied()
            .filter(|o| self.is_seen(*o))
            .collect();
        match seen.is_empty() {
            true => rivals,
            false => seen,
        }
    }

    /// Whether a variable of this name has this value; of an argument that is so.
    pub(super) fn is_seen(&self, origin: Origin<'_>) -> bool {
        match origin {
            Origin::Parsed(_) => true,
            Origin::Literal(literal) => self.names.iter().any(|named| {
                let leaf = named.name.rsplit('.').next().unwrap_or_default();
                let is_here =
                    Path::new(&named.file).file_name() == Path::new(&literal.file).file_name();
                leaf == literal.name
                    && named.value == literal.value
                    && (is_here || named.name.contains('.'))
            }),
        }
    }

    /// The first dimensions, and the lengths of lists.
    pub(super) fn first_sizes(&self) -> impl Iterator<Item = u64> + '_ {
        let first = self.given.iter().filter_map(|given| given.shape.first());
        let lengths = self.given.iter().filter_map(|given| given.length);
        first.copied().chain(lengths)
    }

    /// The samples of a total that one device takes, whose divisors a batch may be. A total may count tokens.
    pub(super) fn share(&self, total: u64, size: u64) -> u64 {
        let of_device = total / self.world.max(1);
        let mut lengths = self
            .given
            .iter()
            .filter_map(|given| match given.shape.as_slice() {
                [first, length] if *first == size => Some(*length),
                _ => None,
            });
        let in_tokens = lengths.find(|length| {
            let product = size.saturating_mul(*length);
            product > 0 && of_device.is_multiple_of(product)
        });
        match in_tokens {
            Some(length) => of_device / length,
            None if of_device > 0 && of_device.is_multiple_of(size) => of_device,
            None => size,
        }
    }

    /// Whether the model is given a graph as a whole: what its nodes have, and which are neighbours.
    fn is_whole_graph(&self) -> bool {
        let square = self
            .given
            .iter()
            .filter_map(|given| match given.shape.as_slice() {
                [rows, columns] if rows == columns && *rows >= FEWEST_NODES => Some(*rows),
                _ => None,
            });
        let mut nodes = square.into_iter();
        let has_nodes = |count: u64| {
            let mut others = self.given.iter();
            others.any(|given| matches!(given.shape.as_slice(), [first, other] if *first == count && *other != count))
        };
        nodes.any(has_nodes)
    }

    /// What a batch is collected of that is taken out of several environments: how many there are, their steps, and into how many
    /// parts it is divided.
    fn collected(&self) -> Option<String> {
        let numbers = || {
            self.parsed
                .iter()
                .filter(|one| one.reads_command && one.value > 0)
        };
        let of = |is_it: fn(&str) -> bool| numbers().find(|one| is_it(&one.name));
        let (environments, steps) = (
            of(family::counts_environments)?,
            of(family::counts_their_steps)?,
        );
        let parts = of(family::counts_parts_of_a_rollout);
        let whole = environments.value.saturating_mul(steps.value);
        let is_given = |size: u64| {
            self.given
                .iter()
                .any(|given| given.shape.first() == Some(&size))
        };
        let named = |one: &ParsedNumber| format!("{} {}", super::shown(one), one.value);
        let (environments, steps) = (named(environments), named(steps));
        match parts {
            Some(parts) if parts.value > 1 && is_given(whole / parts.value) => {
                let parts = named(parts);
                Some(format!(
                    "that is {environments} × {steps} / {parts}: more parts make it smaller"
                ))
            }
            _ if is_given(whole) => Some(format!(
                "that is {environments} × {steps}: fewer of either make it smaller"
            )),
            _ => None,
        }
    }

    /// For a person: which sizes were looked for among what.
    pub(super) fn looked_at(&self) -> String {
        let shapes = self.shapes();
        if let Some(collected) = self.collected() {
            return format!("the model was given {shapes}; {collected}");
        }
        if self.is_whole_graph() {
            return format!(
                "the model was given {shapes}: a whole graph is one sample, which no batch makes smaller; parts of it do (neighbor sampling), as do fewer hidden units or heads"
            );
        }
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
            false => format!(
                "the model was given {shapes}; {among}, and none in its files is named like a batch"
            ),
        }
    }
}
