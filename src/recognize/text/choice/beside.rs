//! What moves along with a batch in a program's text: the accumulation beside it, the total that it is a part of, and the
//! batches of later phases.

use super::{TextCandidate, TextReading, leaf};
use crate::recognize::batch::Knob;
use crate::recognize::family;
use crate::recognize::spellings::BatchArgument;
use crate::recognize::text::{SourceRole, TextNumber, TextSetting};

impl<'a> TextReading<'_, 'a> {
    /// The batches that the program takes later in the place of this one, as `batch = frozen if is_frozen else unfrozen` says.
    pub(super) fn of_later_phases(&self, found: &TextCandidate<'a>) -> Vec<&'a TextNumber> {
        let is_later = |number: &&TextNumber| {
            !number.is_overwritten
                && self.is_alike(number, found.number)
                && self.value(number) > 0
                && self.text.leaves(leaf(number), leaf(found.number))
        };
        self.text.numbers.iter().filter(is_later).collect()
    }

    /// The batch of a device that the settings compute of this total, as they do the accumulation: a smaller total would change
    /// the training.
    pub(super) fn computed_of(&self, found: &TextCandidate<'a>) -> Option<&'a str> {
        let is_open = found.level == BatchArgument::Total
            && found.typed.is_none()
            && self.recognized.known.is_none();
        let total = leaf(found.number);
        let mut steps = self.text.batch_rules.computed.iter();
        let steps = steps.find(|steps| is_open && steps.totals.contains(total))?;
        let batch = steps.batch_of_device()?;
        let is_it = |name: &str| name.rsplit('.').next() == Some(batch);
        let has_number = self.text.value_called(is_it);
        has_number.is_none().then_some(batch)
    }

    /// The one accumulation that stands as a number in the program's own text, beside a batch that is an argument.
    pub(super) fn steps_in_text(&self, found: &TextCandidate<'a>) -> Option<Knob<'a>> {
        let is_steps = |number: &&TextNumber| {
            (number.names().iter()).any(|name| family::is_accumulation(name))
                && !number.is_overwritten
        };
        let mut all = self.text.numbers.iter().filter(is_steps);
        let one = all
            .next()
            .filter(|_| all.next().is_none() && found.is_argument())?;
        let is_in_script = matches!(one.role, SourceRole::Script) && one.file.ends_with(".py");
        let is_constant = matches!(one.set, TextSetting::Constant(_));
        (is_in_script && is_constant && self.recognized.known.is_none()).then_some(())?;
        self.knob(one).ok()
    }

    /// Whether accumulation is set in the same way as the batch, and so belongs to it.
    pub(super) fn is_alike(&self, one: &TextNumber, other: &TextNumber) -> bool {
        match (&one.set, &other.set) {
            (TextSetting::Argument(one), TextSetting::Argument(other)) => one.by == other.by,
            (TextSetting::Constant(_), TextSetting::Constant(_)) => one.file == other.file,
            (TextSetting::Argument(_), TextSetting::Constant(_))
            | (TextSetting::Constant(_), TextSetting::Argument(_)) => false,
        }
    }

    /// A total that the program keeps beside the batch of one device.
    pub(super) fn total(&self, found: &TextCandidate<'a>) -> Option<TextCandidate<'a>> {
        let numbers = self
            .text
            .numbers
            .iter()
            .filter(|number| !number.is_overwritten);
        let mut all = numbers.filter_map(|number| self.candidate(number));
        all.find(|other| {
            let is_more = other.level == BatchArgument::Total
                || found.level == BatchArgument::Micro && other.level == BatchArgument::Plain;
            let is_alike = self.is_alike(other.number, found.number);
            is_more && is_alike && other.value > found.value && found.level != other.level
        })
    }
}

/// Whether these are the accumulations of a program that has one for each of its networks.
pub(super) fn is_for_each_part(steps: &[&TextNumber]) -> bool {
    let part = |number: &&TextNumber| family::accumulation_of_a_part(leaf(number));
    let mut kinds: Vec<Option<String>> = steps.iter().map(part).collect();
    kinds.dedup();
    matches!(kinds.as_slice(), [Some(_)])
}
