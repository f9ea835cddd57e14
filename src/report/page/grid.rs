//! The moments between which the chart has a value: finer in runs and around OOMs than over a night
//! of waiting, and never more than a page can take.

use crate::report::story::SessionStory;
use crate::units::Moment;
use std::time::Duration;

/// Parts of the whole session, of a run, and of the time around an OOM.
const WHOLE: u64 = 1_600;
const OF_A_RUN: u64 = 500;
const AROUND_AN_OOM: u64 = 160;

/// Runs and OOMs with a finer grid: the latest.
const FINER: usize = 6;

/// The time around an OOM that one wants to zoom into.
const AROUND: Duration = Duration::from_secs(10);

/// In order, without repetitions; at least two.
pub(super) fn moments(story: &SessionStory) -> Vec<Moment> {
    let end = Moment(story.state.now.0.max(1) + 1);
    let mut all = Vec::new();
    part(&mut all, Moment::ZERO, end, WHOLE);
    for run in story.state.runs.iter().rev().take(FINER) {
        let ended = run.ended.map_or(end, |(at, _)| at).min(end);
        part(&mut all, run.started, ended, OF_A_RUN);
        // A run's start and end are where its curves begin and end.
        all.extend([run.started, ended]);
    }
    for oom in story.ooms.iter().rev().take(FINER) {
        let at = oom.incident.at;
        let from = Moment(at.0.saturating_sub(AROUND.as_micros() as u64));
        part(&mut all, from, (at + AROUND).min(end), AROUND_AN_OOM);
        all.push(at);
    }
    all.retain(|at| *at <= end);
    all.sort_unstable();
    all.dedup();
    all
}

fn part(all: &mut Vec<Moment>, from: Moment, to: Moment, parts: u64) {
    let span = to.0.saturating_sub(from.0);
    // A millisecond is finer than anything that was sampled.
    let parts = parts.min(span / 1_000).max(1);
    all.extend(
        (0..=parts).map(|n| {
            Moment(from.0 + (u128::from(span) * u128::from(n) / u128::from(parts)) as u64)
        }),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_has_no_more_parts_than_a_page_takes() {
        let mut story = SessionStory::default();
        story.state.now = Moment::from_secs_f64(86_400.0);
        let all = moments(&story);
        assert!((1_500..1_700).contains(&all.len()), "{}", all.len());
        assert!(all.windows(2).all(|pair| pair[0] < pair[1]));
        story.state.now = Moment::ZERO;
        assert!(moments(&story).len() >= 2);
    }
}
