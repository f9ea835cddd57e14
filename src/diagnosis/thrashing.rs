//! Thrashing: the allocator runs full, flushes its cache and retries, step after step, and the GPU
//! waits each time. It precedes many OOMs, and costs time even without one.

use super::baseline_growth::median;
use super::finding::sentence;
use super::oom_context::OomContext;
use super::{Cause, CauseSpec, Certainty, Finding, Help};
use crate::state::{StepMark, StepTrack};

pub(super) const CAUSE: CauseSpec =
    CauseSpec::new("allocator thrashing", examine).prefers(Help::NoFragmentation);

/// The number of latest steps to examine.
const WINDOW: usize = 10;

/// The minimum number of them with retries: one or two are a change of shapes.
const STEPS_WITH_RETRIES: usize = 4;

/// The minimum number of steps before them, for comparison.
const FEWEST_BEFORE: usize = 5;

/// How many times as long as before a step must take.
const SLOWER: f64 = 1.15;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Thrash {
    /// Retries in the latest steps.
    pub(super) retries: u64,
    /// The number of steps with retries.
    pub(super) steps: u64,
    /// How many times as long a step takes as before; `None` if there were none before.
    pub(super) slower: Option<f64>,
}

/// Whether the latest steps thrash: retries in most of them, and, if there were steps without
/// retries before, a longer duration.
pub(super) fn thrash(steps: &StepTrack) -> Option<Thrash> {
    let marks = &steps.marks.ended;
    let at = marks.len().checked_sub(WINDOW + 1)?;
    let (before, window) = (&marks[..=at], &marks[at..]);
    let with_retries = window
        .windows(2)
        .filter(|pair| pair[1].retries > pair[0].retries);
    if with_retries.count() < STEPS_WITH_RETRIES {
        return None;
    }
    let calm: Vec<&[StepMark]> = before
        .windows(2)
        .filter(|pair| pair[1].retries == pair[0].retries && pair[0].count > 1)
        .collect();
    let mut usual: Vec<f64> = calm.iter().filter_map(|pair| seconds(pair)).collect();
    let mut now: Vec<f64> = window.windows(2).filter_map(seconds).collect();
    let slower = if usual.len() < FEWEST_BEFORE {
        None
    } else {
        let slower = median(&mut now)? / median(&mut usual)?;
        if slower < SLOWER {
            return None;
        }
        Some(slower)
    };
    let (first, last) = (window.first()?, window.last()?);
    Some(Thrash {
        retries: last.retries - first.retries,
        steps: last.count - first.count,
        slower,
    })
}

/// The duration of a step; readings may have skipped steps.
fn seconds(pair: &[StepMark]) -> Option<f64> {
    let [before, after] = pair else { return None };
    let steps = after.count.checked_sub(before.count).filter(|n| *n > 0)?;
    let seconds = after.at.since(before.at).as_secs_f64() / steps as f64;
    (seconds > 0.0).then_some(seconds)
}

impl Thrash {
    /// "the allocator ran full, flushed its cache and retried 14 times in the last 10 steps, which
    /// take 1.6 times as long".
    pub(super) fn words(&self) -> String {
        let slower = self.slower.map_or(String::new(), |slower| {
            format!(", which now take {slower:.1}× as long")
        });
        format!(
            "the allocator ran full, flushed its cache and retried {} times in the last {} steps{slower}",
            self.retries, self.steps
        )
    }
}

/// What helps, where expandable segments can be turned on or not.
pub(super) fn advice(has_segments: bool) -> impl Iterator<Item = &'static str> {
    let smaller = "a slightly smaller batch: the training is at the edge of what fits";
    let segments = "expandable segments, which waste less of the cache";
    [Some(smaller), has_segments.then_some(segments)]
        .into_iter()
        .flatten()
}

fn examine(case: &OomContext) -> Option<Finding> {
    let rank = case.rank?;
    // It is true, but only shows that the end was near.
    let certainty = Certainty::Possible;
    let headline = sentence(&thrash(&rank.steps)?.words());
    Some(
        case.finding(Cause::Thrashing, certainty, headline)
            .says("It ran at the edge of what fits until one allocation found no room at all.")
            .shows([("largest reserved", rank.reserved_peak)])
            .advises(advice(case.has_expandable_segments())),
    )
}
