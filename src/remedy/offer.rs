//! All remedies for one command, offered or with a reason why not, the most promising first; and which
//! one is recommended: the one place that decides it, for Enter in the dialog and for relaunches
//! that nobody is asked about.

use super::expectation::RemedyPredictor;
use super::inputs::RemedyInputs;
use super::loader::{is_of_host, smaller_batches};
use super::plan::{Availability, Edit, Expectation, Plan, Remedy};
use super::proposal::{Draft, Offering, Proposal};
use super::{RemedyAction, RemedyEffect, RemedyId};
use crate::command::CommandLine;
use crate::diagnosis::{Cause, Help, Phrase};
use crate::recognize::{CommandLayout, Recognized};

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
        .filter_map(|id| {
            let in_ram = in_ram(id, inputs)?;
            let proposal = (id.spec().propose)(&offering)?;
            let mut remedy = remedy(id, proposal, recognized.part_of_a_job.as_deref());
            attribute(&mut remedy, recognized);
            let expectation = match in_ram {
                InRam::NotAsked => predictor.of_remedy(&remedy),
                InRam::AsItSays => None,
                InRam::Smaller(expectation) => Some(expectation),
            };
            if let Some(expectation) = expectation {
                remedy.expectation = expectation;
            }
            Some(remedy)
        })
        .collect();
    remedies.sort_by_key(|remedy| {
        (
            !remedy.is_offered(),
            remedy.expectation.fits == Some(false),
            remedy.id.place(cause),
        )
    });
    remedies
}

/// What a remedy is expected to do where the host's memory ran out: no figure of the GPU says that.
enum InRam {
    /// It did not run out.
    NotAsked,
    /// What the remedy says of itself.
    AsItSays,
    Smaller(Expectation),
}

/// `None` for a remedy of the GPU's memory where the host's ran out.
fn in_ram(id: RemedyId, inputs: &RemedyInputs<'_>) -> Option<InRam> {
    if !is_of_host(inputs.cause()) {
        return Some(InRam::NotAsked);
    }
    match (id, id.spec().effect) {
        (RemedyId::Batch, _) => smaller_batches(inputs).map(InRam::Smaller),
        // What is left of an earlier session holds RAM, too.
        (RemedyId::StopLeftover, _) | (_, RemedyEffect::None) => Some(InRam::AsItSays),
        (
            _,
            RemedyEffect::LessAllocated | RemedyEffect::LessFragmentation | RemedyEffect::MoreFree,
        ) => None,
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
        [first, ..] if is_of_host(inputs.cause()) => first.expectation.clone(),
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

/// What is expected of a run with a remedy, or with several together; the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    /// All of the interval fits.
    Fits,
    /// The likely need fits, the upper end of the interval does not; or what is free is unknown.
    MayFit,
    /// It is of the kind that helps against the cause, but there is no figure.
    Unknown,
}

/// What is expected of a run with these remedies; `None` if they are said not to fit or not to help.
pub fn promise(
    remedies: &[RemedyId],
    expectation: &Expectation,
    cause: Option<Cause>,
) -> Option<Promise> {
    if expectation.futile.is_some() {
        return None;
    }
    match (expectation.fits, expectation.needs) {
        (Some(true), _) => Some(Promise::Fits),
        (Some(false), _) => None,
        (None, Some(_)) => Some(Promise::MayFit),
        (None, None) => remedies
            .iter()
            .any(|id| is_against(*id, cause))
            .then_some(Promise::Unknown),
    }
}

/// Whether a remedy is of the kind that helps against a cause.
fn is_against(id: RemedyId, cause: Option<Cause>) -> bool {
    let prefers = cause.map(|cause| cause.spec().prefers);
    match id.spec().effect {
        RemedyEffect::LessAllocated | RemedyEffect::MoreFree => true,
        RemedyEffect::LessFragmentation => prefers.is_none_or(|help| help == Help::NoFragmentation),
        // It needs as much GPU memory as before.
        RemedyEffect::None => prefers == Some(Help::LessHostMemory),
    }
}

/// The remedy that Enter stands on: the first one that is expected to fit. Where none is, and none has
/// a figure that may be in the available memory, the first one without any figure; a remedy that may
/// not fit, by its figure, is the user's to choose.
pub fn recommended(remedies: &[Remedy], cause: Option<Cause>) -> Option<usize> {
    let of = |remedy: &Remedy| {
        may_help(remedy, cause)
            .then(|| promise(&[remedy.id], &remedy.expectation, cause))
            .flatten()
    };
    let first = |wanted| {
        remedies
            .iter()
            .position(|remedy| of(remedy) == Some(wanted))
    };
    match (first(Promise::Fits), first(Promise::MayFit)) {
        (Some(fits), _) => Some(fits),
        (None, Some(_)) => None,
        (None, None) => first(Promise::Unknown),
    }
}

/// Whether a remedy may help against the cause: it is offered, and nothing says that it does not help
/// or not fit.
pub fn may_help(remedy: &Remedy, cause: Option<Cause>) -> bool {
    let cause = cause.map(Cause::spec);
    if !remedy.is_offered() || remedy.expectation.fits == Some(false) {
        return false;
    }
    match remedy.id.spec().effect {
        RemedyEffect::LessAllocated | RemedyEffect::LessFragmentation | RemedyEffect::MoreFree => {
            remedy.expectation.futile.is_none()
                && cause.is_none_or(|cause| cause.ineffective_against.is_none())
        }
        RemedyEffect::None => cause.is_some_and(|cause| cause.prefers == Help::LessHostMemory),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::LittleUse;
    use crate::remedy::Availability;
    use crate::units::Bytes;

    /// What a row says.
    #[derive(Clone, Copy)]
    enum RowSays {
        Fits,
        MayNotFit,
        WontFit,
        Unknown,
        UnlikelyToHelp,
    }

    use RemedyId::{Amp, Batch, Device, ExpandableSegments as Segments, Recompute};
    use RowSays::{Fits, MayNotFit, Unknown, UnlikelyToHelp, WontFit};

    fn remedy(id: RemedyId, says: RowSays) -> Remedy {
        let figure = Some(Bytes(1 << 30));
        let expectation = Expectation::default();
        let expectation = match says {
            Fits => Expectation {
                fits: Some(true),
                needs: figure,
                ..expectation
            },
            MayNotFit => Expectation {
                needs: figure,
                ..expectation
            },
            WontFit => Expectation {
                fits: Some(false),
                at_least: figure,
                ..expectation
            },
            Unknown => expectation,
            UnlikelyToHelp => Expectation {
                futile: Some(LittleUse::UnlikelyToHelp),
                ..expectation
            },
        };
        Remedy {
            expectation,
            ..Remedy::new(id)
        }
    }

    fn recommends(cause: Cause, rows: &[(RemedyId, RowSays)]) -> Option<RemedyId> {
        let remedies: Vec<Remedy> = rows.iter().map(|(id, says)| remedy(*id, *says)).collect();
        recommended(&remedies, Some(cause)).map(|at| remedies[at].id)
    }

    #[test]
    fn the_first_that_is_expected_to_fit_is_recommended() {
        let rows = [
            (Segments, MayNotFit),
            (Batch, Unknown),
            (Amp, Fits),
            (Recompute, Fits),
        ];
        assert_eq!(recommends(Cause::Capacity, &rows), Some(Amp));
    }

    #[test]
    fn what_is_said_not_to_fit_is_not_even_if_there_is_nothing_else() {
        assert_eq!(recommends(Cause::Capacity, &[(Segments, WontFit)]), None);
        let rows = [(Batch, WontFit), (Segments, WontFit), (Amp, UnlikelyToHelp)];
        assert_eq!(recommends(Cause::OptimizerState, &rows), None);
    }

    #[test]
    fn what_may_not_fit_is_the_users_to_choose() {
        let rows = [(Batch, MayNotFit), (Amp, Unknown)];
        assert_eq!(recommends(Cause::Capacity, &rows), None);
    }

    #[test]
    fn where_nothing_is_known_the_first_of_the_right_kind_is_recommended() {
        let rows = [(Segments, Unknown), (Batch, Unknown)];
        assert_eq!(recommends(Cause::Capacity, &rows), Some(Batch));
        assert_eq!(recommends(Cause::Fragmentation, &rows), Some(Segments));
        assert_eq!(
            recommends(Cause::ForeignProcess, &[(Device, Unknown)]),
            Some(Device)
        );
        assert_eq!(
            recommends(Cause::HostMemory, &[(RemedyId::DataloaderWorkers, Unknown)]),
            Some(RemedyId::DataloaderWorkers)
        );
        assert_eq!(recommended(&[], None), None);
    }

    #[test]
    fn nothing_is_against_a_cause_that_recurs() {
        for says in [Fits, Unknown] {
            assert_eq!(recommends(Cause::Leak, &[(Batch, says)]), None);
        }
    }

    #[test]
    fn what_is_not_offered_is_not_recommended() {
        let mut batch = remedy(Batch, Fits);
        batch.availability = Availability::NotOffered("no argument".into());
        assert_eq!(recommended(&[batch], Some(Cause::Capacity)), None);
    }
}
