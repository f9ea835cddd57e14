//! Whether what stays allocated between steps climbs from step to step, and how steadily.
//!
//! The baselines (allocated after each step) are fitted with a line whose slope is the median of the
//! slopes of all pairs (Theil–Sen), so that single high baselines move nothing. A climb counts only
//! if it stands out of the scatter and goes on to the end: a warm-up that levels off is none. Nor
//! is one a baseline that only follows larger and larger batches, whose last outputs a loop still
//! holds when its step has ended.

use crate::state::{StepMark, StepTrack};
use crate::units::Bytes;

/// Steps at the beginning that tell nothing: the optimizer's state comes in the first, caches and
/// workspaces in the next ones.
pub(super) const WARM_UP: u64 = 3;

/// The fewest baselines that are fitted where they climb by much of the GPU.
const FEWEST: usize = 10;

/// The share of the GPU that is much.
const MUCH: f64 = 0.1;

/// The fewest baselines otherwise: caches and workspaces may take as many steps to fill.
const FEWEST_OF_LITTLE: usize = 20;

/// The most baselines that are fitted, evenly chosen: pairs grow with the square.
const MOST: usize = 96;

/// A climb counts from this share of the GPU on (or of the last baseline, where the GPU is not
/// known), over the whole fit.
const NOTABLE: f64 = 0.01;

/// How far the baselines may scatter around the line, as a share of the climb.
const SCATTER: f64 = 0.15;

/// How steep the last third must still be, as a share of what came before it: what levels off is
/// no climb.
const GOES_ON: f64 = 0.7;

/// How steep what came before it must be, as a share of the whole: what rose once, late, is none.
const WENT_ON: f64 = 0.5;

/// How much faster than the baseline what a step takes on top of it may grow for the baseline to be
/// leaking, and not following the size of the batches.
const WITH_THE_BATCH: f64 = 0.5;

/// The share of the pairs of baselines that lie outside the range given for the slope, on each side.
const OUTSIDE: f64 = 0.05;

/// A baseline that climbs steadily.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BaselineGrowth {
    /// Bytes a step.
    pub per_step: f64,
    /// The same as a range, by pairs of baselines that are at least half of the fit apart.
    pub slopes: (f64, f64),
    /// Over how many steps it was fitted.
    pub steps: u64,
    /// What has come in these steps together.
    pub total: Bytes,
    /// Where the line stands at the last step.
    pub level: f64,
    /// How far the baselines lie below and above the line at most, nearly.
    pub scatter: (f64, f64),
}

/// The climb of a process's baselines, or nothing where there is none or the fit is poor. `card` is
/// what a climb is measured against.
pub fn baseline_growth(steps: &StepTrack, card: Option<Bytes>) -> Option<BaselineGrowth> {
    let found = fit(&steps.baselines, card)?;
    (!follows_the_batch(&steps.marks.ended, &found)).then_some(found)
}

fn fit(baselines: &[(u64, Bytes)], card: Option<Bytes>) -> Option<BaselineGrowth> {
    let warm: Vec<(f64, f64)> = baselines
        .iter()
        .filter(|(step, _)| *step > WARM_UP)
        .map(|(step, baseline)| (*step as f64, baseline.0 as f64))
        .collect();
    if warm.len() < FEWEST {
        return None;
    }
    let points = thinned(&warm);
    let slope = theil_sen(&points)?;
    let (first, last) = (points.first()?.0, points.last()?.0);
    let total = slope * (last - first);
    let against = card.map_or(points.last()?.1, |card| card.0 as f64);
    let little = total < MUCH * against;
    if total <= 0.0 || total < NOTABLE * against || little && warm.len() < FEWEST_OF_LITTLE {
        return None;
    }
    let mut offsets: Vec<f64> = points.iter().map(|(x, y)| y - slope * x).collect();
    let middle = median(&mut offsets)?;
    let mut off: Vec<f64> = offsets.iter().map(|offset| offset - middle).collect();
    let mut distances: Vec<f64> = off.iter().map(|off| off.abs()).collect();
    if median(&mut distances)? > SCATTER * total {
        return None;
    }
    // The last third by itself, and what came over the first two thirds.
    let third = points.len() / 3;
    let tail = &points[points.len() - third..];
    let head = &points[..points.len() - third];
    let before = theil_sen(head)?;
    if before < WENT_ON * slope || theil_sen(tail)? < GOES_ON * before {
        return None;
    }
    Some(BaselineGrowth {
        per_step: slope,
        slopes: range(long_slopes(&points, (last - first) / 2.0))?,
        steps: (last - first) as u64,
        total: Bytes(total as u64),
        level: middle + slope * last,
        scatter: range(std::mem::take(&mut off))?,
    })
}

/// Whether what steps take on top of the baseline grows as the baseline does: sorted or ever longer
/// batches, of which the loop holds the last outputs.
fn follows_the_batch(marks: &[StepMark], climb: &BaselineGrowth) -> bool {
    let exact: Vec<(f64, f64)> = marks
        .iter()
        .filter(|mark| mark.is_exact && mark.count > 1)
        .map(|mark| {
            let on_top = mark.peak.0 as f64 - mark.baseline.0 as f64;
            (mark.count as f64, on_top)
        })
        .collect();
    let over = exact.last().map_or(0.0, |last| last.0) - exact.first().map_or(0.0, |at| at.0);
    if over * 3.0 < climb.steps as f64 {
        // Too few to tell: with the batches as they are no step after the first has a new peak.
        return false;
    }
    let points = thinned(&exact);
    theil_sen(&points).is_some_and(|slope| slope > WITH_THE_BATCH * climb.per_step)
}

/// At most [`MOST`] of the points, evenly chosen, the last one always.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let stride = points.len().div_ceil(MOST);
    let mut chosen: Vec<_> = points.iter().rev().step_by(stride).copied().collect();
    chosen.reverse();
    chosen
}

/// The median of the slopes of all pairs.
fn theil_sen(points: &[(f64, f64)]) -> Option<f64> {
    median(&mut long_slopes(points, 0.0))
}

/// The slopes of the pairs that are at least so far apart.
fn long_slopes(points: &[(f64, f64)], apart: f64) -> Vec<f64> {
    let mut slopes = Vec::with_capacity(points.len() * points.len() / 2);
    for (i, (x, y)) in points.iter().enumerate() {
        for (later_x, later_y) in &points[i + 1..] {
            if later_x > x && later_x - x >= apart {
                slopes.push((later_y - y) / (later_x - x));
            }
        }
    }
    slopes
}

pub(super) fn median(values: &mut [f64]) -> Option<f64> {
    let middle = values.len() / 2;
    if values.is_empty() {
        return None;
    }
    let (_, median, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    Some(*median)
}

/// Between what nearly all of the values lie.
fn range(mut values: Vec<f64>) -> Option<(f64, f64)> {
    values.sort_by(f64::total_cmp);
    let outside = (values.len() as f64 * OUTSIDE) as usize;
    let last = values.len().checked_sub(1)?;
    Some((*values.get(outside)?, *values.get(last - outside)?))
}
