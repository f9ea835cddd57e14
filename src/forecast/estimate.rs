//! What a forecast is asked for (another batch, fewer activations, another allocator), and its answer: what
//! a quantity likely is, and between what it lies.

use crate::calibration::{
    AUTOCAST_CASTS, AUTOCAST_LEAVES, CHECKPOINTING_LEAVES, OFFLOADING_LEAVES,
};
use crate::event::{InChunks, RankChange};
use crate::units::Bytes;
use serde::{Deserialize, Serialize};
use std::ops::Add;

/// An interval whose ends are so many times apart is a rough one.
const ROUGH: f64 = 2.0;

/// A number of bytes with an interval around it: `low ≤ likely ≤ high`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Estimate {
    /// It is hardly less than this.
    pub low: Bytes,
    /// The best single figure.
    pub likely: Bytes,
    /// It is hardly more than this.
    pub high: Bytes,
}

impl Estimate {
    /// What was measured.
    pub const fn exact(bytes: Bytes) -> Estimate {
        Estimate {
            low: bytes,
            likely: bytes,
            high: bytes,
        }
    }

    /// Three figures in whatever order their origin left them in; `likely` is pulled into the
    /// interval of the other two.
    pub fn new(low: Bytes, likely: Bytes, high: Bytes) -> Estimate {
        let (low, high) = (low.min(high), low.max(high));
        Estimate {
            low,
            likely: likely.clamp(low, high),
            high,
        }
    }

    /// This estimate with each end moved outwards by this share of what lies above `base`.
    pub(super) fn widened(self, base: Bytes, share: f64) -> Estimate {
        let margin = (self.likely - base).scale(share);
        Estimate {
            low: self.low - margin,
            likely: self.likely,
            high: self.high + margin,
        }
    }

    /// With an upper end that is no less than this.
    pub(super) fn up_to(self, high: Bytes) -> Estimate {
        Estimate {
            high: self.high.max(high),
            ..self
        }
    }

    /// Whether its ends are too far apart for a figure between them to say anything.
    pub fn is_rough(self) -> bool {
        self.high > self.low.scale(ROUGH)
    }

    /// The one end that says something beside this room: "up to 21.3 GiB" where that fits, or else "at least 5.47 GiB".
    pub fn bound(self, room: Option<Bytes>) -> String {
        match room.is_some_and(|room| self.high <= room) {
            true => format!("up to {}", self.high),
            false => format!("at least {}", self.low),
        }
    }

    /// Its ends alone: "5.5–21.3 GiB".
    pub fn ends(self) -> String {
        let high = self.high.to_string();
        let (_, unit) = high.split_once(' ').unwrap_or((&high, ""));
        let both = Estimate {
            likely: self.high,
            ..self
        };
        let shown = both.shown();
        match shown.split_once('(') {
            Some((_, ends)) => format!("{} {unit}", ends.trim_end_matches(')')),
            None => shown,
        }
    }

    /// The larger of two quantities.
    pub fn max(self, other: Estimate) -> Estimate {
        Estimate {
            low: self.low.max(other.low),
            likely: self.likely.max(other.likely),
            high: self.high.max(other.high),
        }
    }

    /// Each figure times its own factor.
    pub fn times(self, (low, likely, high): (f64, f64, f64)) -> Estimate {
        Estimate::new(
            self.low.scale(low),
            self.likely.scale(likely),
            self.high.scale(high),
        )
    }

    /// With an upper end that is no more than this, and no less than the likely figure.
    pub(super) fn no_more_than(self, high: Bytes) -> Estimate {
        Estimate {
            high: self.high.min(high.max(self.likely)),
            ..self
        }
    }

    /// Whether the interval holds this figure.
    pub fn holds(self, bytes: Bytes) -> bool {
        (self.low..=self.high).contains(&bytes)
    }

    /// `14.6 GiB (14.1–15.2)`: the interval in the unit of the figure. One that is as narrow as
    /// what is printed is left out.
    pub fn shown(self) -> String {
        self.with_figure(self.likely.to_string())
    }

    /// The same beside the room that it is compared with: with the digits that show on which side of it the figure is.
    pub fn shown_beside(self, room: Bytes) -> (String, String) {
        let [figure, room] = self.likely.apart(room);
        (self.with_figure(figure), room)
    }

    fn with_figure(self, figure: String) -> String {
        let Some((number, unit)) = figure.split_once(' ') else {
            return figure;
        };
        let decimals = number.split_once('.').map_or(0, |(_, rest)| rest.len());
        let scale = match unit {
            "GiB" => 30,
            "MiB" => 20,
            "KiB" => 10,
            "TiB" => 40,
            _ => return figure,
        };
        let in_unit =
            |bytes: Bytes| format!("{:.decimals$}", bytes.0 as f64 / f64::powi(2.0, scale));
        let (low, high) = (in_unit(self.low), in_unit(self.high));
        if low == number && high == number {
            return figure;
        }
        format!("{figure} ({low}–{high})")
    }
}

impl Add<Bytes> for Estimate {
    type Output = Estimate;
    fn add(self, more: Bytes) -> Estimate {
        Estimate {
            low: self.low + more,
            likely: self.likely + more,
            high: self.high + more,
        }
    }
}

/// What is asked: another batch, treated otherwise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Target {
    /// Samples that the device takes at once.
    pub batch: u64,
    /// Whether gradients are kept through the forward.
    pub keeps_gradients: bool,
    /// What is done to the activations.
    pub treatment: ActivationReduction,
    /// How the allocator holds its memory.
    pub allocator: Allocator,
}

/// How the allocator holds its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allocator {
    /// Segments of fixed size.
    Fixed,
    /// `expandable_segments:True`.
    Expandable,
}

/// What is done to the activations, and to what the optimizer's step makes beside its state.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ActivationReduction {
    /// Mixed precision is switched on.
    pub mixed: bool,
    /// Activations are recomputed in backward.
    pub recomputed: bool,
    /// What the forward saves waits in RAM.
    pub offloaded: bool,
    /// A cross-entropy, or it and its head, is computed over some rows at a time: only a rehearsal says what that saves.
    pub chunked: InChunks,
    /// What ranks do otherwise: only a rehearsal knows what that comes to.
    pub ranks: Option<RankChange>,
    /// The optimizer goes through its parameters one after the other: only a rehearsal has its step apart from the passes.
    pub one_by_one: bool,
}

impl ActivationReduction {
    /// Base and activations together after the treatment, in bytes: low, likely, high.
    pub(super) fn passes(self, base: f64, activations: f64) -> (f64, f64, f64) {
        let mut factors = (1.0, 1.0, 1.0);
        for (applies, by) in [
            (self.mixed, AUTOCAST_LEAVES),
            (self.recomputed, CHECKPOINTING_LEAVES),
            (self.offloaded, OFFLOADING_LEAVES),
        ] {
            if applies {
                factors = (factors.0 * by.0, factors.1 * by.1, factors.2 * by.2);
            }
        }
        let casts = if self.mixed {
            base * AUTOCAST_CASTS
        } else {
            0.0
        };
        // The copies are what may make it need more than without autocast: only where they are more than what it likely saves.
        let others = ActivationReduction {
            mixed: false,
            ..self
        };
        let saves = match self.mixed {
            true => others.passes(0.0, activations).1 * (1.0 - AUTOCAST_LEAVES.1),
            false => 0.0,
        };
        let casts = match casts <= saves {
            true => 0.0,
            false => casts,
        };
        (
            base + activations * factors.0,
            base + activations * factors.1,
            base + casts + activations * factors.2,
        )
    }

    /// Whether anything is done.
    pub fn is_none(self) -> bool {
        self == ActivationReduction::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_printed_in_the_unit_of_its_figure() {
        let estimate = |low: u64, likely: u64, high: u64| {
            Estimate::new(Bytes::mib(low), Bytes::mib(likely), Bytes::mib(high)).shown()
        };
        assert_eq!(estimate(14438, 14950, 15565), "14.6 GiB (14.1–15.2)");
        assert_eq!(estimate(900, 1000, 1100), "1000 MiB (900–1100)");
        assert_eq!(estimate(2048, 2048, 2048), "2.00 GiB");
        assert_eq!(Estimate::exact(Bytes(12)).shown(), "12 B");
    }

    #[test]
    fn of_a_rough_estimate_there_are_the_ends() {
        let rough = Estimate::new(Bytes::mib(4198), Bytes::mib(11_981), Bytes::mib(31_744));
        assert!(rough.is_rough() && !Estimate::exact(Bytes(7)).is_rough());
        assert_eq!(rough.ends(), "4.1–31.0 GiB");
        assert_eq!(Estimate::exact(Bytes::gib(2)).ends(), "2.00 GiB");
        assert_eq!(rough.bound(Some(Bytes::gib(40))), "up to 31.0 GiB");
        for room in [Some(Bytes::gib(24)), None] {
            assert_eq!(rough.bound(room), "at least 4.10 GiB");
        }
    }

    /// What is chosen besides saves more, or nothing: no estimate of more is above that of less of it, but where the copies of
    /// autocast are more than what it saves.
    #[test]
    fn more_of_what_saves_needs_no_more() {
        let of = |mixed, recomputed, offloaded| ActivationReduction {
            mixed,
            recomputed,
            offloaded,
            ..ActivationReduction::default()
        };
        let flags = [false, true];
        let (base, activations) = (1e9, 20e9);
        let high = |of: ActivationReduction| of.passes(base, activations).2;
        for (recomputed, offloaded) in [(false, false), (true, false), (false, true)] {
            let without = of(false, recomputed, offloaded);
            assert!(high(of(true, recomputed, offloaded)) <= high(without));
        }
        for mixed in flags {
            assert!(high(of(mixed, true, false)) <= high(of(mixed, false, false)));
            assert!(high(of(mixed, true, true)) <= high(of(mixed, true, false)));
        }
        let small = of(true, false, false).passes(20e9, 1e9);
        assert!(small.2 > 21e9, "copies of many weights, few activations");
    }

    #[test]
    fn the_ends_are_put_in_order() {
        let estimate = Estimate::new(Bytes(9), Bytes(10), Bytes(3));
        assert_eq!(
            (estimate.low, estimate.likely, estimate.high),
            (Bytes(3), Bytes(9), Bytes(9))
        );
        assert!(estimate.holds(Bytes(4)) && !estimate.holds(Bytes(10)));
    }
}
