//! Which value `fit` tries next: a pure search in at most three runs.
//!
//! What PyTorch allocates is a line, which one small run foretells within a few percent and two runs
//! within a few tenths. What the allocator needs on top of it is not: 0 to 37 %, differently for
//! each program and batch. So the first run is small and shows the line; the second goes as near to
//! the limit as its most likely place allows, and shows what surely is enough there; the third goes
//! where little is left to be won. If it fails, what surely is enough is the answer, not proven.
//! (A prediction, `forecast::Allocator`, leans to the safe side; a search that did would stop short.)
//!
//! Where the first run's step could be rehearsed, its allocations are replayed for other values, and the
//! second run proves the answer; a third follows only if it fails.
//!
//! The numbers below were chosen on 22 limits measured on a GPU (`limits.toml`), from five starts
//! each: three of four answers are within 4 % of the largest that fits, more than half where the
//! first run shows only four fifths of the base; none is above it.

use super::seen_inputs::SeenInputs;
use crate::calibration::{EXPANDABLE, FEW_PIECES_NEED, FIXED, OVERHEAD_NEEDED_LIKELY};
use crate::forecast::{
    ActivationReduction, Allocator, Forecast, Model, Observation, Rehearsed, Target, edge, rounded,
};
use crate::units::Bytes;

/// Runs at most.
pub(crate) const RUNS: usize = 3;

/// Shares within this of each other are the same.
const SAME: f64 = 0.02;

/// Up to so many times the first run's value it foretells the limit well enough to go near it at
/// once.
const FORESEEN: f64 = 60.0;
/// So much short of the likely limit the second run mostly gets through.
const SHORT_OF: f64 = 0.9;
/// Up to so many times a run's value the allocator needs about as much more as that run did.
const CLOSE: f64 = 1.25;
/// Beyond what surely is enough so little is left that it is worth a run.
const WORTH: f64 = 1.03;
/// Of what a run showed to be enough, what surely is: near that run, and further away.
const SURELY: f64 = 0.99;
const NEAR: f64 = 1.12;
const FURTHER: f64 = 0.96;
/// Of the limit that the peak alone sets.
const OF_BARE: f64 = 0.97;
/// Of what was left reserved at an out-of-memory, what is needed.
const OF_LEFT: f64 = 0.98;
const SAFELY: f64 = 1.04;
/// Where that was not seen: its own factor is more than it had room for by so much, and again.
const MORE: f64 = 0.04;
const MUCH_MORE: f64 = 0.12;
/// And so much short of what failed: once, and where a run before had failed already.
const SHORTLY: f64 = 0.98;
const BACK: f64 = 0.94;

/// The share of the answer that a round number may cost.
const ROUNDING: f64 = 0.015;
/// From here on an odd number is more precise than anybody asks for.
const EVEN_FROM: u64 = 32;

/// What one run showed.
#[derive(Debug, Clone)]
pub(crate) struct Trial {
    /// The value tried.
    pub value: u64,
    /// What was seen of its memory; its batch is the value.
    pub seen: Option<Observation>,
    /// Its peak.
    pub peak: Option<Bytes>,
    /// The most that it reserved: where it got through, that was enough.
    pub reserved: Option<Bytes>,
    /// Whether it got through its steps.
    pub fits: bool,
    /// Whether it ended by itself: all of its steps were seen.
    pub ended: bool,
    /// When it began, if that was in an earlier session.
    pub began: Option<String>,
    /// How many those were.
    pub steps: u64,
    /// What they were given.
    pub inputs: Option<SeenInputs>,
    /// One of them, rehearsed; its batch is the value.
    pub rehearsed: Option<Rehearsed>,
}

/// The search so far.
#[derive(Debug, Clone)]
pub(crate) struct SizeSearch {
    /// The value in the command.
    pub start: u64,
    /// What is left free.
    pub margin: f64,
    /// Whether values are rounded as batches are.
    pub rounds: bool,
    /// What the process may reserve of the device, once a run has shown it.
    pub room: Option<Bytes>,
    /// A value that ran out of memory in an earlier session: the answer is below it.
    pub bound: Option<u64>,
    /// The value that what failed in an earlier session was expected to fit with: the search begins there.
    pub foreseen: Option<u64>,
    /// How the allocator holds its memory, as the first run said.
    pub allocator: Allocator,
    /// Whether gradients are kept through the forward.
    pub keeps_gradients: bool,
    /// The runs so far.
    pub trials: Vec<Trial>,
}

/// What follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SearchStep {
    /// A run with this value.
    Run(u64),
    /// The search is over.
    Done(SearchAnswer),
}

/// What is next to the largest value that ran, which no run has tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beyond {
    /// Up to this one the runs let expect that it may fit.
    MayFit(u64),
    /// It would need more than there is, the margin counted.
    TooLarge { next: u64, needs: Bytes },
}

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SearchAnswer {
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
enum IntervalEnd {
    Likely,
    High,
}

impl SizeSearch {
    /// What follows the runs so far.
    pub(crate) fn next(&self) -> SearchStep {
        match self.trials.as_slice() {
            [] => SearchStep::Run(self.first()),
            [only] => self.second(only),
            [_, latest] => self.third(latest),
            [.., latest] => self.last(latest),
        }
    }

    /// A quarter of what the command has shows a step whatever it needs; nearer to the answer is what an earlier failure foresaw.
    fn first(&self) -> u64 {
        let first = match self.foreseen {
            Some(foreseen) => self.round(foreseen),
            None => self.start / 4,
        };
        first.min(self.ceiling()).max(1).min(self.start)
    }

    fn second(&self, first: &Trial) -> SearchStep {
        if self.keeps_margin(first) && first.value >= self.ceiling() {
            return SearchStep::Done(SearchAnswer::Proven(first.value));
        }
        if !first.fits {
            if let Some(limit) = self.by_rehearsal(MUCH) {
                let value = self.round(limit).min(first.value - 1);
                return self.run_between(value, 0);
            }
            let smaller = self.largest(IntervalEnd::High, FIXED.1);
            let smaller = smaller.unwrap_or(first.value / 4).min(first.value / 2);
            return if first.value == 1 {
                SearchStep::Done(SearchAnswer::None)
            } else {
                SearchStep::Run(self.round(smaller.max(1)))
            };
        }
        if let Some(limit) = self.by_rehearsal(LITTLE) {
            return self.run_between(self.round(limit.min(self.ceiling())), first.value);
        }
        let Some(limit) = self.largest(IntervalEnd::Likely, self.factor()) else {
            // Its memory was not seen (no probe): doubling is all there is.
            return SearchStep::Run((first.value * 2).min(self.ceiling()));
        };
        if limit <= first.value {
            return SearchStep::Done(SearchAnswer::Proven(first.value));
        }
        let far = limit as f64 / first.value as f64;
        let value = if far <= FORESEEN {
            share(limit, SHORT_OF)
        } else {
            limit / 2
        };
        // Not so short of it that the run would show nothing new.
        SearchStep::Run(
            self.round(value.min(self.ceiling()))
                .max(self.round(limit).min(first.value + 1)),
        )
    }

    fn third(&self, latest: &Trial) -> SearchStep {
        let best = self.best().map(|best| best.value);
        let latest_fits = self.keeps_margin(latest);
        let spare = match (latest_fits, best) {
            (true, _) => LITTLE,
            (false, Some(_)) => MUCH,
            (false, None) => MOST,
        };
        if let Some(limit) = self.by_rehearsal(spare) {
            let value = self.round(limit).min(share(self.ceiling(), SHORTLY));
            return self.run_between(value, best.unwrap_or(0));
        }
        let Some(limit) = self.largest(IntervalEnd::Likely, self.factor()) else {
            return match best {
                Some(best) if latest_fits => self.run_between((best * 2).min(self.ceiling()), best),
                Some(best) => {
                    let middle = self.round((best + latest.value) / 2);
                    self.run_between(middle, best)
                }
                None => self.run_between(latest.value / 4, 0),
            };
        };
        let value = if latest_fits {
            let enough = self.enough().unwrap_or(0).max(latest.value);
            let bare = self.largest(IntervalEnd::Likely, 1.0).unwrap_or(limit);
            let worth = share(enough, WORTH).max(limit);
            worth
                .min(share(bare, OF_BARE).max(enough))
                .max(latest.value + 1)
        } else if best.is_some() {
            self.below(latest, OF_LEFT, MORE)
                .unwrap_or(limit)
                .min(share(latest.value, BACK))
        } else {
            share(limit, SHORT_OF).min(share(latest.value, SHORT_OF))
        };
        self.run_between(self.round(value.min(self.ceiling())), best.unwrap_or(0))
    }

    /// A run with a value that was not tried and is more than what is proven, else the end.
    fn run_between(&self, value: u64, best: u64) -> SearchStep {
        let tried = self.trials.iter().any(|trial| trial.value == value);
        if value <= best || tried || value >= self.ceiling().saturating_add(1) {
            return SearchStep::Done(if best > 0 {
                SearchAnswer::Proven(best)
            } else {
                SearchAnswer::None
            });
        }
        SearchStep::Run(value)
    }

    fn last(&self, latest: &Trial) -> SearchStep {
        let Some(best) = self.best().map(|best| best.value) else {
            return SearchStep::Done(SearchAnswer::None);
        };
        if self.keeps_margin(latest) {
            return SearchStep::Done(SearchAnswer::Proven(best));
        }
        // Not proven: what surely is enough, or what the run that failed shows, below what failed.
        let enough = self
            .enough()
            .map(|enough| match enough <= share(best, NEAR) {
                true => share(enough, SURELY),
                false => share(enough, FURTHER),
            });
        let expected = enough.max(self.below(latest, SAFELY, MUCH_MORE));
        let failed_twice = self.trials.iter().filter(|trial| !trial.fits).count() > 1;
        let short = if failed_twice { BACK } else { SHORTLY };
        let below = share(self.ceiling(), short).max(best);
        let expected = expected.map(|expected| self.round(expected.min(below)));
        SearchStep::Done(match expected.filter(|expected| *expected > best) {
            Some(expected) => SearchAnswer::Expected(expected),
            None => SearchAnswer::Proven(best),
        })
    }

    /// The run with the largest value that fits.
    pub(crate) fn best(&self) -> Option<&Trial> {
        let fitting = self.trials.iter().filter(|trial| self.keeps_margin(trial));
        fitting.max_by_key(|trial| trial.value)
    }

    /// The one rule of what fits: it got through, and its peak leaves the margin free. What ended by itself has shown all that it
    /// needs.
    pub(crate) fn keeps_margin(&self, trial: &Trial) -> bool {
        let leaves_it = match (trial.peak, self.room) {
            (Some(peak), Some(room)) => peak.scale(1.0 + self.margin) <= room,
            (_, _) => true,
        };
        trial.fits && (trial.ended || leaves_it)
    }

    /// The largest value that no run has ruled out.
    fn ceiling(&self) -> u64 {
        let failed = self.trials.iter().filter(|trial| !self.keeps_margin(trial));
        failed
            .map(|trial| trial.value)
            .chain(self.bound)
            .map(|value| value.saturating_sub(1))
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

    /// How much more than its peak a run at the limit likely needs.
    fn factor(&self) -> f64 {
        if self.allocator == Allocator::Expandable {
            return EXPANDABLE.1;
        }
        let likely = match self.most_reserved() {
            Some(most) => {
                let all = 1.0 + (most - 1.0) * OVERHEAD_NEEDED_LIKELY;
                if self.lies_in_few_pieces() {
                    all.min(FEW_PIECES_NEED.1)
                } else {
                    all
                }
            }
            None => FIXED.1,
        };
        self.sufficed().map_or(likely, |most| likely.min(most))
    }

    /// The most that any run reserved of its own accord, as a share of its peak.
    fn most_reserved(&self) -> Option<f64> {
        let overheads = self
            .trials
            .iter()
            .filter_map(|trial| trial.seen.as_ref()?.overhead);
        overheads.filter(|most| *most >= 1.0).reduce(f64::max)
    }

    /// Whether nearly all of that could be given back, by the largest run that nothing pressed.
    fn lies_in_few_pieces(&self) -> bool {
        let unpressed = self.trials.iter().filter_map(|trial| {
            let seen = trial.seen.as_ref()?;
            let reserved = trial.reserved?.fraction_of(trial.peak?)?;
            (seen.overhead? > reserved - SAME).then_some((trial.value, seen))
        });
        let largest = unpressed.max_by_key(|(value, _)| *value);
        largest.is_some_and(|(_, seen)| seen.lies_in_few_pieces())
    }

    /// How much more than its peak was enough for the largest run that got through.
    fn sufficed(&self) -> Option<f64> {
        let best = self.best()?;
        let sufficed = best.reserved?.fraction_of(best.peak?)?;
        Some(sufficed.max(1.0))
    }

    /// The largest value that fits if it needs as much more than its peak as was enough there; further
    /// away, as much as any run reserved.
    fn enough(&self) -> Option<u64> {
        let sufficed = self.sufficed()?;
        let enough = self.largest(IntervalEnd::Likely, sufficed)?;
        if enough <= share(self.best()?.value, CLOSE) {
            return Some(enough);
        }
        let most = match self.lies_in_few_pieces() {
            true => sufficed,
            false => self.most_reserved().unwrap_or(sufficed).max(sufficed),
        };
        self.largest(IntervalEnd::Likely, most)
    }

    /// The largest value that the runs let expect to fit with the same margin, where the largest that ran is smaller.
    pub(crate) fn further(&self) -> Option<u64> {
        let best = self.best()?.value;
        let foretold = self.by_rehearsal(LITTLE).or_else(|| self.enough())?;
        let further = foretold.min(self.ceiling());
        (further > best).then_some(further)
    }

    /// What the two largest runs that got through say of the next larger values, as their peaks go on; `None` where the
    /// next one is known to fail, or they show no line.
    pub(crate) fn beyond(&self) -> Option<Beyond> {
        let mut ran: Vec<(u64, Bytes)> = (self.trials.iter())
            .filter(|trial| trial.fits)
            .filter_map(|trial| Some((trial.value, trial.peak?)))
            .collect();
        ran.sort_unstable();
        let [.., (smaller, less), (best, most)] = ran.as_slice() else {
            return None;
        };
        let for_each = (most.0.checked_sub(less.0)?) as f64 / (best - smaller).max(1) as f64;
        let room = self.room?;
        let needs = |value: u64| {
            let more = for_each * (value - best) as f64;
            Bytes((most.0 as f64 + more) as u64).scale(1.0 + self.margin)
        };
        if for_each <= 0.0 || *best >= self.ceiling() || self.best()?.value != *best {
            return None;
        }
        let next = best + 1;
        if needs(next) > room {
            return Some(Beyond::TooLarge {
                next,
                needs: needs(next),
            });
        }
        let more = (room.0 as f64 / (1.0 + self.margin) - most.0 as f64) / for_each;
        let further = (best + more as u64).clamp(next, self.ceiling());
        Some(Beyond::MayFit(further))
    }

    /// The largest value that fits by a run that failed: with what was left reserved there when all
    /// was given back that could be, which is a little more than what is needed; where that was not
    /// seen, with so much more than it had room for.
    fn below(&self, failed: &Trial, of_left: f64, more: f64) -> Option<u64> {
        let (peak, _) = self.expected(&self.model(), failed.value)?;
        let had = self.room?.fraction_of(peak.scale(1.0 + self.margin))?;
        let left = failed.seen.as_ref().and_then(|seen| seen.left_over);
        let factor = match left.filter(|left| *left >= 1.0) {
            Some(left) => (left * of_left).max(had),
            None => self.factor().max(had + more),
        };
        self.largest(IntervalEnd::Likely, factor)
    }

    fn model(&self) -> Model {
        let seen = self.trials.iter().filter_map(|trial| trial.seen.clone());
        Model::new(seen.collect())
    }

    /// The peak of a value, likely and at the most.
    fn expected(&self, model: &Model, value: u64) -> Option<(Bytes, Bytes)> {
        match model.peak(&self.target(value)) {
            Forecast::Within(peak) | Forecast::Extrapolated(peak, _) => {
                Some((peak.likely, peak.high))
            }
            Forecast::AtLeast(..) | Forecast::Unknown => None,
        }
    }

    /// The largest value whose peak, so many times and with the margin, is within the room.
    fn largest(&self, end: IntervalEnd, factor: f64) -> Option<u64> {
        let room = self.room?;
        let seen = self.trials.iter().filter(|trial| trial.seen.is_some());
        let most = seen.map(|trial| trial.value).max()?.saturating_mul(256);
        let model = self.model();
        let fits = |value: u64| {
            let peak = self
                .expected(&model, value)
                .map(|(likely, high)| match end {
                    IntervalEnd::Likely => likely,
                    IntervalEnd::High => high,
                });
            peak.is_some_and(|peak| peak.scale(factor * (1.0 + self.margin)) <= room)
        };
        match edge(most, fits) {
            0 => (model.whole_runs() > 0).then_some(1),
            largest => Some(largest),
        }
    }
}

/// What a rehearsed step may be off by, once the run it was taken from has shown by how much: in
/// the second run, and in a third where that failed; and where none has run yet. Two decoders under a
/// cap needed what was replayed to within 0.3 %: the largest batch that ran was the largest replayed.
const LITTLE: f64 = 0.002;
const MUCH: f64 = 0.03;
const MOST: f64 = 0.2;
/// What a rehearsed step may be off by where no run will try it: four answers for capped cards were the truth, and the next larger
/// batch needed 0.4 % more. Where there are convolutions, cuDNN takes its workspaces as there is room.
const UNTRIED: f64 = 0.003;
const UNTRIED_CONVOLUTIONS: f64 = 0.03;
/// By how much the run's own peak may differ from its rehearsed one for it to be believed.
const BELIEVED: std::ops::Range<f64> = 0.9..1.35;

impl SizeSearch {
    /// The largest value whose rehearsed step runs in the room, with so much to spare. What the run
    /// had allocated beyond its rehearsal the others will have, too, unless it is of convolutions: where
    /// there was room, a U-Net took 27 % more than was rehearsed, and at its limit 1 % less.
    fn by_rehearsal(&self, spare: f64) -> Option<u64> {
        self.limit_in(self.room?, spare)?
    }

    /// The largest value for a room that was not tried, if there is one; `None` where no rehearsal can
    /// say.
    pub(in crate::live::policy::fit) fn on(&self, room: Bytes) -> Option<Option<u64>> {
        let mut rehearsed = self
            .trials
            .iter()
            .filter_map(|trial| trial.rehearsed.as_ref());
        let spare = match rehearsed.any(Rehearsed::has_convolutions) {
            true => UNTRIED_CONVOLUTIONS,
            false => UNTRIED,
        };
        let limit = self.limit_in(room, spare)?;
        Some(limit.map(|limit| self.round(limit)))
    }

    fn limit_in(&self, room: Bytes, spare: f64) -> Option<Option<u64>> {
        let rehearsed = self.trials.iter().filter(|trial| trial.rehearsed.is_some());
        // Of those that ran the largest, whose kernels chose as they will near the limit.
        let trial = rehearsed.max_by_key(|trial| (trial.fits, trial.value))?;
        let rehearsed = trial.rehearsed.as_ref()?;
        if rehearsed.input_sizes().is_some() {
            // Another step's inputs may be larger than those of the step that was rehearsed.
            return None;
        }
        let of = |batch| self.target(batch);
        let foretold = rehearsed.peak(&of(trial.value))?.low;
        let off = match trial.fits {
            true => trial.peak?.fraction_of(foretold)?,
            false => 1.0,
        };
        if !BELIEVED.contains(&off) {
            return None;
        }
        let most = trial.value.saturating_mul(4096);
        let more = match rehearsed.has_convolutions() {
            true => 1.0,
            false => off.max(1.0),
        };
        let room = room.scale(1.0 / (more * (1.0 + self.margin.max(spare))));
        let limit = edge(most, |batch| {
            rehearsed.runs_in(&of(batch), room) == Some(true)
        });
        Some((limit > 0).then_some(limit))
    }

    fn target(&self, batch: u64) -> Target {
        Target {
            batch,
            keeps_gradients: self.keeps_gradients,
            treatment: ActivationReduction::default(),
            allocator: self.allocator,
        }
    }
}

#[cfg(test)]
mod tests;
