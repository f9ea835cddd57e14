//! Whether memory allocated between steps grows from step to step, and how steadily.
//!
//! The baselines (allocated after each step) are fitted with a line whose slope is the median of
//! the slopes of all pairs (Theil–Sen), so that outliers have no effect. Growth only counts if it
//! exceeds the scatter and continues to the end, unlike a warm-up. Nor does a baseline count that
//! only follows larger and larger batches, since a loop still has the last batch's outputs when its
//! step has ended.

use crate::state::{RankState, Run, StepMark, StepTrack};
use crate::units::Bytes;

/// The first steps are ignored: the optimizer's state is allocated in the first one, caches and
/// workspaces in the next ones.
pub(super) const WARM_UP: u64 = 3;

/// The minimum number of baselines if they grow by much of the GPU.
const FEWEST: usize = 10;

/// The share of the GPU that counts as much.
const MUCH: f64 = 0.1;

/// The minimum otherwise: caches and workspaces may take that many steps to fill.
pub(super) const FEWEST_OF_LITTLE: usize = 20;

/// The maximum number of fitted baselines, evenly chosen: pairs grow quadratically.
const MOST: usize = 96;

/// The minimum growth over the fit, as a share of the GPU (or of the last baseline, if the GPU is
/// unknown).
const NOTABLE: f64 = 0.01;

/// Baselines that differ by less than this share have not grown by a notable one: half of the pairs rise
/// by the median slope, and some of them span a quarter of the fit. Nearly every training's baselines do,
/// and need no fit.
const STILL: f64 = NOTABLE / 4.0;

/// The maximum scatter of the baselines around the line, as a share of the growth.
const SCATTER: f64 = 0.15;

/// The minimum slope of the last third, as a share of the slope before: growth that levels off does
/// not count.
const GOES_ON: f64 = 0.7;

/// The minimum slope before, as a share of the whole: a single late jump does not count.
const WENT_ON: f64 = 0.5;

/// If what steps take on top of the baseline grows by more than this share of the baseline's growth,
/// the baseline follows the batches and is no leak.
const WITH_THE_BATCH: f64 = 0.5;

/// The share of baseline pairs outside of the range given for the slope, on each side.
const OUTSIDE: f64 = 0.05;

/// A baseline that grows steadily.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BaselineGrowth {
    /// Bytes per step.
    pub per_step: f64,
    /// The range of that growth, by pairs of baselines at least half of the fit apart.
    pub slopes: (f64, f64),
    /// The number of steps that were fitted.
    pub steps: u64,
    /// The growth in these steps, in total.
    pub total: Bytes,
    /// The fitted line at the last step.
    pub level: f64,
    /// How far the baselines are below and above the line, without outliers.
    pub scatter: (f64, f64),
}

impl BaselineGrowth {
    /// By these steps.
    pub fn so_far(&self, steps: &StepTrack) -> GrownSoFar {
        let oldest = steps.baselines.first().map(|(step, _)| *step);
        let from = match self.leads_back_to(&steps.baselines).unwrap_or(WARM_UP) {
            1 => 0,
            // It was already growing before the oldest recorded baseline.
            from if Some(from) == oldest => from.min(WARM_UP),
            from => from,
        };
        let over = steps.count.saturating_sub(from);
        GrownSoFar {
            bytes: Bytes((self.per_step * over as f64) as u64),
            over,
            to: steps.count,
        }
    }

    /// The step that the growth goes back to: the first one that was fitted, or one of the warm-up from which on all lie on the
    /// line, up to half a step's growth.
    fn leads_back_to(&self, baselines: &[(u64, Bytes)]) -> Option<u64> {
        let (last, _) = *baselines.last()?;
        let fitted = baselines.partition_point(|(step, _)| *step <= WARM_UP);
        let (first_fitted, _) = *baselines.get(fitted)?;
        let (below, above) = self.scatter;
        let off = (self.per_step / 2.0).max(-below).max(above);
        let on_the_line = |(step, baseline): &&(u64, Bytes)| {
            let line = self.level - self.per_step * (last - step) as f64;
            (baseline.0 as f64 - line).abs() <= off
        };
        let back = baselines[..fitted].iter().rev().take_while(on_the_line);
        Some(back.last().map_or(first_fitted, |(step, _)| *step))
    }
}

/// What has grown in all, and over which steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GrownSoFar {
    pub bytes: Bytes,
    /// Of how many steps, up to the latest.
    pub over: u64,
    /// The latest.
    pub to: u64,
}

impl GrownSoFar {
    pub fn per_step(&self) -> Bytes {
        Bytes(self.bytes.0.checked_div(self.over).unwrap_or_default())
    }

    /// "+172 MiB × 104 steps = 17.4 GiB": the one sum that a leak is told by.
    pub fn sum(&self) -> String {
        let (per_step, over, bytes) = (self.per_step(), self.over, self.bytes);
        let sum = format!("+{per_step} × {over} steps = {bytes}");
        match self.to.saturating_sub(over) {
            0 => sum,
            from => format!("{sum}, from step {from} on"),
        }
    }

    /// "in 17 steps", "from step 4 to step 17"
    fn span(&self) -> String {
        let to = self.to;
        match to.saturating_sub(self.over) {
            0 => format!("in {to} steps"),
            from => format!("from step {from} to step {to}"),
        }
    }

    /// "What is allocated after each step has grown steadily over all 17 steps."
    pub(super) fn sentence(&self) -> String {
        let over = match self.to == self.over {
            true => format!("over all {} steps", self.to),
            false => self.span(),
        };
        format!("What is allocated after each step has grown steadily {over}.")
    }
}

/// The growth of a process's baselines; `None` if there is none or the fit is poor. `card` is the
/// GPU's capacity, which growth is compared with.
pub fn baseline_growth(steps: &StepTrack, card: Option<Bytes>) -> Option<BaselineGrowth> {
    let found = fit(&steps.baselines, card)?;
    (!follows_the_batch(&steps.marks.ended, &found)).then_some(found)
}

/// What is allocated between steps grows by so much a step, in the process of a run that grows most.
pub fn grows_by(run: &Run) -> Option<Bytes> {
    let of_rank = |rank: &RankState| {
        let card = rank.hello.devices.iter().map(|device| device.total).min();
        baseline_growth(&rank.steps, card).map(|growth| Bytes(growth.per_step as u64))
    };
    run.ranks.iter().filter_map(of_rank).max()
}

/// Whether it has grown with every step so far, and some more are needed to tell for certain whether that is a leak.
pub fn may_grow(run: &Run) -> bool {
    run.ranks.iter().any(|rank| has_risen_so_far(&rank.steps))
}

pub(super) fn has_risen_so_far(steps: &StepTrack) -> bool {
    let warm = steps.baselines.iter();
    let warm: Vec<Bytes> = warm
        .filter(|(step, _)| *step > WARM_UP)
        .map(|(_, baseline)| *baseline)
        .collect();
    warm.len() < FEWEST_OF_LITTLE && warm.len() > 2 && warm.is_sorted_by(|one, next| one < next)
}

/// Steps over which a baseline that stayed the same is called steady, and as many came before.
const STEADY_FOR: u64 = 20;

/// The contents of a buffer that has filled differ from step to step by less than this share of them.
const FULL_BUFFER: f64 = 0.05;

/// They are at least this part of all: a buffer that has filled is steady again once it stays so for a while.
const STEADY_PART: u64 = 8;

/// What is allocated between steps, where that has stayed the same for a while. Growth that has ended is steady again.
pub fn steady_baseline(steps: &StepTrack, card: Option<Bytes>) -> Option<Bytes> {
    let (last, level) = *steps.baselines.last()?;
    let since = WARM_UP.max(last.saturating_sub(STEADY_FOR.max(last / STEADY_PART)));
    let against = card.map_or(level.0 as f64, |card| card.0 as f64);
    let warm = steps.baselines.iter().filter(|(step, _)| *step > WARM_UP);
    let warm: Vec<(f64, f64)> = warm
        .map(|(step, baseline)| (*step as f64, baseline.0 as f64))
        .collect();
    // Of short steps only some are read.
    let recent = warm.partition_point(|(step, _)| *step < since as f64);
    let points = &warm[recent.min(warm.len().saturating_sub(FEWEST))..];
    let grown = range_of(&warm);
    // What is put into a full buffer and taken out again differs a little.
    let still = match grown >= NOTABLE * against {
        true => (FULL_BUFFER * grown).max(STILL * against),
        false => STILL * against,
    };
    // What creeps is not still: as many steps as there were would have made that much of it.
    let creeps = || theil_sen(&thinned(points)).map_or(0.0, |slope| slope.abs() * last as f64);
    let is_still = points.len() >= FEWEST && range_of(points) < still && creeps() < still;
    let is_long = last >= 2 * STEADY_FOR;
    (is_still && is_long && baseline_growth(steps, card).is_none()).then_some(level)
}

fn fit(baselines: &[(u64, Bytes)], card: Option<Bytes>) -> Option<BaselineGrowth> {
    let warm = || baselines.iter().filter(|(step, _)| *step > WARM_UP);
    let against = card.unwrap_or(warm().next_back()?.1).0 as f64;
    // Asked of every process each second: before anything is made for it.
    let (least, most) = warm().fold((u64::MAX, 0), |(least, most), (_, baseline)| {
        (least.min(baseline.0), most.max(baseline.0))
    });
    if ((most - least) as f64) < STILL * against {
        return None;
    }
    let warm: Vec<(f64, f64)> = warm()
        .map(|(step, baseline)| (*step as f64, baseline.0 as f64))
        .collect();
    if warm.len() < FEWEST {
        return None;
    }
    let points = thinned(&warm);
    if range_of(&points) < STILL * against {
        return None;
    }
    let slope = theil_sen(&points)?;
    let (first, last) = (points.first()?.0, points.last()?.0);
    let total = slope * (last - first);
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
    // The last third by itself, and the growth in the first two thirds.
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

/// Whether the memory that steps take on top of the baseline grows like the baseline: sorted or
/// longer and longer batches, whose last outputs the loop still has.
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
        // Too few to tell: with constant batches no step after the first has a new peak.
        return false;
    }
    let points = thinned(&exact);
    theil_sen(&points).is_some_and(|slope| slope > WITH_THE_BATCH * climb.per_step)
}

/// At most [`MOST`] of the points, evenly chosen, including the last one.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let stride = points.len().div_ceil(MOST);
    let mut chosen: Vec<_> = points.iter().rev().step_by(stride).copied().collect();
    chosen.reverse();
    chosen
}

/// From the smallest baseline to the largest.
fn range_of(points: &[(f64, f64)]) -> f64 {
    let (least, most) = points
        .iter()
        .fold((f64::MAX, f64::MIN), |(least, most), (_, y)| {
            (least.min(*y), most.max(*y))
        });
    most - least
}

/// The median of the slopes of all pairs.
fn theil_sen(points: &[(f64, f64)]) -> Option<f64> {
    median(&mut long_slopes(points, 0.0))
}

/// The slopes of the pairs that are at least `apart`.
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

/// The range of nearly all of the values.
fn range(mut values: Vec<f64>) -> Option<(f64, f64)> {
    values.sort_by(f64::total_cmp);
    let outside = (values.len() as f64 * OUTSIDE) as usize;
    let last = values.len().checked_sub(1)?;
    Some((*values.get(outside)?, *values.get(last - outside)?))
}
