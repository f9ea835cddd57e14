//! Which value `fit` tries next: a pure search in at most three runs.
//!
//! The first run is small and shows a base and a slope. The second goes a little below what the first
//! lets expect, or to the half of it where that is far away, and makes a line of it. The third goes
//! nearer, by what the second held of its memory; what it does not prove the second mostly has.
//! Where no run near the limit got through, the answer is what the upper end of all intervals
//! allows, and is said not to be proven.

use crate::remedy::model::{Allocator, Forecast, Model, Observation, Target, Treatment, rounded};
use crate::units::Bytes;

/// Runs at most.
pub const RUNS: usize = 3;

/// Up to so many times the first run's value a single run foretells the limit well enough to go near
/// it at once (measured: the peak within 3.5 % over one doubling, 0.2 % in the median).
const FORESEEN: f64 = 12.0;
/// So much short of what is expected the run most likely gets through.
const SHORT_OF: f64 = 0.93;
/// A run that got through this close to the limit, as that run shows it, is something to fall back
/// on: so much of the rest of the way is tried.
const CLOSE: f64 = 1.25;
const TOWARDS: f64 = 0.8;
/// From further away so much of the limit itself is.
const ALMOST: f64 = 0.97;
/// What is no further away than this is reached.
const NEAR: f64 = 1.04;

/// The share of the answer that a round number may cost.
const ROUNDING: f64 = 0.015;
/// From here on an odd number is more precise than anybody asks for.
const EVEN_FROM: u64 = 64;

/// What one run showed.
#[derive(Debug, Clone)]
pub struct Trial {
    /// The value tried.
    pub value: u64,
    /// What was seen of its memory; its batch is the value.
    pub seen: Option<Observation>,
    /// Its peak.
    pub peak: Option<Bytes>,
    /// Whether it got through its steps.
    pub fits: bool,
}

/// The search so far.
#[derive(Debug, Clone)]
pub struct Search {
    /// The value in the command.
    pub start: u64,
    /// What is left free.
    pub margin: f64,
    /// Whether values are rounded as batches are.
    pub rounds: bool,
    /// What the process may reserve of the device, once a run has shown it.
    pub room: Option<Bytes>,
    /// How the allocator holds its memory, as the first run said.
    pub allocator: Allocator,
    /// Whether gradients are kept through the forward.
    pub keeps_gradients: bool,
    /// The runs so far.
    pub trials: Vec<Trial>,
}

/// What follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// A run with this value.
    Run(u64),
    /// The search is over.
    Done(Answer),
}

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// This one ran.
    Proven(u64),
    /// This one is expected to; the largest that ran is smaller.
    Expected(u64),
    /// None fits.
    None,
}

fn share(value: u64, of: f64) -> u64 {
    (value as f64 * of).round() as u64
}

/// Which end of an interval is held against the room.
#[derive(Debug, Clone, Copy)]
enum End {
    Likely,
    High,
}

impl Search {
    /// What follows the runs so far.
    pub fn next(&self) -> Next {
        match self.trials.as_slice() {
            [] => Next::Run((self.start / 4).max(1).min(self.start)),
            [only] => self.second(only),
            [_, latest] => self.third(latest),
            [.., latest] => self.last(latest),
        }
    }

    fn second(&self, first: &Trial) -> Next {
        if !first.fits {
            let smaller = self.limit(End::High).unwrap_or(first.value / 4);
            let smaller = smaller.min(first.value / 2);
            return if first.value == 1 {
                Next::Done(Answer::None)
            } else {
                Next::Run(self.round(smaller.max(1)))
            };
        }
        let Some(limit) = self.limit(End::Likely) else {
            // Its memory was not seen (no probe): doubling is all there is.
            return Next::Run(first.value * 2);
        };
        if limit <= first.value {
            return Next::Done(Answer::Proven(first.value));
        }
        let far = limit as f64 / first.value as f64;
        let value = if far <= FORESEEN {
            share(limit, SHORT_OF)
        } else {
            limit / 2
        };
        // Not so short of it that the run would show nothing new.
        Next::Run(
            self.round(value)
                .max(self.round(limit).min(first.value + 1)),
        )
    }

    fn third(&self, latest: &Trial) -> Next {
        let best = self.best();
        let Some(limit) = self.limit(End::Likely) else {
            return match best {
                Some(best) if latest.fits => Next::Run(best * 2),
                Some(best) => {
                    let middle = self.round((best + latest.value) / 2);
                    self.run_between(middle, best)
                }
                None => self.run_between(latest.value / 4, 0),
            };
        };
        let value = if !latest.fits {
            share(limit, SHORT_OF).min(share(latest.value, SHORT_OF))
        } else if limit as f64 <= latest.value as f64 * NEAR {
            // As good as there: what is left to be won is not more than a little.
            share(latest.value, 1.0 + (NEAR - 1.0) / 2.0).max(latest.value + 1)
        } else if limit as f64 <= latest.value as f64 * CLOSE {
            latest.value + share(limit - latest.value, TOWARDS).max(1)
        } else {
            share(limit, ALMOST)
        };
        self.run_between(self.round(value.min(self.ceiling())), best.unwrap_or(0))
    }

    /// A run with a value that was not tried and is more than what is proven, else the end.
    fn run_between(&self, value: u64, best: u64) -> Next {
        let tried = self.trials.iter().any(|trial| trial.value == value);
        if value <= best || tried || value >= self.ceiling().saturating_add(1) {
            return Next::Done(if best > 0 {
                Answer::Proven(best)
            } else {
                Answer::None
            });
        }
        Next::Run(value)
    }

    fn last(&self, latest: &Trial) -> Next {
        let best = self.best();
        if latest.fits {
            return Next::Done(Answer::Proven(best.unwrap_or(latest.value)));
        }
        // Not proven: the upper end, below whatever failed.
        let expected = self.limit(End::High).map(|limit| {
            let below = self.ceiling();
            self.round(limit.min(below - below / 16))
        });
        Next::Done(match (best, expected) {
            (Some(best), Some(expected)) if expected > best => Answer::Expected(expected),
            (Some(best), _) => Answer::Proven(best),
            (None, _) => Answer::None,
        })
    }

    /// The largest value that ran.
    fn best(&self) -> Option<u64> {
        let fitting = self.trials.iter().filter(|trial| trial.fits);
        fitting.map(|trial| trial.value).max()
    }

    /// The largest value that no run has ruled out.
    fn ceiling(&self) -> u64 {
        let failed = self.trials.iter().filter(|trial| !trial.fits);
        failed
            .map(|trial| trial.value - 1)
            .min()
            .unwrap_or(u64::MAX)
    }

    /// As people round batches, where that costs next to nothing: this is a search for the largest.
    fn round(&self, value: u64) -> u64 {
        let round = rounded(value);
        let loses = (value - round) as f64 / value.max(1) as f64;
        match self.rounds {
            true if loses <= ROUNDING => round,
            true => value - value % 2 * u64::from(value >= EVEN_FROM),
            false => value,
        }
    }

    /// The largest value whose need, at one end of its interval and with the margin, is within the
    /// room.
    fn limit(&self, end: End) -> Option<u64> {
        let room = self.room?;
        let seen: Vec<Observation> = self
            .trials
            .iter()
            .filter_map(|trial| trial.seen.clone())
            .collect();
        let most = seen
            .iter()
            .map(|seen| seen.batch)
            .max()?
            .saturating_mul(256);
        let model = Model::of(seen);
        let fits = |batch: u64| {
            let target = Target {
                batch,
                keeps_gradients: self.keeps_gradients,
                treatment: Treatment::default(),
                allocator: self.allocator,
            };
            match model.needs(&target) {
                Forecast::Within(needs) | Forecast::Reckoned(needs, _) => {
                    let needs = match end {
                        End::Likely => needs.likely,
                        End::High => needs.high,
                    };
                    needs.scale(1.0 + self.margin) <= room
                }
                Forecast::AtLeast(..) | Forecast::Unknown => false,
            }
        };
        if !fits(1) {
            return (model.whole_runs() > 0).then_some(1);
        }
        let (mut low, mut high) = (1, most + 1);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if fits(middle) {
                low = middle;
            } else {
                high = middle;
            }
        }
        Some(low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remedy::model::{Estimate, Passes, Unseen};
    use crate::state::scene::gib;

    /// A world in which a training is a line, and the allocator needs so much more than it.
    struct World {
        name: &'static str,
        base: f64,
        slope: f64,
        reserved: f64,
        needed: f64,
        pieces: f64,
        room: f64,
    }

    impl World {
        fn peak(&self, batch: u64) -> f64 {
            self.base + self.slope * batch as f64
        }

        fn fits(&self, batch: u64) -> bool {
            self.peak(batch) * self.needed <= self.room
        }

        fn run(&self, value: u64) -> Trial {
            let fits = self.fits(value);
            let base = gib(self.base);
            let peak = gib(self.peak(value).min(self.room));
            Trial {
                value,
                fits,
                peak: Some(peak),
                seen: Some(Observation {
                    batch: value,
                    base: Estimate::of(base.scale(0.95), base, base.scale(1.3)),
                    gradients: Some(base.scale(0.33)),
                    parameters: Some(base.scale(0.33)),
                    keeps_gradients: false,
                    passes: if fits {
                        Passes::Seen(peak)
                    } else {
                        Passes::AtLeast(gib(self.room / self.needed), Unseen::NoStep)
                    },
                    optimizer: Estimate::exact(base.scale(1.5)),
                    varies: false,
                    overhead: fits.then_some(self.reserved),
                    pieces: fits.then_some(self.pieces),
                    partway: None,
                    left_over: (!fits).then_some(self.needed),
                }),
            }
        }

        /// What is found from a start, and in how many runs.
        fn search(&self, start: u64) -> (Answer, usize) {
            let mut search = Search {
                start,
                margin: 0.02,
                rounds: false,
                room: Some(gib(self.room)),
                allocator: Allocator::Fixed,
                keeps_gradients: false,
                trials: Vec::new(),
            };
            loop {
                match search.next() {
                    Next::Done(answer) => return (answer, search.trials.len()),
                    Next::Run(value) => search.trials.push(self.run(value)),
                }
            }
        }
    }

    /// Lines, reservations and needs as they were measured.
    const WORLDS: [World; 6] = [
        World {
            name: "gpt2",
            base: 1.47,
            slope: 0.827,
            reserved: 1.08,
            needed: 1.08,
            pieces: 0.23,
            room: 141.0,
        },
        World {
            name: "gpt2 bf16",
            base: 1.70,
            slope: 0.686,
            reserved: 1.03,
            needed: 1.04,
            pieces: 0.24,
            room: 141.0,
        },
        World {
            name: "checkpointing",
            base: 1.47,
            slope: 0.309,
            reserved: 1.29,
            needed: 1.29,
            pieces: 0.26,
            room: 141.0,
        },
        World {
            name: "resnet50",
            base: 0.29,
            slope: 0.0806,
            reserved: 1.20,
            needed: 1.02,
            pieces: 0.1,
            room: 24.0,
        },
        World {
            name: "ViT-B",
            base: 1.05,
            slope: 0.1128,
            reserved: 1.03,
            needed: 1.02,
            pieces: 0.045,
            room: 80.0,
        },
        World {
            name: "U-Net",
            base: 0.08,
            slope: 0.385,
            reserved: 1.25,
            needed: 1.05,
            pieces: 0.09,
            room: 24.0,
        },
    ];

    #[test]
    fn the_largest_is_found_in_three_runs_and_never_above() {
        for world in &WORLDS {
            let truth = (1..).take_while(|batch| world.fits(*batch)).last().unwrap();
            for start in [4, 8, 16, 32, 64] {
                let (answer, runs) = world.search(start);
                let found = match answer {
                    Answer::Proven(found) | Answer::Expected(found) => found,
                    Answer::None => panic!("{} from {start}", world.name),
                };
                assert!(runs <= RUNS);
                assert!(
                    found <= truth,
                    "{} from {start}: {found} of {truth}",
                    world.name
                );
                // Of what the margin leaves.
                let short = 1.0 - found as f64 / (truth as f64 / 1.02);
                assert!(
                    short <= 0.04,
                    "{} from {start}: {found} of {truth} ({answer:?})",
                    world.name
                );
            }
        }
    }

    #[test]
    fn where_nothing_fits_that_is_said() {
        let world = World {
            name: "huge",
            base: 30.0,
            slope: 1.0,
            reserved: 1.0,
            needed: 1.0,
            pieces: 0.01,
            room: 24.0,
        };
        let (answer, runs) = world.search(8);
        assert_eq!(answer, Answer::None);
        assert!(runs <= RUNS);
        assert_eq!(world.search(1).0, Answer::None);
    }

    #[test]
    fn without_a_probe_values_are_doubled() {
        let mut search = Search {
            start: 8,
            margin: 0.02,
            rounds: true,
            room: None,
            allocator: Allocator::Fixed,
            keeps_gradients: false,
            trials: Vec::new(),
        };
        let mut tried = Vec::new();
        while let Next::Run(value) = search.next() {
            tried.push(value);
            search.trials.push(Trial {
                value,
                seen: None,
                peak: None,
                fits: true,
            });
        }
        assert_eq!(tried, [2, 4, 8]);
        assert_eq!(search.next(), Next::Done(Answer::Proven(8)));
    }
}
