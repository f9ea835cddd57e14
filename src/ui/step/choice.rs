//! Which traced step is looked at and why there is none, which are before and after it, and moving about in it.

use crate::anatomy::StepGrowth;
use crate::event::{Hello, Retainers, SourceLine, StepTrace};
use crate::state::{OomIncident, ProbeState, RankState, Run, RunOutcome, State, StepTraces};
use crate::ui::action::{Effect, FlameMove, Scroll, StepMove};
use crate::ui::scene::Scene;
use crate::ui::step::chart::Columns;
use crate::ui::step::flame;
use crate::ui::step::layout::{StepLayout, step_layout};
use crate::ui::step::traced::{Grouping, ReadStep, RowOrder, StepKey, StepView};
use crate::ui::view::View;
use crate::ui::words::rank_on;
use crate::units::{Moment, Pid, RunNumber};
use ratatui::layout::Position;
use std::time::Duration;

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
        StepMove::Newest => traces.last(),
        StepMove::FailedStep => traces.failed(),
        _ => None,
    };
    other.filter(|trace| (trace.step, trace.failed) != (key.step, key.failed))
}

/// The latest traced step, if it is later than the one that is shown.
pub(super) fn newer(view: &View, scene: &Scene) -> Option<u64> {
    next(view, scene)?;
    let (_, rank) = process(view, scene)?;
    rank.traces.last().map(|trace| trace.step)
}

/// The step that ran out of memory after the one that is shown, where it was not traced itself.
pub(super) fn untraced_failure(view: &View, scene: &Scene) -> Option<StepKey> {
    let (_, rank) = process(view, scene)?;
    let (key, _) = untraced(scene)?;
    let shown = view.step.as_ref()?.key()?;
    let is_later = order(key.step, key.failed) > order(shown.step, shown.failed);
    (key.pid == rank.hello.pid && shown != key && is_later).then_some(key)
}

/// The step in which the latest run ran out of memory, where it was not traced but the lines are known that held the memory.
pub(super) fn untraced<'a>(scene: &Scene<'a>) -> Option<(StepKey, &'a OomIncident)> {
    let run = scene.state.run()?;
    let oom = run.oom()?;
    let record = oom.record.as_ref()?;
    let rank = run.rank_of(oom)?;
    let is_known = rank.traces.failed().is_none() && !record.lines.is_empty();
    let key = StepKey {
        run: run.number,
        pid: record.pid,
        step: record.step + 1,
        failed: true,
    };
    is_known.then_some((key, oom))
}

/// Whether a key leads to that step.
pub(in crate::ui) fn leads_to_untraced(view: &View, scene: &Scene, wanted: StepMove) -> bool {
    let leads = matches!(wanted, StepMove::NextStep | StepMove::FailedStep);
    leads && other(view, scene, wanted).is_none() && untraced_failure(view, scene).is_some()
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

/// Whether anything is known of what grows: by a step that was traced, by a search for who keeps it alive, or by the OOM.
pub(in crate::ui) fn knows_what_grows(view: &View, scene: &Scene) -> bool {
    let record = scene.state.oom().and_then(|oom| oom.record.as_ref());
    is_traced(view, scene)
        || retainers(view, scene).is_some()
        || record.is_some_and(|record| !record.growing.is_empty())
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

/// The step that is traced first: those before it allocate what stays.
const FIRST: u64 = 3;

/// The first version of torch with which allocations have their lines.
const TORCH: (u32, u32) = (2, 1);

pub(super) fn why_none(view: &View, state: &State) -> String {
    let rank = view
        .device(state)
        .and_then(|device| rank_on(state, device))
        .filter(|rank| rank.hello.resting.is_none());
    let Some(rank) = rank else {
        return without_process(state);
    };
    let (major, minor) = TORCH;
    if is_too_old(&rank.hello) {
        return format!(
            "No step is traced with torch {}: it takes torch {major}.{minor} or later.",
            rank.hello.torch
        );
    }
    match rank.disconnected {
        Some(_) if rank.steps.count < FIRST => {
            String::from("This process ended before its third step, the first one that is traced.")
        }
        Some(_) | None => of_steps(rank),
    }
}

fn of_steps(rank: &RankState) -> String {
    let so_far = match rank.steps.count {
        0 => String::from("none has ended"),
        1 => String::from("1 has ended"),
        n if n < FIRST => format!("{n} have ended"),
        _ => {
            return String::from(
                "No step of this process could be traced. That is so with --no-lines, if the program \
                 records its allocations itself, if a step has more than 20,000 of them, and in \
                 recordings of earlier versions.",
            );
        }
    };
    format!("No step has been traced yet: the third step is traced when it ends ({so_far} so far).")
}

fn without_process(state: &State) -> String {
    let ended = state.run().is_some_and(|run| run.ended.is_some());
    let text = match state.probe() {
        ProbeState::Off => {
            "The probe is off (--no-probe), and only it sees what a step is made of."
        }
        ProbeState::Resting(reason) => return format!("No step is traced here: {reason}."),
        ProbeState::Lost => "The probe is gone, and none of its process's steps was traced.",
        ProbeState::Waiting | ProbeState::Live(_) if ended => {
            "The program ended, and the probe never saw PyTorch use the GPU."
        }
        ProbeState::Waiting | ProbeState::Live(_) => {
            "No step has been traced yet: the probe waits until the program uses PyTorch on this GPU."
        }
    };
    String::from(text)
}

fn is_too_old(hello: &Hello) -> bool {
    let mut numbers = hello.torch.split(['.', '+']).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) < TORCH,
        (_, _) => false,
    }
}

/// Opens the latest traced step, or after a run that ran out of memory the step in which it did.
pub(in crate::ui) fn open(view: &mut View, scene: &Scene) {
    view.step_opened = Some(scene.state.now);
    let process = process(view, scene).map(|(_, rank)| rank.hello.pid);
    let has_died = (scene.state.run()).is_some_and(|run| run.outcome() == RunOutcome::OutOfMemory);
    let died = (failed(scene).map(|(_, trace, _)| trace.pid))
        .or_else(|| untraced(scene).map(|(key, _)| key.pid));
    if has_died && died.is_some() && died == process {
        return open_failed(view, scene);
    }
    view.step = Some(StepView::Nothing);
    follow(view, scene);
}

/// Whether the step that ran out of memory can be opened.
pub(in crate::ui) fn has_failed(scene: &Scene) -> bool {
    failed(scene).is_some() || untraced(scene).is_some()
}

/// A traced step with its run, and all of its process.
type TracedOfRun<'a> = (RunNumber, &'a StepTrace, &'a StepTraces);

/// The latest traced step of the process that is shown.
fn latest<'a>((run, rank): (&'a Run, &'a RankState)) -> Option<TracedOfRun<'a>> {
    Some((run.number, rank.traces.last()?, &rank.traces))
}

/// The step that ran out of memory in the latest run, where it was traced.
fn failed<'a>(scene: &Scene<'a>) -> Option<TracedOfRun<'a>> {
    let run = scene.state.run()?;
    let traces = &run.rank_of(run.oom()?)?.traces;
    Some((run.number, traces.failed()?, traces))
}

/// Opens the step that ran out of memory, where it did.
pub(in crate::ui) fn open_failed(view: &mut View, scene: &Scene) {
    let Some((run, trace, traces)) = failed(scene) else {
        if let Some((key, _)) = untraced(scene) {
            view.step = Some(StepView::Failed(key));
        }
        return;
    };
    let mut opened = StepView::new(run, trace, traces);
    if let Some(read) = opened.read_mut() {
        read.follows = false;
        read.point_at(read.anatomy.end());
    }
    view.step = Some(opened);
}

/// Opens what grew until memory ran out, and who keeps it alive.
pub(in crate::ui) fn open_leak(view: &mut View, scene: &Scene) {
    open(view, scene);
    go(view, StepMove::WhatLeaks, scene);
}

pub(in crate::ui) fn move_in_flame(view: &mut View, step: FlameMove) {
    if let Some(read) = view.step.as_mut().and_then(StepView::read_mut) {
        read.follows = false;
        read.flame_place.go(step, &read.flame);
    }
}

/// Takes the latest traced step where there was none, or one of another process, or an earlier one in which nobody has looked
/// about.
pub(in crate::ui) fn follow(view: &mut View, scene: &Scene) {
    let Some(open) = &view.step else { return };
    let process = process(view, scene);
    let of = process.map(|(run, rank)| (run.number, rank.hello.pid));
    let key = open.key();
    let latest = process.and_then(latest);
    if key.is_some() && key.map(|key| (key.run, key.pid)) == of {
        let newer = latest.filter(|(run, trace, _)| key != Some(StepKey::new(*run, trace)));
        if newer.is_some() {
            view.awaited_trace = None;
        }
        let before = open.read().filter(|read| read.follows).map(looked_at);
        if let (Some((run, trace, of)), Some((grouping, order))) = (newer, before) {
            view.step = Some(StepView::grouped(run, trace, of, grouping, order));
        }
        return;
    }
    match latest {
        Some((run, trace, of)) => view.step = Some(StepView::new(run, trace, of)),
        None if key.is_some() => view.step = Some(StepView::Nothing),
        None => {}
    }
}

/// Reads the latest traced step for its pane, once.
pub(in crate::ui) fn follow_peak(view: &mut View, scene: &Scene) {
    let process = process(view, scene);
    let latest = process.and_then(latest);
    let key = view.peak.as_ref().and_then(StepView::key);
    if latest.map(|(run, trace, _)| StepKey::new(run, trace)) != key {
        view.growth = process.and_then(|(_, rank)| StepGrowth::new(&rank.traces));
    }
    match latest {
        Some((run, trace, of)) if key != Some(StepKey::new(run, trace)) => {
            let before = view.peak.as_ref().and_then(StepView::read);
            let (grouping, order) = before.map(looked_at).unwrap_or_default();
            view.peak = Some(StepView::grouped(run, trace, of, grouping, order));
        }
        Some(_) => {}
        None => view.peak = None,
    }
}

pub(in crate::ui) fn go(view: &mut View, wanted: StepMove, scene: &Scene) -> Option<Effect> {
    let width = step_layout(view, scene).plot.width;
    let other = other(view, scene, wanted);
    let key = view.step.as_ref().and_then(StepView::key);
    let before = view.step.as_ref().and_then(StepView::read).map(looked_at);
    let latest = process(view, scene);
    let latest = latest.and_then(|(run, rank)| Some(StepKey::new(run.number, rank.traces.last()?)));
    if leads_to_untraced(view, scene, wanted) {
        view.step = untraced_failure(view, scene).map(StepView::Failed);
    }
    // Who keeps memory alive, and what grew, is beside a traced step, or stands alone; modules are known of a traced one.
    let is_untraced = matches!(view.step, Some(StepView::Failed(_)));
    let leads_beside = is_untraced && matches!(wanted, StepMove::WhatLeaks | StepMove::Regroup);
    let beside = leads_beside
        .then(|| process(view, scene)?.1.traces.last())
        .flatten();
    match (key, other.or(beside)) {
        (Some(key), Some(trace)) => {
            if let Some((_, rank)) = process(view, scene) {
                view.step = Some(StepView::new(key.run, trace, &rank.traces));
            }
        }
        (_, None) if leads_beside && wanted == StepMove::WhatLeaks => {
            view.step = Some(StepView::Nothing);
        }
        (_, _) => {}
    }
    let effect = match wanted {
        StepMove::WhatLeaks => ask(view, scene),
        StepMove::Newest => trace_next(view, scene),
        StepMove::EditLine => {
            let read = view.step.as_ref().and_then(StepView::read);
            read.and_then(|read| edit(read, scene))
        }
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
    read.follows = match wanted {
        StepMove::PreviousStep
        | StepMove::NextStep
        | StepMove::FirstStep
        | StepMove::LargestStep
        | StepMove::Newest
        | StepMove::FailedStep => Some(read.key) == latest,
        StepMove::Regroup | StepMove::Reorder | StepMove::WhatLeaks => read.follows,
        _ => false,
    };
    let columns = Columns::new(&read.anatomy, width);
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
        | StepMove::Newest
        | StepMove::FailedStep
        | StepMove::EditLine => read.cursor,
        StepMove::Regroup => {
            read.grouping = read.grouping.next();
            read.scrolled = 0;
            read.select(0);
            read.cursor
        }
        StepMove::OpenRow => {
            read.row_is_open = !read.row_is_open && read.rows() > 0;
            read.cursor
        }
        StepMove::Reorder => {
            read.sort_by(read.order.next());
            read.scrolled = 0;
            read.select(0);
            read.cursor
        }
        StepMove::WhatLeaks => {
            read.grouping = Grouping::Growth;
            read.select(0);
            read.cursor
        }
    };
    if to != read.cursor && read.has_curve() {
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

/// The line of the row at the pointer: the program's, or else the library's.
pub(in crate::ui) fn line_of(read: &ReadStep) -> Option<&SourceLine> {
    let row = match read.grouping {
        Grouping::Lines => read.lines.get(read.selected)?,
        Grouping::Modules | Grouping::Flame | Grouping::Growth => return None,
    };
    row.line.as_ref().or(row.inside.as_ref())
}

/// Before Python 3.9 a script's name is as it was typed.
fn edit(read: &ReadStep, scene: &Scene) -> Option<Effect> {
    let line = line_of(read)?;
    let run = scene.state.run_numbered(read.key.run)?;
    let file = run.command.cwd.join(&line.file);
    Some(Effect::EditSource {
        file: file.to_string_lossy().into_owned(),
        line: line.line,
    })
}

/// How what is alive is grouped and sorted.
fn looked_at(read: &ReadStep) -> (Grouping, RowOrder) {
    (read.grouping, read.order)
}

/// Asks the process who keeps its memory alive, if it can be asked.
fn ask(view: &mut View, scene: &Scene) -> Option<Effect> {
    let process = askable(view, scene)?;
    view.asked = Some((process, scene.state.now));
    Some(Effect::LookForRetainers(process))
}

/// Has the next step traced, where there is a process that can be asked.
fn trace_next(view: &mut View, scene: &Scene) -> Option<Effect> {
    let process = askable(view, scene)?;
    view.awaited_trace = Some((process, scene.state.now));
    Some(Effect::TraceNext(process))
}

/// So long a step is awaited that was asked for: one that cannot be traced does not come.
const AWAITED: Duration = Duration::from_secs(30);

/// Whether the trace of a step is awaited that a key has asked for.
pub(super) fn is_tracing(view: &View, scene: &Scene) -> bool {
    let asked = view
        .awaited_trace
        .filter(|(_, at)| scene.state.now.since(*at) < AWAITED);
    asked.is_some_and(|(pid, _)| askable(view, scene) == Some(pid))
}

pub(in crate::ui) fn scroll(view: &mut View, scroll: Scroll, scene: &Scene) {
    let shown = step_layout(view, scene).lines_shown();
    if let Some(read) = view.step.as_mut().and_then(StepView::read_mut) {
        read.follows = false;
        read.select(match scroll {
            Scroll::Up(n) => read.selected.saturating_sub(n),
            Scroll::Down(n) => read.selected.saturating_add(n),
            Scroll::Start => 0,
            Scroll::End => usize::MAX,
        });
        read.show_selected(shown);
    }
}

/// Moves the cursor to the mouse.
pub(in crate::ui) fn point(view: &mut View, at: Position, scene: &Scene) {
    let layout = step_layout(view, scene);
    let (plot, table) = (layout.plot, layout.table);
    if let Some(read) = view.step.as_mut().and_then(StepView::read_mut)
        && read.grouping == Grouping::Flame
        && layout.below().contains(at)
    {
        read.follows = false;
        return flame::click(layout.below(), read, at);
    }
    if let Some(read) = view.step.as_mut().and_then(StepView::read_mut)
        && table.contains(at)
        && at.y >= table.y + StepLayout::titles(table)
    {
        read.follows = false;
        read.select(read.scrolled + usize::from(at.y - table.y - StepLayout::titles(table)));
        return;
    }
    if let Some(read) = view.step.as_mut().and_then(StepView::read_mut)
        && plot.contains(at)
    {
        let columns = Columns::new(&read.anatomy, plot.width);
        read.follows = false;
        read.point_at(columns.highest(&read.anatomy, at.x - plot.x));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_of_torch_is_too_old_or_not() {
        for (torch, old) in [
            ("1.13.1", true),
            ("2.0.1+cu118", true),
            ("2.1.0", false),
            ("2.11.0+cu130", false),
            ("3.0", false),
            ("unknown", false),
        ] {
            let hello = Hello {
                torch: torch.into(),
                ..Hello::default()
            };
            assert_eq!(is_too_old(&hello), old, "{torch}");
        }
    }
}
