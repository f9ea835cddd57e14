//! A leak: what stays allocated between steps climbs from step to step.
//!
//! The floors (allocated after each step) are fitted with a line whose slope is the median of the
//! slopes of all pairs (Theil–Sen), so that single high floors move nothing. A climb counts only
//! if it stands out of the scatter and goes on to the end: a warm-up that levels off is none.

use super::case::{Case, number, text};
use super::{Cause, Certainty, Finding};
use crate::units::Bytes;

/// Steps at the beginning that tell nothing: the optimizer's state comes in the first, caches and
/// workspaces in the next ones.
const WARM_UP: u64 = 3;

/// The fewest floors that are fitted.
const FEWEST: usize = 10;

/// The most floors that are fitted, evenly chosen: pairs grow with the square.
const MOST: usize = 96;

/// A climb counts from this share of the card on (or of the last floor, where the card is not
/// known), over the whole fit.
const NOTABLE: f64 = 0.01;

/// How far the floors may scatter around the line, as a share of the climb.
const SCATTER: f64 = 0.15;

/// How steep the last third must still be, as a share of the whole.
const GOES_ON: f64 = 0.5;

/// A floor that climbs steadily.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Climb {
    /// Bytes a step.
    pub per_step: f64,
    /// Over how many steps it was fitted.
    pub steps: u64,
    /// What has come in these steps together.
    pub total: Bytes,
}

/// The climb of the floors (step and what is allocated after it), or nothing where there is none
/// or the fit is poor. `card` is what a climb is measured against.
pub fn climb(floors: &[(u64, Bytes)], card: Option<Bytes>) -> Option<Climb> {
    let warm: Vec<(f64, f64)> = floors
        .iter()
        .filter(|(step, _)| *step > WARM_UP)
        .map(|(step, floor)| (*step as f64, floor.0 as f64))
        .collect();
    if warm.len() < FEWEST {
        return None;
    }
    let points = thinned(&warm);
    let slope = theil_sen(&points)?;
    let (first, last) = (points.first()?.0, points.last()?.0);
    let total = slope * (last - first);
    let against = card.map_or(points.last()?.1, |card| card.0 as f64);
    if total <= 0.0 || total < NOTABLE * against {
        return None;
    }
    let mut offsets: Vec<f64> = points.iter().map(|(x, y)| y - slope * x).collect();
    let middle = median(&mut offsets)?;
    let mut scatter: Vec<f64> = offsets
        .iter()
        .map(|offset| (offset - middle).abs())
        .collect();
    if median(&mut scatter)? > SCATTER * total {
        return None;
    }
    let tail = &points[points.len() - points.len() / 3..];
    if theil_sen(tail)? < GOES_ON * slope {
        return None;
    }
    Some(Climb {
        per_step: slope,
        steps: (last - first) as u64,
        total: Bytes(total as u64),
    })
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
    let mut slopes = Vec::with_capacity(points.len() * points.len() / 2);
    for (i, (x, y)) in points.iter().enumerate() {
        for (later_x, later_y) in &points[i + 1..] {
            if later_x > x {
                slopes.push((later_y - y) / (later_x - x));
            }
        }
    }
    median(&mut slopes)
}

fn median(values: &mut [f64]) -> Option<f64> {
    let middle = values.len() / 2;
    if values.is_empty() {
        return None;
    }
    let (_, median, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    Some(*median)
}

pub(super) fn examine(case: &Case) -> Option<Finding> {
    let steps = &case.rank?.steps;
    let climb = climb(&steps.floors, case.capacity)?;
    let per_step = Bytes(climb.per_step as u64);
    let first_step = steps.floors.first()?.0;
    // It climbed before the oldest floor that is kept, too.
    let since_start = per_step.scale((steps.count.saturating_sub(WARM_UP)) as f64);
    let leaked = if first_step <= WARM_UP + 1 {
        climb.total
    } else {
        since_start
    };
    let would_fit = case
        .needed()
        .zip(case.own_room())
        .is_some_and(|(needed, room)| needed - leaked <= room);
    let certainty = if would_fit {
        Certainty::Likely
    } else {
        Certainty::Possible
    };
    let mut finding = case.finding(
        Cause::Leak,
        certainty,
        format!(
            "Memory stays from step to step: {per_step} a step, {leaked} by step {}.",
            steps.count
        ),
    );
    finding.explanation = text([
        Some(format!(
            "What is allocated between steps has climbed steadily over the last {} steps. A smaller batch leaves less of each step and so only delays the end.",
            climb.steps
        )),
        (!would_fit).then(|| "Without it it would not fit here either.".into()),
    ]);
    finding.evidence = vec![number("leaked a step", per_step), number("leaked", leaked)];
    finding.evidence.extend(case.evidence());
    finding.advice = vec![
        ".item() or .detach() on what is kept of a step (a running loss keeps its whole graph)"
            .into(),
        "look for lists that grow with the steps: outputs, losses, hooks".into(),
    ];
    Some(finding)
}
