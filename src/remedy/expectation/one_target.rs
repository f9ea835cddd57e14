//! What a run of one target is expected to need, whether that fits, and in words what the figure rests on.

use super::RemedyPredictor;
use super::verdict::{
    ROOM_UNKNOWN, at_least, beyond, by_inputs, extrapolated, fits_within, is_nobodys, may_be_tried,
    tight,
};
use crate::diagnosis::Phrase;
use crate::event::Phase;
use crate::forecast::{Basis, Estimate, Forecast, Need, SeenIn, Target, Unseen};
use crate::remedy::plan::{Expectation, FitVerdict};
use crate::units::Bytes;

/// A run's need above its peak of allocated memory with expandable segments, at most.
const EXPANDABLE_OVERHEAD: f64 = crate::calibration::EXPANDABLE.2;

/// What is known before a whole step was seen.
const NO_STEP: &str = "no complete step was seen";

/// Its step fits, and nobody knows what comes next.
const FOLLOWED: &str = "an evaluation or sampling that follows was not seen";

/// All that is free may be cached, in blocks that are too small for what comes next.
const IN_PIECES: &str = "what convolutions work with may fragment the cache";

/// Of so little memory a few segments of 20 MiB and cuBLAS's workspaces are most.
const FEW_SEGMENTS: Bytes = Bytes::mib(64);

const SEGMENTS_DECIDE: &str = "with so little memory a segment more decides";

/// It fits because the allocator gives cached segments back.
const RETRIES: &str = "slower: PyTorch flushes its cache and retries";

impl RemedyPredictor<'_> {
    pub(super) fn of_target(&self, target: &Target) -> Expectation {
        let peak = match self.model.peak_in(target, self.room) {
            Forecast::Within(peak) | Forecast::Extrapolated(peak, _) => Some(peak),
            Forecast::AtLeast(..) | Forecast::Unknown => None,
        };
        let expectation = match self.model.needs(target) {
            Forecast::Unknown => Expectation::unknown(self.guess(target)),
            Forecast::Within(needs) => match self.room {
                None => beyond(Need::of(needs)),
                Some(room) if needs.high <= room => {
                    fits_within(Need::of(needs), room, self.model.basis(target))
                }
                Some(room) => tight(Need::of(needs), room, self.model.basis(target)),
            },
            Forecast::Extrapolated(needs, how) => extrapolated(Need::of(needs), self.room, how),
            Forecast::AtLeast(least, Unseen::NoStep) if self.room.is_none_or(|r| least <= r) => {
                let mut words = Expectation::unknown(self.guess(target)).words;
                words.extend(&format!(" (needs at least {least})"));
                at_least(least, self.room, words)
            }
            Forecast::AtLeast(least, why) => self.bounded(least, why),
        };
        let mut expectation = expectation;
        if let (Forecast::Extrapolated(..), Some(why)) =
            (self.model.needs(target), self.why_not_rehearsed())
            && !expectation.words.is_empty()
            && expectation.verdict() != FitVerdict::WontFit
        {
            expectation
                .words
                .push("; ", format!("not rehearsed: {why}"));
        }
        if let Some(run) = self.ran_out_at(target) {
            let words = format!(
                "won't fit: run {run} ran out of memory with a batch of {}",
                self.failed.map_or(target.batch, |failed| failed.batch)
            );
            return Expectation {
                fits: Some(false),
                room: self.room,
                words: words.into(),
                ..Expectation::default()
            };
        }
        let one = target.batch == 1 && self.reading.at_once > 1;
        let mut expectation = match one {
            true => may_be_tried(Expectation {
                peak,
                ..expectation
            }),
            false => Expectation {
                peak,
                ..expectation
            },
        };
        let is_likely = expectation.fits == Some(true) && self.model.is_followed_by_more(target);
        if is_likely {
            expectation.fits = None;
            expectation.words.push("; ", FOLLOWED);
        }
        let on_card = self.room.and_then(|room| self.model.on_card(target, room));
        let in_pieces = |room| self.model.may_come_to_pieces(target, room);
        let unsure = match self.room {
            Some(room) if in_pieces(room) => Some(IN_PIECES),
            Some(room) if room < FEW_SEGMENTS => Some(SEGMENTS_DECIDE),
            Some(_) | None => None,
        };
        if let Some(why) = unsure.filter(|_| expectation.fits == Some(true)) {
            expectation.fits = None;
            expectation.words.push("; ", why);
        }
        if let Some(on_card) = on_card.filter(|_| expectation.fits != Some(false)) {
            expectation.reserved = Some(on_card.reserved);
            if on_card.retries {
                expectation.words.push("; ", RETRIES);
            }
        }
        if let Some(deciding) = self.model.decided_by(target) {
            let whose = self.beside.words(deciding);
            expectation.words.push("; ", whose);
        }
        let basis = self.model.basis(target);
        let has_no_figure = |(low, high)| is_nobodys(Estimate::new(low, low, high), basis);
        if expectation.within().is_some_and(has_no_figure) {
            // No figure to hold the run against.
            expectation.peak = None;
        }
        let peak = expectation.peak;
        // What the chart and the run's end compare with is allocated.
        if let (Some(peak), Some(needs)) = (peak, expectation.needs())
            && expectation.fits != Some(false)
            && peak.likely.to_string() != needs.to_string()
        {
            let from = expectation.within().map_or(needs, |(from, _)| from);
            let allocated = match peak.likely <= needs {
                // Both are intervals: what is likely of one can be above where the other begins.
                true if from < peak.likely => format!("likely {} of it allocated", peak.likely),
                true => format!("{} of it allocated", peak.likely),
                // What cuDNN takes while it tries its algorithms is no need.
                false => format!("a peak of {} where there is room", peak.likely),
            };
            expectation.words.push_second("; ", allocated);
        }
        expectation.basis = self.model.basis(target).or(expectation.basis);
        let sizes = self.model.input_sizes(target);
        match (self.model.basis(target), sizes.as_ref().map(by_inputs)) {
            (Some(basis), Some(inputs)) => {
                let basis = format!("{} ", self.rests_on(basis, target));
                expectation.words = expectation.words.before("; ", &inputs.behind(&basis));
            }
            (Some(basis), None) => {
                let basis = self.rests_on(basis, target);
                expectation.words.push("; ", basis);
            }
            (None, Some(inputs)) => expectation.words.extend(&format!(" {inputs}")),
            (None, None) => {}
        }
        expectation
    }

    /// Why the step that failed could not be rehearsed: without that the ends of an estimate are far apart.
    fn why_not_rehearsed(&self) -> Option<&str> {
        self.inputs.forecast.oom?;
        let run = self.inputs.forecast.state?.run()?;
        run.not_rehearsed.as_deref()
    }

    /// What a figure rests on: of what was measured also where, since a run of another batch or of another day may have been
    /// another training.
    fn rests_on(&self, basis: Basis, target: &Target) -> String {
        let seen = self
            .model
            .seen_in(target)
            .filter(|_| basis == Basis::Measured);
        let Some((seen_in, batch)) = seen else {
            return basis.word().into();
        };
        let place = match seen_in {
            SeenIn::Run(number) => format!("in run {number}"),
            SeenIn::EarlierSession => "in an earlier session".into(),
        };
        let with = match batch == target.batch {
            true => String::new(),
            false => format!(" at batch {batch}"),
        };
        format!("{} {place}{with}", basis.word())
    }

    /// What is known where no whole step was seen.
    fn guess(&self, target: &Target) -> Phrase {
        let own = self.reading.at_once;
        let what = match target.batch {
            // Of the same batch nothing is guessed.
            batch if batch >= own => return Phrase::from(NO_STEP),
            batch if batch < own / 2 => "the batch is a guess",
            _ => "half the batch is a guess",
        };
        Phrase::from(NO_STEP).and("; ", what)
    }

    /// A lower bound, and why nothing more is known.
    fn bounded(&self, least: Bytes, why: Unseen) -> Expectation {
        let words = match self.room {
            Some(room) if least > room => {
                let [least, room] = least.apart(room);
                format!("won't fit: needs at least {least}, {room} available")
            }
            Some(room) => format!(
                "needs at least {least} ({room} available): {}",
                how_far(why)
            ),
            None => format!("needs at least {least}: {}", how_far(why)),
        };
        at_least(least, self.room, words.into())
    }

    /// Expandable segments alone: fragmented free memory becomes usable. With `failed_only`, judged
    /// by the failed allocation instead of the peak.
    pub(super) fn without_fragmentation(&self, target: &Target, failed_only: bool) -> Expectation {
        let Some(wanted) = self.wanted else {
            return Expectation::unknown("the OOM message has no numbers");
        };
        let Some(room) = self.room else {
            let words = Phrase::from(format!("this allocation needs {wanted} in total"));
            return at_least(wanted, None, words.and("; ", ROOM_UNKNOWN));
        };
        if wanted > room {
            let [shown, shown_room] = wanted.apart(room);
            let words = format!("won't fit: needs {shown}, {shown_room} available");
            return at_least(wanted, Some(room), words.into());
        }
        let spare = room - wanted;
        let alone = Phrase::from(match wanted.scale(EXPANDABLE_OVERHEAD) > room {
            true => format!("tight: the failed allocation needs {wanted}, {room} available"),
            false => format!("the allocation that failed would fit, with {spare} to spare"),
        });
        if failed_only || self.is_unseen_evaluation() {
            // The peak of training steps says nothing about an evaluation.
            return at_least(wanted, Some(room), alone);
        }
        match self.model.peak(target) {
            Forecast::Within(_) | Forecast::Extrapolated(..) => self.of_target(target),
            Forecast::AtLeast(_, why) => {
                at_least(wanted, Some(room), alone.and("; ", how_far(why)))
            }
            Forecast::Unknown => at_least(wanted, Some(room), alone),
        }
    }
}

/// How far the step that failed had come, for display.
fn how_far(why: Unseen) -> &'static str {
    match why {
        Unseen::NoStep => "what the rest of the step needs was not seen",
        Unseen::NoState => "the only complete step had no optimizer state yet",
        Unseen::Wanted(Phase::Backward) => {
            "memory ran out in the backward pass, near the step's peak"
        }
        Unseen::Wanted(Phase::Optimizer) => {
            "memory ran out in the optimizer step, near the step's peak"
        }
        Unseen::Wanted(Phase::Forward | Phase::Load | Phase::Evaluation | Phase::Unknown) => {
            "memory ran out before the step's peak"
        }
    }
}
