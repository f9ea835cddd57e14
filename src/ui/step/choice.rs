//! Which traced step is shown, and which are before and after it.

use crate::event::{Retainers, StepTrace};
use crate::state::{RankState, Run};
use crate::ui::action::StepMove;
use crate::ui::scene::Scene;
use crate::ui::view::View;
use crate::ui::view::step::StepKey;
use crate::ui::words::rank_on;
use crate::units::{Moment, Pid};

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

/// The step that a key leads to, if it is another one than is shown.
pub(in crate::ui) fn other<'a>(
    view: &View,
    scene: &Scene<'a>,
    wanted: StepMove,
) -> Option<&'a StepTrace> {
    let (key, _) = others(view, scene)?;
    let traces = &process(view, scene)?.1.traces;
    let other = match wanted {
        StepMove::PreviousStep => previous(view, scene),
        StepMove::NextStep => next(view, scene),
        StepMove::FirstStep => traces.first(),
        StepMove::LargestStep => traces.largest(),
        StepMove::FailedStep => traces.failed(),
        _ => None,
    };
    other.filter(|trace| (trace.step, trace.failed) != (key.step, key.failed))
}

fn next<'a>(view: &View, scene: &Scene<'a>) -> Option<&'a StepTrace> {
    let (key, all) = others(view, scene)?;
    let here = order(key.step, key.failed);
    let later = all.into_iter();
    later
        .filter(|trace| order(trace.step, trace.failed) > here)
        .min_by_key(|trace| order(trace.step, trace.failed))
}

fn previous<'a>(view: &View, scene: &Scene<'a>) -> Option<&'a StepTrace> {
    let (key, all) = others(view, scene)?;
    let here = order(key.step, key.failed);
    let earlier = all.into_iter();
    earlier
        .filter(|trace| order(trace.step, trace.failed) < here)
        .max_by_key(|trace| order(trace.step, trace.failed))
}

/// Who keeps the memory of the process alive, and when that was found.
pub(in crate::ui) fn retainers<'a>(
    view: &View,
    scene: &Scene<'a>,
) -> Option<&'a (Moment, Retainers)> {
    process(view, scene)?.1.retainers.as_ref()
}

/// Whether a step of the process was traced.
pub(in crate::ui) fn is_traced(view: &View, scene: &Scene) -> bool {
    process(view, scene).is_some_and(|(_, rank)| rank.traces.last().is_some())
}

/// The process, if its probe can be asked to do something now.
pub(in crate::ui) fn askable(view: &View, scene: &Scene) -> Option<Pid> {
    let (run, rank) = process(view, scene)?;
    let hello = &rank.hello;
    let listens = rank.disconnected.is_none() && hello.resting.is_none() && hello.pid.is_here();
    let runs = scene.is_own() && run.ended.is_none();
    (listens && runs).then_some(hello.pid)
}
