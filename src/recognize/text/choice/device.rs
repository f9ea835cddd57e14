//! The size of one device's call beside a total, where the program declares an option for it that has no number.

use super::{BatchSpot, TextCandidate, TextReading, leaf};
use crate::event::ParsedNumber;
use crate::recognize::batch::{BatchSource, WholeBatch};
use crate::recognize::family;
use crate::recognize::learned::KnobStanding;
use crate::recognize::per_device::{self, DividedTotal};
use crate::recognize::spellings::BatchArgument;
use crate::recognize::text::{TextNumber, TextSetting};

impl<'a> TextReading<'_, 'a> {
    /// An option for one device's batch beside a total, which has no number: it is added, and the total stays.
    pub(super) fn of_device(
        &self,
        found: &TextCandidate<'a>,
    ) -> Option<(&'a TextNumber, BatchSource<'a>)> {
        if found.level == BatchArgument::Micro || self.recognized.known.is_some() {
            return None;
        }
        let numbers = self.text.numbers.iter().filter_map(|number| {
            let TextSetting::Argument(option) = &number.set else {
                return None;
            };
            let is_shared = self.text.shares(leaf(found.number), leaf(number));
            let is_it = per_device::is_unset(option)
                && self.typed(number).is_none()
                && !number.is_overwritten
                && (self.is_alike(number, found.number) || found.typed.is_some() || is_shared)
                && self.standing(number) != KnobStanding::WithoutEffect
                && (found.level == BatchArgument::Total || is_shared);
            is_it.then_some((number, option))
        });
        let numbers: Vec<(&TextNumber, &ParsedNumber)> = numbers.collect();
        let [(number, option)] = numbers.as_slice() else {
            return None;
        };
        let spot = BatchSpot::new(found);
        let total = DividedTotal {
            name: &spot.name,
            value: found.value,
            ranks: u64::from(self.recognized.processes().unwrap_or(1)),
        };
        let source = per_device::source(option, total, self.knob(number).ok()?)?;
        Some((number, source))
    }

    /// The option for one device's batch beside a total that is typed and that the text has no number for.
    pub(super) fn beside_typed(&self, source: &BatchSource<'a>) -> Option<BatchSource<'a>> {
        let [knob] = source.sizes.as_slice() else {
            return None;
        };
        let is_alone = source.steps.is_empty() && matches!(source.whole, WholeBatch::Follows);
        let is_total = !family::is_batch_of_device(&knob.name) && self.recognized.known.is_none();
        (is_alone && is_total).then_some(())?;
        self.limit_of(&knob.variable(), &knob.name, knob.value)
    }

    /// The same beside several totals of one number: presets, of which the command chooses one.
    pub(super) fn beside_equals(&self, rivals: &[TextCandidate<'a>]) -> Option<BatchSource<'a>> {
        let first = rivals.first().filter(|_| rivals.len() > 1)?;
        let is_equal = |one: &TextCandidate<'_>| {
            (one.value, leaf(one.number)) == (first.value, leaf(first.number))
        };
        let is_known = self.recognized.known.is_some();
        (!is_known && rivals.iter().all(is_equal)).then_some(())?;
        self.limit_of(leaf(first.number), leaf(first.number), first.value)
    }

    /// The one option that limits what a device takes of this total at once, where the text divides by it and it has no number.
    fn limit_of(&self, total: &str, shown: &str, value: u64) -> Option<BatchSource<'a>> {
        let numbers = self
            .text
            .numbers
            .iter()
            .filter_map(|number| match &number.set {
                TextSetting::Argument(option) if per_device::is_unset(option) => {
                    Some((number, option))
                }
                TextSetting::Argument(_) | TextSetting::Constant(_) => None,
            });
        let mut numbers = numbers.filter(|(number, _)| {
            self.typed(number).is_none()
                && self.standing(number) != KnobStanding::WithoutEffect
                && self.text.shares(total, leaf(number))
        });
        let (number, option) = numbers.next().filter(|_| numbers.next().is_none())?;
        let total = DividedTotal {
            name: shown,
            value,
            ranks: u64::from(self.recognized.processes().unwrap_or(1)),
        };
        per_device::source(option, total, self.knob(number).ok()?)
    }
}
