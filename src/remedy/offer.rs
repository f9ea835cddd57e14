//! All remedies for one command, offered or with a reason why not, the most promising first.

use super::RemedyId;
use super::expectation::RemedyPredictor;
use super::inputs::RemedyInputs;
use super::loader::is_of_host;
use super::measured;
use super::plan::{Expectation, Remedy};
use super::proposal::Offering;
use super::single::proposed;
use super::together::first_that_fits;
use crate::command::CommandLine;
use crate::recognize::Recognized;
use crate::units::Bytes;

/// The remedies for a command, the most promising first. Those that only a run that ran out of
/// memory can need are left out for other runs.
pub fn remedies(command: &CommandLine, inputs: &RemedyInputs<'_>) -> Vec<Remedy> {
    remedies_of(&inputs.recognize(command), inputs)
}

/// [`remedies`] for a command that is recognized already.
pub(super) fn remedies_of(recognized: &Recognized<'_>, inputs: &RemedyInputs<'_>) -> Vec<Remedy> {
    let command = recognized.command;
    let predictor = &RemedyPredictor::new(command, inputs);
    let cause = inputs.cause();
    let offering = Offering {
        command,
        recognized,
        inputs,
        predictor,
    };
    let mut remedies: Vec<Remedy> = RemedyId::all()
        .filter_map(|id| proposed(id, &offering))
        .collect();
    remedies.extend(first_that_fits(recognized, inputs, &remedies, &|_| true));
    remedies.sort_by_key(|remedy| {
        (
            !remedy.is_offered() || remedy.id.is_of_details(),
            remedy.expectation.fits == Some(false),
            remedy.id.place(cause),
        )
    });
    remedies
}

/// What these remedies do together, chosen in any order.
pub fn expectation(
    command: &CommandLine,
    inputs: &RemedyInputs<'_>,
    chosen: &[&Remedy],
) -> Expectation {
    match chosen {
        [only] => only.expectation.clone(),
        [first, ..] if is_of_host(inputs.cause()) => first.expectation.clone(),
        // What a compiler makes of what it is told may need more.
        several if several.iter().any(|remedy| remedy.id.is_measured()) => Expectation::default(),
        several => {
            let each = several.iter().flat_map(|remedy| remedy.each());
            let (unknown, each): (Vec<&Remedy>, Vec<&Remedy>) =
                each.partition(|remedy| remedy.id == RemedyId::SmallerSamples);
            let predictor = RemedyPredictor::new(command, inputs);
            let said = predictor.together(&each);
            // What fits with the samples as they are fits with smaller ones; nothing else is known.
            let said = match unknown.is_empty() || said.fits == Some(true) {
                true => said,
                false => Expectation::default(),
            };
            measured::held(said, command, several, inputs, predictor.room())
        }
    }
}

/// By how much the optimizer's step alone is too large for the memory that there was, if it is.
pub fn too_large_by(command: &CommandLine, inputs: &RemedyInputs<'_>) -> Option<Bytes> {
    RemedyPredictor::new(command, inputs).too_large_by()
}
