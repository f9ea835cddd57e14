//! Whether an action does something now: the footer and the help list only such keys.

use super::action::{Action, StepMove};
use super::chart::Move;
use super::dialog::{Details, Dialog};
use super::headroom;
use super::layout::{arranged, layout_of};
use super::pane::{ListScroll, rank_map, spec::Scrolling};
use super::scene::{Scene, Subject};
use super::step::choice;
use super::view::{Keyboard, View};
use crate::diagnosis::Cause;
use crate::remedy::RemedyId;
use crate::ui::step::traced::{Grouping, ReadStep, StepView};
use ratatui::layout::Rect;

pub(super) fn is_available(view: &View, action: Action, scene: &Scene) -> bool {
    let run = scene.state.run();
    let live = scene.is_live();
    let devices = scene.state.devices.len();
    let charted = || arranged(view, scene).chart().is_some();
    let selecting = view.keyboard == Keyboard::Selection;
    match action {
        Action::NextPane
        | Action::PreviousPane
        | Action::MaximizePane
        | Action::MaximizeChart
        | Action::OpenStep
        | Action::Suspend
        | Action::Redraw
        | Action::Help
        | Action::Quit
        | Action::Mouse
        | Action::NextTheme
        | Action::Details
        | Action::Interrupt
        | Action::Back
        | Action::KeepSearch
        | Action::WriteReport
        | Action::QuitAndStop
        | Action::QuitAndLeave => true,
        Action::ShowPane(number) => {
            let mut tabs = layout_of(view, scene).tabs.into_iter();
            tabs.any(|pane| pane.number() == number)
        }
        Action::NextDevice | Action::PreviousDevice => devices > 1,
        Action::NextStandout => devices > 1 && rank_map::is_wanted(scene.state),
        Action::Time(Move::CursorForward) => charted() && view.time.cursor().is_some(),
        Action::Time(Move::Reset) => charted() && view.time.is_chosen(),
        // A recording is paused by another action, chart and all.
        Action::Time(Move::PauseOrGoOn) => live && charted() && devices > 0,
        Action::Time(_) | Action::OtherHeight => charted() && devices > 0,
        Action::Up | Action::Down | Action::PageUp | Action::PageDown => {
            match (&view.dialog, &view.step) {
                (Some(_), _) => true,
                (None, Some(open)) => step_scrolls(open),
                (None, None) => selecting || pane_scrolls(view, scene),
            }
        }
        Action::Step(
            step @ (StepMove::PreviousStep
            | StepMove::NextStep
            | StepMove::FirstStep
            | StepMove::LargestStep
            | StepMove::FailedStep),
        ) => {
            choice::other(view, scene, step).is_some()
                || choice::leads_to_untraced(view, scene, step)
        }
        Action::Step(StepMove::Newest) => {
            choice::other(view, scene, StepMove::Newest).is_some()
                || choice::askable(view, scene).is_some()
        }
        Action::Step(StepMove::WhatLeaks) => match &view.step {
            Some(open) => {
                let is_shown = match open {
                    StepView::Read(read) => read.grouping == Grouping::Growth,
                    StepView::Nothing => true,
                    StepView::Unreadable(_) | StepView::Failed(_) => false,
                };
                !is_shown || choice::askable(view, scene).is_some()
            }
            None => {
                let has_ranks = devices > 1 && rank_map::is_wanted(scene.state);
                run.is_some() && !has_ranks
            }
        },
        Action::OpenLeak => run.is_some(),
        Action::Step(StepMove::EditLine) => {
            let read = view.step.as_ref().and_then(StepView::read);
            read.is_some_and(|read| choice::line_of(read).is_some())
        }
        Action::Step(StepMove::Reorder | StepMove::OpenRow) => {
            let read = view.step.as_ref().and_then(StepView::read);
            read.is_some_and(|read| read.rows() > 0)
        }
        Action::SaveSnapshot => choice::askable(view, scene).is_some(),
        Action::Flame(step) => {
            let read = view.step.as_ref().and_then(StepView::read);
            let shown = read.filter(|read| read.grouping == Grouping::Flame);
            shown.is_some_and(|read| read.flame_place.can(step, &read.flame))
        }
        Action::Step(StepMove::Back | StepMove::Forward) => {
            let read = view.step.as_ref().and_then(StepView::read);
            read.is_some_and(|read| read.has_curve() && read.grouping != Grouping::Flame)
        }
        Action::Step(
            StepMove::EventBack
            | StepMove::EventForward
            | StepMove::ToStart
            | StepMove::ToEnd
            | StepMove::ToPeak,
        ) => {
            let read = view.step.as_ref().and_then(StepView::read);
            read.is_some_and(ReadStep::has_curve)
        }
        Action::NextSection => match &view.dialog {
            Some(Dialog::Oom(dialog)) => dialog.details != Details::Brief,
            _ => false,
        },
        Action::OpenFailedStep => choice::has_failed(scene),
        // From a step that was not traced it leads to the newest that was.
        Action::Step(StepMove::Regroup)
            if matches!(view.step, Some(StepView::Failed(_))) && choice::is_traced(view, scene) =>
        {
            true
        }
        Action::Step(_) => view.step.as_ref().and_then(StepView::read).is_some(),
        Action::ToStart => selecting || pane_scrolls(view, scene),
        Action::ToEnd => {
            // At its end already the key goes to that of the recording.
            let goes_on = matches!(scene.subject, Subject::Recording(_)) && is_at_end(view);
            selecting || pane_scrolls(view, scene) && !goes_on
        }
        Action::OpenOom => {
            let rejected = || scene.remedies.iter().any(|r| r.id == RemedyId::Without);
            // One that the program caught is explained as well.
            run.is_some_and(|run| !run.ooms.is_empty()) || rejected()
        }
        Action::Search if matches!(view.dialog, Some(Dialog::Help(_))) => true,
        Action::Search | Action::Select => scene.has_output() && run.is_some(),
        Action::SearchOlder | Action::SearchNewer | Action::EndSearch => {
            view.output.search().is_some()
        }
        Action::EditCommand => scene.can_relaunch(),
        Action::Relaunch => scene.can_relaunch() && !scene.is_running() || edits_code(view, scene),
        Action::RelaunchUnchanged => {
            let is_oom = matches!(view.dialog, Some(Dialog::Oom(_)));
            is_oom && scene.can_relaunch() && !scene.is_running()
        }
        Action::StopAndRelaunch => scene.can_relaunch() && scene.is_running(),
        Action::Combine => {
            let dialog = match &view.dialog {
                Some(Dialog::Oom(dialog)) => Some(dialog),
                Some(Dialog::Help(help)) => help.behind(),
                Some(_) | None => None,
            };
            scene.can_relaunch() && dialog.is_some_and(|dialog| dialog.can_combine(scene))
        }
        Action::Compare => charted() && scene.state.runs.len() > 1,
        Action::Copy => run.is_some(),
        Action::TypeToTraining | Action::AskToStop | Action::Stop | Action::Kill => {
            scene.is_running()
        }
        Action::PlayOrPause | Action::Faster | Action::Slower | Action::Seek(_) => {
            matches!(scene.subject, Subject::Recording(_))
        }
    }
}

/// Whether Enter opens a line of the program, and relaunches nothing.
pub(super) fn edits_code(view: &View, scene: &Scene) -> bool {
    matches!(&view.dialog, Some(Dialog::Oom(dialog)) if dialog.line_in_code(scene).is_some())
}

/// Whether what is allocated on the device grows between steps, or leaked.
pub(super) fn has_grown(view: &View, scene: &Scene) -> bool {
    let device = view.device(scene.state);
    let grows = device.is_some_and(|device| headroom::grows(view, scene.state, device));
    grows || scene.cause() == Some(Cause::Leak)
}

/// Whether footer and help list an action. Ctrl-C quits what can only be watched, but its words speak of
/// a training.
pub(super) fn is_listed(view: &View, action: Action, scene: &Scene) -> bool {
    let is_true = match (action, &view.dialog) {
        (Action::Interrupt, _) => scene.is_own(),
        // With nothing selected that could be applied, Enter says why.
        (Action::Relaunch, Some(Dialog::Oom(dialog))) => {
            !dialog.to_apply(scene).is_empty() || edits_code(view, scene)
        }
        (Action::StopAndRelaunch, Some(Dialog::Oom(dialog))) => !dialog.to_apply(scene).is_empty(),
        // Who keeps memory alive is shown to whoever asks, and named where it grows.
        (Action::OpenLeak, _) => has_grown(view, scene),
        (Action::Step(StepMove::WhatLeaks), _) if view.step.is_none() => has_grown(view, scene),
        (_, _) => true,
    };
    is_available(view, action, scene) && is_true
}

fn pane_scrolls(view: &View, scene: &Scene) -> bool {
    match view.pane.spec().scrolling {
        Scrolling::Nothing => false,
        Scrolling::Output => view.output.has_scrollback(),
        Scrolling::Devices => scene.state.devices.len() > 1,
        Scrolling::List { .. } => {
            let (all, shown) = list_rows(view, scene);
            all > shown
        }
    }
}

/// Whether the pane shows its end; a device is selected, not scrolled to.
fn is_at_end(view: &View) -> bool {
    match view.pane.spec().scrolling {
        Scrolling::Nothing | Scrolling::Devices => true,
        Scrolling::Output => view.output.scrolled() == 0,
        Scrolling::List { .. } => view.list == ListScroll::default(),
    }
}

/// Whether the pointer has rows to go to.
fn step_scrolls(open: &StepView) -> bool {
    open.read().is_some_and(|read| read.rows() > 1)
}

/// How many entries the chosen pane's list has, and how many fit on the screen.
pub(super) fn list_rows(view: &View, scene: &Scene) -> (usize, usize) {
    match (view.pane.spec().scrolling, layout_of(view, scene).pane) {
        (Scrolling::List { length, shown }, Some(pane)) => {
            let height = pane.height.saturating_sub(1);
            (length(scene), shown(Rect { height, ..pane }))
        }
        (_, _) => (0, 0),
    }
}
