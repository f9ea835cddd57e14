//! What a remedy promises, and which one is recommended: the one place that decides it, for Enter in the dialog and for
//! relaunches that nobody is asked about.

use super::plan::{Expectation, FitVerdict, Remedy};
use super::{RemedyEffect, RemedyId};
use crate::diagnosis::{Cause, Help};
use crate::forecast::Need;
use crate::units::Bytes;

/// What is expected of a run with a remedy, or with several together; the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    /// All of the interval fits.
    Fits,
    /// The same of a figure that is only estimated.
    LikelyFits,
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
    match expectation.verdict() {
        FitVerdict::Fits => Some(Promise::Fits),
        FitVerdict::LikelyFits => Some(Promise::LikelyFits),
        FitVerdict::WontFit | FitVerdict::LikelyWontFit | FitVerdict::OfLittleUse(_) => None,
        FitVerdict::MayNotFit => Some(Promise::MayFit),
        FitVerdict::Unknown => remedies
            .iter()
            .any(|id| is_against(*id, cause))
            .then_some(Promise::Unknown),
    }
}

/// Whether a remedy is of the kind that helps against a cause.
fn is_against(id: RemedyId, cause: Option<Cause>) -> bool {
    let prefers = cause.map(|cause| cause.spec().prefers);
    match id.spec().effect {
        RemedyEffect::LessAllocated | RemedyEffect::RemovesCause | RemedyEffect::MoreFree => true,
        RemedyEffect::LessFragmentation => prefers.is_none_or(|help| help == Help::NoFragmentation),
        RemedyEffect::None => is_against_others(id, cause),
    }
}

/// The same of one with which the training's own process needs as much GPU memory as before.
fn is_against_others(id: RemedyId, cause: Option<Cause>) -> bool {
    match cause {
        Some(Cause::GpuInWorkers) => id == RemedyId::DataloaderWorkers,
        Some(cause) => cause.spec().prefers == Help::LessHostMemory,
        None => false,
    }
}

/// The remedy that Enter stands on: the first one that fits, else the first that likely does, and one that makes each step much
/// slower only then. Where none is, the one that needs least at the most: it may not fit, which its row says, and a try costs seconds. Where there is no figure, the one with the best bound, or
/// else the first.
pub fn recommended(remedies: &[Remedy], cause: Option<Cause>) -> Option<usize> {
    let of = |remedy: &Remedy| recommended_promise(remedy, cause);
    let first = |wanted, is_last_resort| {
        remedies.iter().position(|remedy| {
            of(remedy) == Some(wanted) && remedy.is_last_resort() == is_last_resort
        })
    };
    let least = |wanted, figure: fn(&Expectation) -> Option<Bytes>| {
        let all = remedies.iter().enumerate();
        let all = all.filter(|(_, remedy)| of(remedy) == Some(wanted));
        let figures = all.filter_map(|(at, remedy)| Some((figure(&remedy.expectation)?, at)));
        figures.min().map(|(_, at)| at)
    };
    let at_most = |said: &Expectation| {
        let most = said.need.map(Need::high);
        most.or(said.ram.map(|ram| ram.needs))
    };
    first(Promise::Fits, false)
        .or_else(|| first(Promise::LikelyFits, false))
        .or_else(|| first(Promise::Fits, true))
        .or_else(|| first(Promise::LikelyFits, true))
        .or_else(|| least(Promise::MayFit, at_most))
        .or_else(|| least(Promise::Unknown, |said| said.at_least))
        .or_else(|| first(Promise::Unknown, false))
}

/// What a remedy promises, if it is one that Enter may stand on.
pub(super) fn recommended_promise(remedy: &Remedy, cause: Option<Cause>) -> Option<Promise> {
    (may_help(remedy, cause) && !remedy.id.is_never_unasked())
        .then(|| promise(&[remedy.id], &remedy.expectation, cause))
        .flatten()
}

/// Whether a remedy may help against the cause: it is offered, and nothing says that it does not help
/// or not fit.
pub fn may_help(remedy: &Remedy, cause: Option<Cause>) -> bool {
    let spec = cause.map(Cause::spec);
    if !remedy.is_offered() || remedy.expectation.fits == Some(false) {
        return false;
    }
    match remedy.id.spec().effect {
        RemedyEffect::LessAllocated | RemedyEffect::LessFragmentation | RemedyEffect::MoreFree => {
            remedy.expectation.futile.is_none()
                && spec.is_none_or(|cause| cause.ineffective_against.is_none())
        }
        RemedyEffect::RemovesCause => remedy.expectation.futile.is_none(),
        RemedyEffect::None => is_against_others(remedy.id, cause),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::LittleUse;
    use crate::event::Basis;
    use crate::forecast::Estimate;
    use crate::remedy::Availability;

    /// What a row says.
    #[derive(Clone, Copy)]
    enum RowSays {
        Fits,
        LikelyFits,
        MayNotFit,
        WontFit,
        Unknown,
        UnlikelyToHelp,
    }

    use RemedyId::{Amp, Batch, Device, ExpandableSegments as Segments, Recompute};
    use RowSays::{Fits, LikelyFits, MayNotFit, Unknown, UnlikelyToHelp, WontFit};

    fn remedy(id: RemedyId, says: RowSays) -> Remedy {
        let figure = Some(Bytes(1 << 30));
        let need = figure.map(|bytes| Need::of(Estimate::exact(bytes)));
        let expectation = Expectation::default();
        let expectation = match says {
            Fits => Expectation {
                fits: Some(true),
                need,
                ..expectation
            },
            LikelyFits => Expectation {
                need,
                room: figure,
                basis: Some(Basis::Estimated),
                ..expectation
            },
            MayNotFit => Expectation {
                need,
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
    fn what_is_estimated_to_fit_comes_after_what_is_known_to() {
        let rows = [(Batch, LikelyFits), (Amp, Fits)];
        assert_eq!(recommends(Cause::Capacity, &rows), Some(Amp));
        let rows = [
            (Amp, MayNotFit),
            (Batch, LikelyFits),
            (Recompute, LikelyFits),
        ];
        assert_eq!(recommends(Cause::Capacity, &rows), Some(Batch));
    }

    #[test]
    fn what_is_said_not_to_fit_is_not_even_if_there_is_nothing_else() {
        assert_eq!(recommends(Cause::Capacity, &[(Segments, WontFit)]), None);
        let rows = [(Batch, WontFit), (Segments, WontFit), (Amp, UnlikelyToHelp)];
        assert_eq!(recommends(Cause::OptimizerState, &rows), None);
    }

    #[test]
    fn where_nothing_is_expected_to_fit_what_needs_least_at_the_most_is_tried() {
        let rows = [(Amp, Unknown), (Batch, MayNotFit)];
        assert_eq!(recommends(Cause::Capacity, &rows), Some(Batch));
        let mut both = [remedy(Batch, MayNotFit), remedy(Recompute, MayNotFit)];
        for (remedy, most) in both.iter_mut().zip([9, 8]) {
            let (low, high) = (Bytes::gib(1), Bytes::gib(most));
            remedy.expectation.need = Some(Need::of(Estimate::new(low, low, high)));
        }
        assert_eq!(recommended(&both, Some(Cause::Capacity)), Some(1));
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
