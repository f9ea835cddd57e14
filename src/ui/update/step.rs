//! Looking about in the traced steps: which one, the cursor in it, the lines in view.

use crate::anatomy::StepGrowth;
use crate::ui::action::{Effect, Scroll, StepMove};
use crate::ui::available::step_layout;
use crate::ui::scene::Scene;
use crate::ui::step::{Columns, choice};
use crate::ui::view::View;
use crate::ui::view::step::{Grouping, ReadStep, RowOrder, StepKey, StepView};
use ratatui::layout::Position;

pub(super) fn open(view: &mut View, scene: &Scene) {
    view.step = Some(StepView::Nothing);
    follow(view, scene);
}

/// Takes the latest traced step where there was none, or one of another process. One that is looked
/// at stays, even if the state has a later one in its place.
pub(super) fn follow(view: &mut View, scene: &Scene) {
    let Some(open) = &view.step else { return };
    let process = choice::process(view, scene);
    let of = process.map(|(run, rank)| (run.number, rank.hello.pid));
    let key = open.key();
    if key.is_some() && key.map(|key| (key.run, key.pid)) == of {
        return;
    }
    let latest = process.and_then(|(run, rank)| Some((run.number, rank.traces.last()?)));
    match latest {
        Some((run, trace)) => view.step = Some(StepView::of(run, trace)),
        None if key.is_some() => view.step = Some(StepView::Nothing),
        None => {}
    }
}

/// Reads the latest traced step for its pane, once.
pub(super) fn follow_peak(view: &mut View, scene: &Scene) {
    let process = choice::process(view, scene);
    let latest = process.and_then(|(run, rank)| Some((run.number, rank.traces.last()?)));
    let key = view.peak.as_ref().and_then(StepView::key);
    if latest.map(|(run, trace)| StepKey::of(run, trace)) != key {
        view.growth = process.and_then(|(_, rank)| StepGrowth::of(&rank.traces));
    }
    match latest {
        Some((run, trace)) if key != Some(StepKey::of(run, trace)) => {
            let before = view.peak.as_ref().and_then(StepView::read);
            let (grouping, order) = before.map(looked_at).unwrap_or_default();
            let mut peak = StepView::of(run, trace);
            if let Some(read) = peak.read_mut() {
                read.grouping = grouping;
                read.sort_by(order);
            }
            view.peak = Some(peak);
        }
        Some(_) => {}
        None => view.peak = None,
    }
}

pub(super) fn go(view: &mut View, wanted: StepMove, scene: &Scene) -> Option<Effect> {
    let width = step_layout(view, scene).plot.width;
    let other = choice::other(view, scene, wanted);
    let key = view.step.as_ref().and_then(StepView::key);
    let before = view.step.as_ref().and_then(StepView::read).map(looked_at);
    if let (Some(key), Some(trace)) = (key, other) {
        view.step = Some(StepView::of(key.run, trace));
    }
    let effect = match wanted {
        StepMove::WhatLeaks => ask(view, scene),
        _ => None,
    };
    let Some(read) = view.step.as_mut().and_then(StepView::read_mut) else {
        return effect;
    };
    let (grouping, order) = before.unwrap_or_default();
    read.grouping = grouping;
    if read.order != order {
        read.sort_by(order);
    }
    let columns = Columns::of(&read.anatomy, width);
    let to = match wanted {
        StepMove::Back => columns.before(&read.anatomy, read.cursor),
        StepMove::Forward => columns.after(&read.anatomy, read.cursor),
        StepMove::EventBack => read.cursor.saturating_sub(1),
        StepMove::EventForward => (read.cursor + 1).min(read.anatomy.end()),
        StepMove::ToStart => 0,
        StepMove::ToEnd => read.anatomy.end(),
        StepMove::ToPeak => read.peak,
        StepMove::PreviousStep
        | StepMove::NextStep
        | StepMove::FirstStep
        | StepMove::LargestStep
        | StepMove::FailedStep => read.cursor,
        StepMove::Regroup => {
            read.grouping = read.grouping.next();
            read.scrolled = 0;
            read.cursor
        }
        StepMove::Reorder => {
            read.sort_by(read.order.next());
            read.scrolled = 0;
            read.cursor
        }
        StepMove::WhatLeaks => {
            read.grouping = Grouping::Growth;
            read.cursor
        }
    };
    if to != read.cursor {
        read.point_at(to);
    }
    // The pane shows what was last looked at.
    let (grouping, order) = looked_at(read);
    if let Some(peak) = view.peak.as_mut().and_then(StepView::read_mut) {
        peak.grouping = grouping;
        peak.sort_by(order);
    }
    effect
}

/// How what is alive is grouped and sorted.
fn looked_at(read: &ReadStep) -> (Grouping, RowOrder) {
    (read.grouping, read.order)
}

/// Asks the process who keeps its memory alive, if it can be asked.
fn ask(view: &mut View, scene: &Scene) -> Option<Effect> {
    let process = choice::askable(view, scene)?;
    view.asked = Some((process, scene.state.now));
    Some(Effect::LookForRetainers(process))
}

pub(super) fn scroll(view: &mut View, scroll: Scroll, scene: &Scene) {
    let shown = step_layout(view, scene).lines_shown();
    if let Some(read) = view.step.as_mut().and_then(StepView::read_mut) {
        let most = read.rows().saturating_sub(shown);
        let scrolled = read.scrolled.min(most);
        read.scrolled = match scroll {
            Scroll::Up(n) => scrolled.saturating_sub(n),
            Scroll::Down(n) => scrolled.saturating_add(n).min(most),
            Scroll::Start => 0,
            Scroll::End => most,
        };
    }
}

/// Moves the cursor to the mouse.
pub(super) fn point(view: &mut View, at: Position, scene: &Scene) {
    let plot = step_layout(view, scene).plot;
    if let Some(read) = view.step.as_mut().and_then(StepView::read_mut)
        && plot.contains(at)
    {
        let columns = Columns::of(&read.anatomy, plot.width);
        read.point_at(columns.highest(&read.anatomy, at.x - plot.x));
    }
}
