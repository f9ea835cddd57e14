//! A need beside the memory that there is: whether that fits, and the words for it.

use crate::diagnosis::{LittleUse, Phrase};
use crate::event::InputSizes;
use crate::forecast::{Basis, Estimate, Need, Progress};
use crate::remedy::plan::Expectation;
use crate::units::Bytes;

pub const ROOM_UNKNOWN: &str = "available memory is unknown";

/// It leaves the cause in place.
pub fn futile(verdict: LittleUse, reason: &str) -> Expectation {
    Expectation {
        futile: Some(verdict),
        words: format!("{}: {reason}", verdict.words()).into(),
        ..Expectation::default()
    }
}

/// Only a lower bound is known: it can prove that a run won't fit, never that it fits.
pub fn at_least(least: Bytes, room: Option<Bytes>, words: Phrase) -> Expectation {
    let too_much = room.is_some_and(|room| least > room);
    Expectation {
        at_least: Some(least),
        room,
        fits: too_much.then_some(false),
        words,
        ..Expectation::default()
    }
}

/// Whether the figure between its ends is a middle that nobody has computed. What was measured or rehearsed has one, however
/// far its ends are apart: cuDNN may take all that is free while it tries its algorithms.
pub fn is_nobodys(needs: Estimate, basis: Option<Basis>) -> bool {
    match basis {
        Some(Basis::Measured | Basis::Rehearsed) => false,
        Some(Basis::Estimated) | None => needs.is_rough(),
    }
}

/// All of the interval fits: it is known to, unless the figure is only estimated.
pub fn fits_within(need: Need, room: Bytes, basis: Option<Basis>) -> Expectation {
    let needs = need.estimate();
    if is_nobodys(needs, basis) {
        // What is left of the room is as open.
        let words = format!("needs {}, likely fits in {room}", needs.bound(Some(room)));
        return Expectation {
            basis,
            ..needing(need, Some(room), None, words.into())
        };
    }
    let spare = need.spare_words(room).unwrap_or_default();
    let shown = needs.shown();
    let (fits, words) = match basis {
        Some(Basis::Estimated) => (None, format!("needs {shown}, likely fits with {spare}")),
        Some(Basis::Measured | Basis::Rehearsed) | None => {
            (Some(true), format!("needs {shown}, fits with {spare}"))
        }
    };
    Expectation {
        basis,
        ..needing(need, Some(room), fits, words.into())
    }
}

/// It won't fit if the least that it needs is too much, likely won't if the likely need is, or else may not.
pub fn tight(need: Need, room: Bytes, basis: Option<Basis>) -> Expectation {
    let needs = need.estimate();
    let (fits, words) = if needs.low > room {
        let [low, shown_room] = needs.low.apart(room);
        let words = format!("won't fit: needs at least {low}, {shown_room} available");
        (Some(false), words)
    } else {
        let (mut shown, shown_room) = needs.shown_beside(room);
        if is_nobodys(needs, basis) {
            shown = needs.bound(Some(room));
        }
        match needs.likely > room {
            true => (
                Some(false),
                format!("likely won't fit: needs {shown}, {shown_room} available"),
            ),
            false => (
                None,
                format!("may not fit: needs {shown}, {shown_room} available"),
            ),
        }
    };
    Expectation {
        basis,
        ..needing(need, Some(room), fits, words.into())
    }
}

/// Whether a try of a single sample is worth it though the likely need does not fit: it costs seconds, and only the least
/// that is needed proves that it cannot.
pub fn is_open(needs: Estimate, room: Bytes) -> bool {
    needs.low <= room
}

/// What is expected of a single sample, where there is nothing smaller.
pub fn may_be_tried(said: Expectation) -> Expectation {
    let needs = said.need.map(Need::estimate);
    match (said.fits, needs, said.room) {
        (Some(false), Some(needs), Some(room)) if is_open(needs, room) => {
            let (shown, room) = needs.shown_beside(room);
            let needs = match needs.is_rough() {
                true => format!("at least {}", needs.low),
                false => shown,
            };
            let words = format!("may not fit, the smallest batch: needs {needs}, {room} available");
            Expectation {
                fits: None,
                words: words.into(),
                ..said
            }
        }
        _ => said,
    }
}

/// The need is known, the available memory is not.
pub fn beyond(need: Need) -> Expectation {
    let words = Phrase::from(format!("needs {}", need.estimate().shown()));
    needing(need, None, None, words.and("; ", ROOM_UNKNOWN))
}

/// Extrapolated from the step that ran out of memory: it likely fits if the upper end does.
pub fn extrapolated(need: Need, room: Option<Bytes>, progress: Progress) -> Expectation {
    let needs = need.estimate();
    // An interval from one figure to twice that chooses nothing by itself.
    let is_rough = needs.is_rough();
    let estimated = match is_rough {
        true => "no closer estimate",
        false => "estimated",
    };
    let how = format!("{estimated}: {}", progress.shown());
    // A middle between such ends is nobody's figure.
    let about = |shown: String| match is_rough {
        true => format!("needs {}", needs.bound(room)),
        false => format!("needs about {shown}"),
    };
    let (fits, words) = match room {
        None => (
            None,
            Phrase::from(about(needs.shown()))
                .and("; ", ROOM_UNKNOWN)
                .and("; ", how),
        ),
        Some(room) => {
            let (shown, shown_room) = needs.shown_beside(room);
            let about = about(shown);
            if needs.low > room {
                let [low, room] = needs.low.apart(room);
                let words = format!("won't fit: needs at least {low}, {room} available");
                (Some(false), words.into())
            } else if needs.likely > room {
                let words = format!("likely won't fit: {about}, {shown_room} available");
                (Some(false), Phrase::from(words).and("; ", how))
            } else if needs.high <= room {
                let words = format!("{about}, likely fits in {shown_room}");
                (None, Phrase::from(words).and("; ", how))
            } else {
                let words = format!("may not fit: {about}, {shown_room} available");
                (None, Phrase::from(words).and("; ", how))
            }
        }
    };
    Expectation {
        basis: Some(Basis::Estimated),
        ..needing(need, room, fits, words)
    }
}

fn needing(need: Need, room: Option<Bytes>, fits: Option<bool>, words: Phrase) -> Expectation {
    Expectation {
        need: Some(need),
        room,
        fits,
        words,
        ..Expectation::default()
    }
}

/// Which inputs a rehearsed figure rests on.
pub fn by_inputs(sizes: &InputSizes) -> Phrase {
    let (calls, most) = (sizes.calls, sizes.most);
    match sizes.possible {
        Some(possible) if !sizes.differ() => {
            format!("by inputs of {most} each, with room for the {possible} that the model takes")
                .into()
        }
        _ => Phrase::from(format!("by the largest of {calls} inputs seen"))
            .and("; ", "they differ in size"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_and_its_figures_are_of_one_comparison() {
        let gib = |gib: f64| Bytes((gib * f64::from(1 << 30)) as u64);
        let room = gib(23.48);
        let around = |likely: f64| {
            let (low, high) = (gib(likely - 0.2), gib(likely + 1.0));
            Need::of(Estimate::new(low, gib(likely), high))
        };
        assert_eq!(
            tight(around(23.52), room, None).words,
            "likely won't fit: needs 23.52 GiB (23.32–24.52), 23.48 GiB available"
        );
        assert_eq!(
            tight(around(23.46), room, None).words,
            "may not fit: needs 23.46 GiB (23.26–24.46), 23.48 GiB available"
        );
        assert_eq!(
            tight(around(23.71), room, None).words,
            "won't fit: needs at least 23.51 GiB, 23.48 GiB available"
        );
        assert_eq!(
            tight(around(24.0), room, None).words,
            "won't fit: needs at least 23.8 GiB, 23.5 GiB available"
        );
    }
}
