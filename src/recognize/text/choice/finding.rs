//! What sets the batch, for a person: the number that would be changed and where it stands, or those that remain.

use super::{BatchFinding, BatchSpot, HowSure, SpotKind, TextChoice, TextReading, doubt};
use crate::recognize::argument::same;
use crate::recognize::batch::{Knob, Place};
use crate::recognize::family;
use crate::recognize::launch::ConfigFile;
use crate::recognize::program_settings::AccumulationRule;
use crate::recognize::recognized::Recognized;

impl<'c> Recognized<'c> {
    /// What sets the batch, for a person: the number that would be changed and how sure that is, or those that remain.
    pub fn batch_finding(&self) -> BatchFinding {
        let source = self.batch_source();
        let choice = self
            .launch
            .text
            .zip(self.opened().ok())
            .map(|(text, arguments)| {
                let reading = TextReading::new(self, text, &arguments);
                match reading.choice() {
                    TextChoice::One(found, _)
                        if source.is_err() && reading.is_in_a_file(&found) =>
                    {
                        (HowSure::NotSure, vec![reading.spot(&found)])
                    }
                    TextChoice::One(..) if self.cut_by_another_number().is_some() => {
                        (HowSure::Nothing, Vec::new())
                    }
                    TextChoice::One(found, sure) => (sure, vec![reading.spot(&found)]),
                    TextChoice::Several(rivals) => (
                        HowSure::NotSure,
                        doubt::with_args(rivals.iter().map(BatchSpot::new).collect()),
                    ),
                    TextChoice::Nothing(_) => (HowSure::Nothing, Vec::new()),
                }
            });
        let (how_sure, of_text) = choice.unwrap_or((HowSure::Nothing, Vec::new()));
        match source {
            Ok(source) => {
                let knobs = match source.sizes.is_empty() {
                    true => &source.steps,
                    false => &source.sizes,
                };
                // The size of a micro-batch that is off until it is given: the total beside it has the number.
                let is_micro = self
                    .known
                    .is_some_and(|entry| entry.accumulation.rule == AccumulationRule::MicroSize);
                let added = match is_micro {
                    true => SpotKind::Unset,
                    false => SpotKind::Default,
                };
                // As is one that the text declares without a number.
                let is_unset = |knob: &Knob<'_>| {
                    let is_it = |name: &str| same(name, &knob.variable());
                    let value = self.launch.text.and_then(|text| text.value_called(is_it));
                    let mut shown = of_text.iter();
                    value == Some(0) && !shown.any(|spot| same(&spot.name, &knob.name))
                };
                let spot = |knob: &Knob<'_>| {
                    let added = match is_unset(knob) {
                        true => SpotKind::Unset,
                        false => added,
                    };
                    spot_of(knob, &of_text, source.file, added)
                };
                let spots: Vec<BatchSpot> = knobs.iter().map(spot).collect();
                let is_of_text = spots.first().is_some_and(|spot| of_text.contains(spot));
                BatchFinding {
                    how_sure: if is_of_text { how_sure } else { HowSure::Sure },
                    candidates: spots,
                    why: None,
                }
            }
            // Known, but not edited; or one of several.
            Err(why) if !of_text.is_empty() && self.check_open().is_ok() => BatchFinding {
                how_sure,
                candidates: of_text,
                why: Some(why),
            },
            Err(why) => BatchFinding {
                how_sure: HowSure::Nothing,
                candidates: Vec::new(),
                why: Some(why),
            },
        }
    }
}

/// Where a number stands that would be changed.
///
/// `of_file` is the file that has it, and `added` what an argument is that neither the command nor the text has.
fn spot_of(
    knob: &Knob<'_>,
    of_text: &[BatchSpot],
    of_file: Option<&ConfigFile>,
    added: SpotKind,
) -> BatchSpot {
    let place = |stands, file: Option<String>, line| BatchSpot {
        name: knob.name.clone(),
        value: knob.value,
        stands,
        file,
        line,
        arg: None,
    };
    match &knob.place {
        Place::Word(_) | Place::Variable(_) => place(SpotKind::Typed, None, None),
        Place::File(file, found) => {
            let before = file.text.get(..found.from).unwrap_or_default();
            let line = u32::try_from(before.matches('\n').count() + 1).ok();
            place(
                SpotKind::Config,
                Some(file.name.display().to_string()),
                line,
            )
        }
        Place::Literal(edit) => {
            let stands = match edit.file.ends_with(".py") {
                true => SpotKind::Constant,
                false => SpotKind::Config,
            };
            place(stands, Some(edit.file.clone()), Some(edit.line))
        }
        // Its own name, not that of the total beside it, whose number it has.
        Place::Added(addition) if added == SpotKind::Unset => {
            let word = addition.words.first().unwrap_or(&knob.name);
            BatchSpot {
                name: word.trim_end_matches('=').into(),
                ..place(added, None, None)
            }
        }
        Place::Added(_) => {
            let same = |spot: &&BatchSpot| family::plain(&spot.name) == family::plain(&knob.name);
            let known = of_text.iter().find(same).cloned();
            known.unwrap_or_else(|| match of_file {
                Some(file) => {
                    let file = file.name.display().to_string();
                    place(SpotKind::Config, Some(file), None)
                }
                None => place(added, None, None),
            })
        }
    }
}
