//! All remedies for one command, offered or with a reason why not, the most promising first.

use super::attribution::attribute;
use super::draft::Draft;
use super::effect::RemedyAction;
use super::expectation::RemedyPredictor;
use super::inputs::RemedyInputs;
use super::plan::{Availability, Expectation, Remedy, RemedyId};
use super::proposal::{Offering, Proposal};
use crate::command::CommandLine;
use crate::diagnosis::{Cause, Help, Phrase};
use crate::recognize::Recognized;

/// The remedies for a command, the most promising first. Those that only a run that ran out of
/// memory can need are left out for other runs.
pub fn remedies(command: &CommandLine, inputs: &RemedyInputs<'_>) -> Vec<Remedy> {
    remedies_of(&inputs.recognize(command), inputs)
}

/// [`remedies`] for a command that is recognized already.
pub(super) fn remedies_of(recognized: &Recognized<'_>, inputs: &RemedyInputs<'_>) -> Vec<Remedy> {
    let command = recognized.command;
    let predictor = &RemedyPredictor::new(command, inputs);
    let cause = inputs.findings.first().map(|finding| finding.cause);
    let offering = Offering {
        command,
        recognized,
        inputs,
        predictor,
        cause,
    };
    let mut remedies: Vec<Remedy> = RemedyId::all()
        .filter_map(|id| {
            let proposal = (id.spec().propose)(&offering)?;
            let mut remedy = remedy(id, proposal, recognized.part_of_a_job.as_deref());
            attribute(&mut remedy, recognized);
            if let Some(expectation) = predictor.of_remedy(&remedy) {
                remedy.expectation = expectation;
            }
            Some(remedy)
        })
        .collect();
    remedies.sort_by_key(|remedy| {
        (
            !remedy.is_offered(),
            remedy.expectation.fits == Some(false),
            place(remedy.id, cause),
        )
    });
    remedies
}

/// A remedy's rank for a cause.
fn place(id: RemedyId, cause: Option<Cause>) -> u8 {
    let prefers = cause.map_or(Help::LessMemory, |cause| cause.spec().prefers);
    match id.spec().earlier {
        Some((help, place)) if help == prefers => place,
        Some(_) | None => id.spec().place,
    }
}

/// What these remedies do together, chosen in any order.
pub fn expectation(
    command: &CommandLine,
    inputs: &RemedyInputs<'_>,
    chosen: &[&Remedy],
) -> Expectation {
    match chosen {
        [only] => only.expectation.clone(),
        several => RemedyPredictor::new(command, inputs).together(several),
    }
}

/// A proposal as a remedy; `part` is the reason why the command is one part of a job, if it is.
fn remedy(id: RemedyId, proposal: Proposal, part: Option<&str>) -> Remedy {
    let spec = id.spec();
    let (draft, availability) = match (proposal.draft, part) {
        (Ok(draft), _) if draft.edits.is_empty() && spec.action == RemedyAction::Edit => (
            draft,
            Availability::NotOffered("there is nothing to change".into()),
        ),
        (Ok(draft), None) => (draft, Availability::Offered),
        (Ok(draft), Some(part)) => (
            draft,
            Availability::NotOffered(
                Phrase::from(format!("one part of a job ({part})"))
                    .and(": ", "all parts must be started with the same change"),
            ),
        ),
        (Err(reason), _) => (Draft::default(), Availability::NotOffered(reason.into())),
    };
    let plain = Remedy::new(id);
    Remedy {
        availability,
        changes: draft.shown.join("  "),
        edits: draft.edits,
        files: draft.files,
        expectation: proposal.expectation,
        takes: proposal.takes,
        alters: plain.alters.or(proposal.alters),
        cost: proposal.cost,
        ..plain
    }
}
