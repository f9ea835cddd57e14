//! One remedy of a command: its proposal with what is expected of it, offered or with the reason why not.

use super::inputs::RemedyInputs;
use super::loader::{is_of_host, smaller_batches};
use super::measured;
use super::plan::{Availability, Edit, Expectation, Plan, Remedy};
use super::proposal::{Draft, Offering, Proposal};
use super::{RemedyAction, RemedyEffect, RemedyId};
use crate::command::CommandLine;
use crate::diagnosis::Phrase;
use crate::recognize::{CommandLayout, Recognized};
use crate::state::RunOutcome;
use crate::units::RunNumber;

/// One remedy with what is expected of it; `None` to leave it out of the list.
pub(super) fn proposed(id: RemedyId, offering: &Offering<'_>) -> Option<Remedy> {
    let recognized = offering.recognized;
    let in_ram = in_ram(id, offering.inputs)?;
    let proposal = (id.spec().propose)(offering)?;
    let mut remedy = remedy(id, proposal, recognized.part_of_a_job.as_deref());
    attribute(&mut remedy, recognized);
    if let Some(run) = ran_out_with(recognized.command, &remedy, offering.inputs) {
        remedy.availability = Availability::NotOffered(
            format!("run {run} ran out of memory with it: {}", remedy.changes).into(),
        );
    }
    if let Some(why) = offering
        .predictor
        .cannot_help(id)
        .filter(|_| remedy.is_offered())
    {
        remedy.availability = Availability::NotOffered(why);
        remedy.edits.clear();
        remedy.files.clear();
    }
    let expectation = match in_ram {
        InRam::NotAsked => offering.predictor.of_remedy(&remedy),
        InRam::AsItSays => None,
        InRam::Smaller(expectation) => Some(*expectation),
    };
    if let Some(expectation) = expectation {
        remedy.expectation = expectation;
    }
    measured::hold_to_earlier(&mut remedy, offering);
    Some(remedy)
}

/// What a remedy is expected to do where the host's memory ran out: no figure of the GPU says that.
enum InRam {
    /// It did not run out.
    NotAsked,
    /// What the remedy says of itself.
    AsItSays,
    Smaller(Box<Expectation>),
}

/// `None` for a remedy of the GPU's memory where the host's ran out.
fn in_ram(id: RemedyId, inputs: &RemedyInputs<'_>) -> Option<InRam> {
    if !is_of_host(inputs.cause()) {
        return Some(InRam::NotAsked);
    }
    match (id, id.spec().effect) {
        (RemedyId::Batch, _) => smaller_batches(inputs).map(|said| InRam::Smaller(Box::new(said))),
        // What is left of an earlier session holds RAM, too.
        (RemedyId::StopLeftover, _) | (_, RemedyEffect::None) => Some(InRam::AsItSays),
        (
            _,
            RemedyEffect::LessAllocated
            | RemedyEffect::RemovesCause
            | RemedyEffect::LessFragmentation
            | RemedyEffect::MoreFree,
        ) => None,
    }
}

/// The run that had the command which this remedy makes, and ran out of memory.
pub(super) fn ran_out_with(
    command: &CommandLine,
    remedy: &Remedy,
    inputs: &RemedyInputs<'_>,
) -> Option<RunNumber> {
    if !remedy.is_offered() || remedy.id.spec().action == RemedyAction::Act {
        return None;
    }
    let edited = Plan::new(command, &[remedy]).command.without_secrets();
    let runs = inputs.forecast.state?.runs.iter();
    let mut failed = runs.filter(|run| run.outcome() == RunOutcome::OutOfMemory);
    failed
        .find(|run| run.command.without_secrets() == edited)
        .map(|run| run.number)
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
        title: proposal.title.unwrap_or(plain.title),
        availability,
        changes: draft.shown.join("  "),
        edits: draft.edits,
        files: draft.files,
        expectation: proposal.expectation,
        takes: proposal.takes,
        set_by: proposal.set_by,
        alters: plain.alters.or(proposal.alters),
        cost: proposal.cost,
        ..plain
    }
}

/// Names the user's `oomph.toml` whose entry a remedy uses. A remedy that would start another program is
/// not offered: the file may have come with a repository.
fn attribute(remedy: &mut Remedy, recognized: &Recognized<'_>) {
    let Some(source) = recognized.known.and_then(|entry| entry.source.as_deref()) else {
        return;
    };
    if remedy.id == RemedyId::HostLimit {
        // By what starts the program, not by its entry.
        return;
    }
    let by_entry = |edit: &Edit| {
        matches!(
            edit,
            Edit::Splice { .. } | Edit::Insert { .. } | Edit::Remove { .. }
        )
    };
    if !remedy.edits.iter().any(by_entry) {
        return;
    }
    let edited = Plan::new(recognized.command, &[remedy]).command;
    let runs = |command: &CommandLine, layout: &CommandLayout| {
        let program = command.argv.get(layout.program).cloned();
        (command.argv.first().cloned(), program)
    };
    if runs(recognized.command, &recognized.layout) != runs(&edited, &CommandLayout::new(&edited)) {
        remedy.availability =
            Availability::NotOffered(format!("{source} would start another program").into());
        return;
    }
    remedy.cost.push("; ", format!("arguments by {source}"));
}
