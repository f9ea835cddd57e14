//! The largest batch that fits, rounded as people do, and the accumulation that goes with it; and all
//! that a forecast may rest on beside the command.

use super::earlier_run::EarlierRun;
use super::estimate::Target;
use super::memory::{Forecast, Model};
use super::observation::Observation;
use crate::state::{OomIncident, RankState, State};
use crate::units::Bytes;

/// What is left free above the interval's upper end, unless asked otherwise.
pub const MARGIN: f64 = 0.02;

/// The share of the room that a batch is to need where nobody knows more than what it likely needs.
const LIKELY_ROOM: f64 = 0.8;

/// From which batch on people write multiples of what: no step costs more than a thirtieth of it.
const STEPS: [(u64, u64); 3] = [(256, 8), (128, 4), (32, 2)];

/// No batch beyond this is looked at: more than this many times what was seen is a guess.
const AT_MOST_TIMES: u64 = 64;

/// Rounds a batch down as people write them.
pub fn rounded(batch: u64) -> u64 {
    let step = STEPS.iter().find(|(from, _)| batch >= *from);
    step.map_or(batch, |(_, step)| batch / step * step)
}

/// A batch and how often it is accumulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Division {
    /// Samples at once.
    pub batch: u64,
    /// Micro-batches of a step.
    pub accumulation: u64,
}

impl Division {
    /// Samples of a step.
    pub fn effective(self) -> u64 {
        self.batch.saturating_mul(self.accumulation)
    }
}

impl Model {
    /// The largest batch up to `most` whose upper end fits into `room` with this margin, not
    /// rounded. `None` where not even one does, or nothing is known.
    pub fn largest(&self, like: &Target, room: Bytes, margin: f64, most: u64) -> Option<u64> {
        let seen = self.largest_seen()?;
        let fits = |batch: u64| {
            let target = Target { batch, ..*like };
            if let Some(fits) = self.rehearsed_fits(&target, room, margin) {
                return fits;
            }
            match self.needs(&target) {
                Forecast::Within(needs) | Forecast::Extrapolated(needs, _) => {
                    needs.high.scale(1.0 + margin) <= room
                }
                Forecast::AtLeast(..) | Forecast::Unknown => false,
            }
        };
        let largest = edge(most.min(seen.saturating_mul(AT_MOST_TIMES)), fits);
        (largest > 0).then_some(largest)
    }

    /// The largest batch up to `most` whose likely need leaves a fifth of the room; else the largest whose likely need fits.
    pub fn likely_largest(&self, like: &Target, room: Bytes, most: u64) -> Option<u64> {
        let up_to = |room: Bytes| {
            let fits = |batch: u64| match self.needs(&Target { batch, ..*like }) {
                Forecast::Within(needs) | Forecast::Extrapolated(needs, _) => needs.likely <= room,
                Forecast::AtLeast(..) | Forecast::Unknown => false,
            };
            Some(edge(most, fits)).filter(|largest| *largest > 0)
        };
        up_to(room.scale(LIKELY_ROOM)).or_else(|| up_to(room))
    }
}

/// The largest value up to `most` that fits, 0 where none does. What fits grows with the value in
/// neither direction twice, so halving finds it.
pub fn edge(most: u64, fits: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (0, most.saturating_add(1));
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fits(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// How an effective batch is taken in parts of at most `largest`: the largest part that divides it
/// exactly where that is at least half of what would fit, else the nearest. `None` for no part.
pub fn divided(effective: u64, largest: u64) -> Option<Division> {
    if largest == 0 || effective == 0 {
        return None;
    }
    let exact = (1..=largest.min(effective))
        .rev()
        .find(|part| effective.is_multiple_of(*part) && is_round(*part));
    if let Some(batch) = exact
        && batch * 2 >= largest.min(effective)
    {
        return Some(Division {
            batch,
            accumulation: effective / batch,
        });
    }
    let batch = rounded(largest.min(effective));
    let accumulation = ((effective as f64 / batch as f64).round() as u64).max(1);
    Some(Division {
        batch,
        accumulation,
    })
}

fn is_round(batch: u64) -> bool {
    rounded(batch) == batch
}

/// Everything that a forecast may rest on. All of it may be missing.
#[derive(Debug, Clone)]
pub struct ForecastInputs<'a> {
    /// The out-of-memory that asks for a remedy.
    pub oom: Option<&'a OomIncident>,
    /// What is known of the session.
    pub state: Option<&'a State>,
    /// What earlier sessions of the same program showed on this machine, the earliest first.
    pub earlier: &'a [Observation],
    /// Their runs, and those with other settings: what a command took that is one of theirs. The earliest first.
    pub earlier_runs: &'a [EarlierRun],
    /// A process of theirs that told what can be patched in the program, for where no run of this session did.
    pub earlier_rank: Option<&'a RankState>,
    /// The room on the device, where it is known better than from the out-of-memory.
    pub room: Option<Bytes>,
    /// The share of its need by which a batch is to stay below the room.
    pub margin: f64,
}

impl Default for ForecastInputs<'_> {
    fn default() -> Self {
        ForecastInputs {
            oom: None,
            state: None,
            earlier: &[],
            earlier_runs: &[],
            earlier_rank: None,
            room: None,
            margin: MARGIN,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_rounded_as_people_write_them() {
        for (batch, round) in [
            (1, 1),
            (7, 7),
            (31, 31),
            (33, 32),
            (101, 100),
            (147, 144),
            (1013, 1008),
        ] {
            assert_eq!(rounded(batch), round);
        }
        for batch in 1..5000 {
            assert!(rounded(batch) as f64 >= 0.965 * batch as f64, "{batch}");
        }
    }

    #[test]
    fn the_effective_batch_is_kept_where_a_part_divides_it() {
        for (effective, largest, batch, accumulation) in [
            (64, 47, 32, 2),
            (64, 63, 32, 2),
            (64, 20, 16, 4),
            (48, 30, 24, 2),
            (96, 50, 48, 2),
            // Of a prime nothing is a part: the nearest.
            (61, 40, 40, 2),
            // 10 is less than half of what fits: 48 of 50.
            (50, 24, 24, 2),
            (8, 3, 2, 4),
            (1, 1, 1, 1),
        ] {
            let division = divided(effective, largest).unwrap();
            let wanted = Division {
                batch,
                accumulation,
            };
            assert_eq!(division, wanted, "{effective} in parts of {largest}");
        }
        assert_eq!(divided(64, 0), None);
    }
}
