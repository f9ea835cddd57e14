//! Turns estimates into expectations: whether they fit, and the words for it.

use crate::event::InputSizes;
use crate::forecast::{Basis, Estimate, Progress};
use crate::remedy::plan::Expectation;
use crate::units::Bytes;

pub(super) fn unknown(why: &str) -> Expectation {
    Expectation {
        words: format!("unknown: {why}"),
        ..Expectation::default()
    }
}

/// It leaves the cause in place.
pub(super) fn futile(verdict: &'static str, reason: &str) -> Expectation {
    Expectation {
        futile: Some(verdict),
        words: format!("{verdict}: {reason}"),
        ..Expectation::default()
    }
}

/// Only a lower bound is known: it can prove that a run won't fit, never that it fits.
pub(super) fn at_least(least: Bytes, room: Option<Bytes>, words: String) -> Expectation {
    let too_much = room.is_some_and(|room| least > room);
    Expectation {
        at_least: Some(least),
        room,
        fits: too_much.then_some(false),
        words,
        ..Expectation::default()
    }
}

/// It is known to fit.
pub(super) fn fits_within(needs: Estimate, room: Bytes) -> Expectation {
    let spare = room - needs.likely;
    let words = format!("needs {}, fits with {spare} to spare", needs.shown());
    of(needs, Some(room), Some(true), words)
}

/// It won't fit, or may not: "may not" only if the likely need is within the available memory.
pub(super) fn tight(needs: Estimate, room: Bytes) -> Expectation {
    if needs.low > room {
        let words = format!("won't fit: needs at least {}, {room} available", needs.low);
        return of(needs, Some(room), Some(false), words);
    }
    if needs.likely > room {
        let words = format!("won't fit: needs {}, {room} available", needs.shown());
        return of(needs, Some(room), Some(false), words);
    }
    let words = format!("may not fit: needs {}, {room} available", needs.shown());
    of(needs, Some(room), None, words)
}

/// The need is known, the available memory is not.
pub(super) fn beyond(needs: Estimate) -> Expectation {
    let words = format!("needs {}; available memory is unknown", needs.shown());
    of(needs, None, None, words)
}

/// Extrapolated from the step that ran out of memory: it fits if the upper end does.
pub(super) fn extrapolated(
    needs: Estimate,
    room: Option<Bytes>,
    progress: Progress,
) -> Expectation {
    let about = format!("needs about {}", needs.shown());
    let how = format!("memory ran out {}", progress.shown());
    let (fits, words) = match room {
        None => (
            None,
            format!("{about}; available memory is unknown; estimated, {how}"),
        ),
        Some(room) if needs.low > room => (
            Some(false),
            format!("won't fit: needs at least {}, {room} available", needs.low),
        ),
        Some(room) if needs.likely > room => (
            Some(false),
            format!("won't fit: {about}, {room} available; estimated, {how}"),
        ),
        Some(room) if needs.high <= room => (
            Some(true),
            format!("{about}, fits in {room}; estimated, {how}"),
        ),
        Some(room) => (
            None,
            format!("may not fit: {about}, {room} available; estimated, {how}"),
        ),
    };
    Expectation {
        basis: Some(Basis::Estimated),
        ..of(needs, room, fits, words)
    }
}

fn of(needs: Estimate, room: Option<Bytes>, fits: Option<bool>, words: String) -> Expectation {
    Expectation {
        peak: None,
        needs: Some(needs.likely),
        within: Some((needs.low, needs.high)),
        room,
        at_least: None,
        fits,
        futile: None,
        basis: None,
        words,
    }
}

/// Which inputs a rehearsed figure rests on.
pub(super) fn by_inputs(sizes: &InputSizes) -> String {
    let (calls, most) = (sizes.calls, sizes.most);
    match sizes.possible {
        Some(possible) if !sizes.differ() => {
            format!(" by inputs of {most} each, with room for the {possible} that the model takes")
        }
        _ => format!(" by the largest of {calls} inputs seen; they differ in size"),
    }
}
