//! What is edited where the text has the batch: the number itself, what moves along with it, and the bounds that it keeps.

use super::beside::is_for_each_part;
use super::{TextCandidate, TextReading, leaf};
use crate::event::SourceNumber;
use crate::recognize::batch::{Addition, BatchSource, Knob, Place, WholeBatch};
use crate::recognize::family;
use crate::recognize::knob;
use crate::recognize::overrides;
use crate::recognize::spellings::BatchArgument;
use crate::recognize::text::{TextNumber, TextSetting};

impl<'a> TextReading<'_, 'a> {
    pub(super) fn source(&self, found: TextCandidate<'a>) -> Result<BatchSource<'a>, String> {
        if let Some((_, source)) = self.of_device(&found) {
            return Ok(source);
        }
        if let Some(batch) = self.computed_of(&found) {
            let (total, value) = (leaf(found.number), found.value);
            return Err(format!(
                "{batch} is computed of {total} {value} and the devices when it runs: where it is typed, the program takes more micro-batches and {total} stays"
            ));
        }
        let mut source = BatchSource::new(vec![self.knob(found.number)?]);
        let steps: Vec<&TextNumber> = self
            .text
            .numbers
            .iter()
            .filter(|number| {
                number
                    .names()
                    .iter()
                    .any(|name| family::is_accumulation(name))
            })
            .filter(|number| self.is_alike(number, found.number) && self.value(number) > 0)
            .collect();
        let divides = |steps: &&&TextNumber| self.text.divides(leaf(found.number), leaf(steps));
        if let Some(through) = steps.iter().find(divides) {
            // More steps alone make its parts smaller.
            let steps = self.knob(through)?;
            source.at_once = found.value / steps.value.max(1);
            source.sizes.clear();
            source.steps.push(steps);
            return Ok(source);
        }
        if let TextSetting::Argument(number) = &found.number.set {
            source.bounds.choices = &number.choices;
        }
        if found.number.names().into_iter().any(family::counts_classes) {
            source.of_classes();
            return Ok(source);
        }
        let later = self.of_later_phases(&found);
        for number in &later {
            source.sizes.push(self.knob(number)?);
        }
        if !later.is_empty() {
            let phases =
                "the program trains in phases with a batch each, which are all made smaller";
            source.remarks.push(phases.into());
        }
        let total = self.total(&found);
        match (found.level, total, steps.as_slice()) {
            (BatchArgument::Total, _, _) => {
                let ranks = self.recognized.processes().unwrap_or(1);
                source.bounds.multiple_of = u64::from(ranks.max(1));
            }
            (_, Some(total), _) => {
                let (name, value) = (total.number.name(), total.value);
                source.bounds.divisor_of = value.is_multiple_of(found.value).then_some(value);
                source.whole = WholeBatch::Kept(format!("{name} {value} stays"));
            }
            (_, None, [one]) => source.steps.extend(self.knob(one).ok()),
            (_, None, []) => source.steps.extend(self.steps_in_text(&found)),
            (_, None, several) if is_for_each_part(several) => {
                let knobs = several.iter().map(|steps| self.knob(steps));
                source.steps = knobs.collect::<Result<_, _>>()?;
            }
            (_, None, _) => {}
        }
        Ok(source)
    }

    pub(super) fn knob(&self, number: &'a TextNumber) -> Result<Knob<'a>, String> {
        if let Some(why) = number
            .fixed
            .as_ref()
            .filter(|_| self.recognized.known.is_none() && self.typed(number).is_none())
        {
            return Err(why.clone());
        }
        match &number.set {
            TextSetting::Argument(argument) => match self.typed(number) {
                Some(hit) => Knob::of(&hit),
                None => {
                    let value = self.value(number);
                    let knob = knob::knob_of_parsed(argument, self.arguments, self.recognized)?;
                    Ok(Knob { value, ..knob })
                }
            },
            TextSetting::Constant(constant) => match self.typed(number) {
                Some(hit) => Knob::of(&hit),
                None => match self.overriding(number) {
                    Some(spec) => {
                        let end = self.recognized.layout.arguments.end;
                        let added = overrides::addition(self.arguments, &spec, end)?;
                        Ok(Knob {
                            name: constant.name.clone(),
                            value: constant.value,
                            place: Place::Added(added),
                            least: None,
                        })
                    }
                    None => self.knob_of_constant(constant),
                },
            },
        }
    }

    /// The argument that a known program makes of it, or its place in the text.
    fn knob_of_constant(&self, constant: &'a SourceNumber) -> Result<Knob<'a>, String> {
        let entry = self.recognized.known;
        let of_entry = entry
            .into_iter()
            .flat_map(|entry| entry.batch.names.iter().chain(&entry.accumulation.names));
        let mut of_entry = of_entry.filter(|name| {
            family::plain(name.trim_end_matches('=')) == family::plain(&constant.name)
        });
        if let Some(spec) = of_entry.next() {
            let end = self.recognized.place_for(spec);
            return Ok(Knob {
                name: constant.name.clone(),
                value: constant.value,
                place: Place::Added(Addition::new(spec, end)),
                least: None,
            });
        }
        knob::knob_of_literal(constant, self.recognized)
    }
}
