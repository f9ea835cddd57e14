//! Which traced step is shown, and which are before and after it.

use crate::event::StepTrace;
use crate::state::{RankState, Run};
use crate::ui::scene::Scene;
use crate::ui::view::View;
use crate::ui::view::step::StepKey;
use crate::ui::words::rank_on;

/// The process whose steps are shown.
pub(in crate::ui) fn process<'a>(
    view: &View,
    scene: &Scene<'a>,
) -> Option<(&'a Run, &'a RankState)> {
    let state = scene.state;
    Some((state.run()?, rank_on(state, view.device(state)?)?))
}

/// A step may have been traced once more after memory ran out in it: tried again, it went on.
fn order(step: u64, failed: bool) -> (u64, bool) {
    (step, !failed)
}

fn others<'a>(view: &View, scene: &Scene<'a>) -> Option<(StepKey, Vec<&'a StepTrace>)> {
    let (_, rank) = process(view, scene)?;
    let key = view.step.as_ref()?.key()?;
    Some((key, rank.traces.all().collect()))
}

pub(in crate::ui) fn next<'a>(view: &View, scene: &Scene<'a>) -> Option<&'a StepTrace> {
    let (key, all) = others(view, scene)?;
    let here = order(key.step, key.failed);
    let later = all.into_iter();
    later
        .filter(|trace| order(trace.step, trace.failed) > here)
        .min_by_key(|trace| order(trace.step, trace.failed))
}

pub(in crate::ui) fn previous<'a>(view: &View, scene: &Scene<'a>) -> Option<&'a StepTrace> {
    let (key, all) = others(view, scene)?;
    let here = order(key.step, key.failed);
    let earlier = all.into_iter();
    earlier
        .filter(|trace| order(trace.step, trace.failed) < here)
        .max_by_key(|trace| order(trace.step, trace.failed))
}
