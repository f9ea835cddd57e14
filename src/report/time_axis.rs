//! The time axis of a session's charts: long waits between runs are left out.

use crate::state::{DeviceState, Run, SeriesBucket, State, StepBand, stay_below};
use crate::units::Moment;
use std::time::Duration;

/// The time axis. Between two runs somebody may have slept: what nobody wants to look at is left out of it.
pub(super) struct TimeAxis {
    /// From when to when each stretch is cut.
    pub cuts: Vec<(Moment, Moment)>,
    /// Seconds that stand for each.
    shown: f64,
}

/// The share of what is drawn that stands for a wait.
const SHOWN_OF_A_WAIT: f64 = 0.02;
/// A wait is cut if it takes more than this share of the time that something ran, …
const LONG: f64 = 0.1;
/// … and more than this.
const NOTICED: Duration = Duration::from_secs(60);
/// What is left of it before and after.
const LEFT_OF_A_WAIT: Duration = Duration::from_secs(2);

impl TimeAxis {
    pub fn new(state: &State) -> TimeAxis {
        let ended = |run: &Run| run.ended.map_or(state.now, |(at, _)| at);
        let ran: Duration = (state.runs.iter())
            .map(|run| ended(run).since(run.started))
            .sum();
        let starts = state.runs.iter().skip(1).map(|run| run.started);
        let waits = state.runs.iter().map(ended).zip(starts.chain([state.now]));
        let least = NOTICED.max(ran.mul_f64(LONG));
        let cuts = waits
            .filter(|(from, to)| to.since(*from) > least)
            .map(|(from, to)| {
                let end = to.0.saturating_sub(LEFT_OF_A_WAIT.as_micros() as u64);
                (from + LEFT_OF_A_WAIT, Moment(end))
            })
            .collect();
        TimeAxis {
            cuts,
            shown: (ran.as_secs_f64() * SHOWN_OF_A_WAIT).max(1.0),
        }
    }

    /// That of the runs alone, one after the other.
    pub fn of_runs(state: &State) -> TimeAxis {
        let ended = |run: &Run| run.ended.map_or(state.now, |(at, _)| at);
        let starts = state.runs.iter().map(|run| run.started);
        let ends = std::iter::once(Moment::ZERO).chain(state.runs.iter().map(ended));
        let waits = ends.zip(starts.chain([state.now]));
        TimeAxis {
            cuts: waits.filter(|(from, to)| to > from).collect(),
            shown: 0.0,
        }
    }

    /// Whether it has this moment.
    pub fn has(&self, at: Moment) -> bool {
        let mut cuts = self.cuts.iter();
        !cuts.any(|(from, to)| at > *from && at < *to)
    }

    pub fn seconds(&self, at: Moment) -> f64 {
        let before = self.cuts.iter().filter(|(_, to)| at >= *to);
        let left_out: f64 = before.map(|cut| self.left_out(cut)).sum();
        let inside = self.cuts.iter().find(|(from, to)| at > *from && at < *to);
        let at = inside.map_or(at, |(from, _)| *from);
        to_the_millisecond(at.as_secs_f64() - left_out)
    }

    pub fn left_out(&self, (from, to): &(Moment, Moment)) -> f64 {
        (to.since(*from).as_secs_f64() - self.shown).max(0.0)
    }

    /// What is allocated in each part of the time, as the screen draws it: steps as a band, where a chart of so many columns is too
    /// narrow to tell them apart, since a look at the allocator falls on any part of a step. `bounds` are those of the parts.
    pub fn allocated(
        &self,
        state: &State,
        device: &DeviceState,
        bounds: &[Moment],
        columns: f64,
    ) -> Vec<Option<SeriesBucket>> {
        let mut parts = device.allocated.between(bounds);
        self.over_steps(state, device, bounds, columns, &mut parts);
        stay_below(&mut parts, &device.reserved.between(bounds));
        parts
    }

    fn over_steps(
        &self,
        state: &State,
        device: &DeviceState,
        bounds: &[Moment],
        columns: f64,
        parts: &mut [Option<SeriesBucket>],
    ) {
        let (Some(first), Some(last)) = (bounds.first(), bounds.last()) else {
            return;
        };
        // Without the waits that the axis leaves out.
        let all_us = (self.seconds(*last) - self.seconds(*first)) * 1e6;
        for band in StepBand::all(state, device) {
            if band.is_told_apart(all_us / columns) {
                continue;
            }
            let part_us = (all_us / parts.len().max(1) as f64).max(1.0);
            band.draw(parts, part_us, |at| {
                let after = bounds.partition_point(|bound| *bound <= at);
                (after.saturating_sub(1), after > 0 && after < bounds.len())
            });
        }
    }

    /// The moment that stands there.
    pub fn moment(&self, seconds: f64) -> Moment {
        let mut left_out = 0.0;
        for cut in &self.cuts {
            let begin = self.seconds(cut.0);
            if seconds <= begin {
                break;
            }
            if seconds < self.seconds(cut.1) {
                return cut.0;
            }
            left_out += self.left_out(cut);
        }
        Moment(((seconds + left_out) * 1e6) as u64)
    }
}

/// To the millisecond.
pub(super) fn to_the_millisecond(seconds: f64) -> f64 {
    (seconds * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::story::SessionStory;

    #[test]
    fn the_runs_alone_stand_side_by_side() {
        let mut state = SessionStory::new(crate::report::recorded("capacity")).state;
        let first = state.runs[0].clone();
        let (ended, exit) = first.ended.expect("an end");
        let mut second = first.clone();
        second.started = ended + Duration::from_secs(7);
        state.now = second.started + Duration::from_secs(60);
        second.ended = Some((second.started + Duration::from_secs(50), exit));
        state.runs = vec![first.clone(), second.clone()];
        let axis = TimeAxis::of_runs(&state);
        let took = ended.since(first.started).as_secs_f64();
        let near = |one: f64, other: f64| (one - other).abs() < 0.01;
        assert!(near(axis.seconds(first.started), 0.0));
        assert!(near(axis.seconds(second.started), took));
        assert!(near(axis.seconds(state.now), took + 50.0));
        let at = second.started + Duration::from_secs(20);
        assert!(axis.moment(axis.seconds(at)).0.abs_diff(at.0) < 2_000);
    }

    #[test]
    fn a_moment_is_found_again_behind_what_was_left_out() {
        let mut state = SessionStory::new(crate::report::recorded("capacity")).state;
        let mut second = state.runs[0].clone();
        let (ended, exit) = state.runs[0].ended.expect("an end");
        second.started = ended + Duration::from_secs(9 * 3_600);
        state.now = second.started + Duration::from_secs(50);
        second.ended = Some((state.now, exit));
        state.runs.push(second.clone());
        let axis = TimeAxis::new(&state);
        for at in [Moment(2_000_000), second.started + Duration::from_secs(20)] {
            let found = axis.moment(axis.seconds(at));
            assert!(found.0.abs_diff(at.0) < 2_000, "{at:?}: {found:?}");
        }
        // All of the wait is one place.
        let (from, to) = axis.cuts[0];
        let middle = (axis.seconds(from) + axis.seconds(to)) / 2.0;
        assert_eq!(axis.moment(middle), from);
    }
}
