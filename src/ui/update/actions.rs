//! What each action does: most change the view, some return an effect for the loop.

use super::{output, scroll, step};
use crate::state::RunOutcome;
use crate::ui::action::{Action, Effect, ReplayControl, Scroll};
use crate::ui::available::layout_of;
use crate::ui::chart;
use crate::ui::child::SearchDirection;
use crate::ui::dialog::{Details, Dialog, HelpDialog, NextCopy, OomDialog};
use crate::ui::dialogs;
use crate::ui::editor::Editor;
use crate::ui::list::ListScroll;
use crate::ui::pane;
use crate::ui::panes::rank_map;
use crate::ui::scene::Scene;
use crate::ui::step::choice;
use crate::ui::view::{Keyboard, Maximized, Mouse, Notice, View};

pub(super) fn act(view: &mut View, action: Action, scene: &Scene) -> Option<Effect> {
    match action {
        Action::NextPane => step_pane(view, 1, scene),
        Action::PreviousPane => step_pane(view, usize::MAX, scene),
        Action::ShowPane(number) => show_pane(view, number, scene),
        Action::MaximizePane => view.maximized = toggled(view.maximized, Maximized::Pane),
        Action::MaximizeChart => view.maximized = toggled(view.maximized, Maximized::Chart),
        Action::NextDevice => step_device(view, 1, scene),
        Action::PreviousDevice => {
            let all = match rank_map::is_wanted(scene.state) {
                true => rank_map::order(scene.state).len(),
                false => scene.state.devices.len(),
            };
            step_device(view, all.saturating_sub(1), scene);
        }
        Action::NextStandout => step_standout(view, scene),
        Action::Time(step) => {
            let chart = layout_of(view, scene).chart();
            let columns = chart.map_or(1, |area| chart::plot_of(area).width);
            view.time.apply(step, scene.state.now, columns);
        }
        Action::Compare => compare_next(view, scene),
        Action::OtherHeight => view.height = view.height.other(),
        Action::Up => scroll::scroll(view, Scroll::Up(1), scene),
        Action::Down => scroll::scroll(view, Scroll::Down(1), scene),
        Action::PageUp => scroll::scroll(view, Scroll::Up(scroll::page(view, scene)), scene),
        Action::PageDown => scroll::scroll(view, Scroll::Down(scroll::page(view, scene)), scene),
        Action::ToStart => scroll::scroll(view, Scroll::Start, scene),
        Action::ToEnd => scroll::scroll(view, Scroll::End, scene),
        Action::OpenStep => step::open(view, scene),
        Action::Step(wanted) => return step::go(view, wanted, scene),
        Action::SaveSnapshot => {
            view.notice = Some((Notice::Snapshot, scene.state.now));
            return choice::askable(view, scene).map(Effect::SaveSnapshot);
        }
        Action::OpenOom => open_oom(view, scene),
        Action::EditCommand => open_editor(view, scene),
        Action::TypeToTraining => {
            output::show_output(view);
            view.keyboard = Keyboard::Training;
            view.output.scroll(Scroll::End);
        }
        Action::Search => output::open_search(view),
        Action::SearchOlder => view.output.search_next(SearchDirection::Older),
        Action::SearchNewer => view.output.search_next(SearchDirection::Newer),
        Action::KeepSearch => output::keep_search(view),
        Action::EndSearch => view.output.end_search(),
        Action::Select => output::begin_selecting(view, None),
        Action::Copy if view.keyboard == Keyboard::Selection => {
            return output::copy_selected(view, scene);
        }
        Action::Copy => return copy(view, scene),
        Action::Help => {
            let mode = view.mode();
            let over = match view.dialog.take() {
                Some(Dialog::Oom(dialog)) => Some(dialog),
                Some(_) | None => None,
            };
            view.dialog = Some(Dialog::Help(HelpDialog::over(mode, over)));
        }
        Action::Quit => return quit(view, scene),
        Action::AskToStop => view.dialog = Some(Dialog::Stop),
        Action::Interrupt => return Some(interrupt(scene)),
        Action::Suspend => return Some(Effect::Suspend),
        Action::Redraw => return Some(Effect::Redraw),
        Action::NextTheme => {
            view.theme = view.theme.next();
            view.notice = Some((Notice::Theme, scene.state.now));
        }
        Action::Mouse => {
            view.mouse = match view.mouse {
                Mouse::Terminal => Mouse::Oomph,
                Mouse::Oomph => Mouse::Terminal,
            };
            return Some(Effect::CaptureMouse(view.mouse == Mouse::Oomph));
        }
        Action::PlayOrPause => return Some(Effect::Replay(ReplayControl::PlayOrPause)),
        Action::Faster => return Some(Effect::Replay(ReplayControl::Faster)),
        Action::Slower => return Some(Effect::Replay(ReplayControl::Slower)),
        Action::Seek(target) => return Some(Effect::Replay(ReplayControl::Seek(target))),
        Action::Combine => {
            if let Some(Dialog::Oom(dialog)) = &mut view.dialog {
                dialog.combine(scene);
            }
        }
        Action::Details => {
            if let Some(Dialog::Oom(dialog)) = &mut view.dialog {
                dialog.toggle_details(scene);
            }
        }
        Action::Relaunch | Action::StopAndRelaunch => return relaunch(view, scene),
        Action::Back => back(view, scene),
        Action::QuitAndStop => return Some(QUIT),
        Action::QuitAndLeave => {
            return Some(Effect::Quit {
                stop_training: false,
            });
        }
        Action::Stop => {
            view.dialog = None;
            return Some(Effect::Stop);
        }
        Action::Kill => {
            view.dialog = None;
            return Some(Effect::Kill);
        }
    }
    None
}

/// In the OOM dialog the diagnosis, then the next command; elsewhere the run's command.
fn copy(view: &mut View, scene: &Scene) -> Option<Effect> {
    let (notice, text) = match &mut view.dialog {
        Some(Dialog::Oom(dialog)) => match (dialog.copies, dialogs::oom::command(dialog, scene)) {
            (NextCopy::Diagnosis, command) => {
                if command.is_some() {
                    dialog.copies = NextCopy::Command;
                }
                let text = dialogs::oom::markdown(dialog, scene);
                (
                    command.map_or(Notice::Copied, |_| Notice::CopiedDiagnosis),
                    text,
                )
            }
            (NextCopy::Command, command) => {
                dialog.copies = NextCopy::Diagnosis;
                (Notice::CopiedCommand, command?)
            }
        },
        Some(_) | None => (Notice::CopiedCommand, scene.state.run()?.shown.clone()),
    };
    view.notice = Some((notice, scene.state.now));
    Some(Effect::Copy(text))
}

const QUIT: Effect = Effect::Quit {
    stop_training: true,
};

/// Overlays the run before, then the one before that, then none.
fn compare_next(view: &mut View, scene: &Scene) {
    let mut runs = scene.state.runs.iter().rev().skip(1);
    view.compared = match view.compared {
        None => runs.next().map(|run| run.number),
        Some(number) => runs.find(|run| run.number < number).map(|run| run.number),
    };
}

fn step_pane(view: &mut View, by: usize, scene: &Scene) {
    // Panes with a place of their own are left out.
    let tabs = layout_of(view, scene).tabs();
    let by = by.min(tabs.len().saturating_sub(1));
    view.pane = pane::step(&tabs, view.pane, by);
    view.list = ListScroll::default();
}

fn show_pane(view: &mut View, number: u8, scene: &Scene) {
    let tabs = layout_of(view, scene).tabs();
    if let Some(pane) = tabs.get(usize::from(number).wrapping_sub(1)) {
        view.pane = *pane;
        view.list = ListScroll::default();
    }
}

fn step_device(view: &mut View, by: usize, scene: &Scene) {
    view.device = match rank_map::is_wanted(scene.state) {
        true => stepped(&rank_map::order(scene.state), view.device, by),
        false => (view.device + by) % scene.state.devices.len().max(1),
    };
    step::follow(view, scene);
}

/// The place so many further in a row; its first where `from` is not in it.
fn stepped(row: &[usize], from: usize, by: usize) -> usize {
    let at = row.iter().position(|place| *place == from);
    let next = at.map_or(0, |at| (at + by) % row.len().max(1));
    row.get(next).copied().unwrap_or(from)
}

fn step_standout(view: &mut View, scene: &Scene) {
    view.device = stepped(&rank_map::standouts(scene.state), view.device, 1);
    step::follow(view, scene);
}

pub(super) fn open_oom(view: &mut View, scene: &Scene) {
    if let Some(run) = scene.state.run() {
        view.dialog = Some(Dialog::Oom(OomDialog::of(run.number, scene)));
    }
}

fn open_editor(view: &mut View, scene: &Scene) {
    let remedies = match &view.dialog {
        Some(Dialog::Oom(dialog)) => dialog.to_apply(scene),
        Some(_) | None => Vec::new(),
    };
    if let Some(command) = (scene.plan)(&remedies) {
        view.dialog = Some(Dialog::Edit(Editor::of(command, remedies)));
    }
}

fn quit(view: &mut View, scene: &Scene) -> Option<Effect> {
    if scene.is_running() {
        view.dialog = Some(Dialog::Quit);
        return None;
    }
    Some(QUIT)
}

fn relaunch(view: &mut View, scene: &Scene) -> Option<Effect> {
    let effect = match &mut view.dialog {
        Some(Dialog::Oom(dialog)) => {
            let remedies = dialog.to_apply(scene);
            // The unchanged command would fail again.
            if remedies.is_empty() {
                let why = match dialog.remedy(scene) {
                    Some(_) => Notice::NotOffered,
                    None => Notice::NothingFits,
                };
                dialog.details = Details::Full { scrolled: 0 };
                view.notice = Some((why, scene.state.now));
                return None;
            }
            (scene.plan)(&remedies)?;
            Effect::Relaunch {
                remedies,
                command: None,
            }
        }
        Some(Dialog::Edit(editor)) => match editor.read() {
            Ok(command) => Effect::Relaunch {
                remedies: editor.remedies().to_vec(),
                command,
            },
            Err(error) => {
                editor.error = Some(error);
                return None;
            }
        },
        Some(_) | None => return None,
    };
    view.dialog = None;
    Some(effect)
}

/// One step back: from the details to the brief dialog, from the editor or the help to the dialog
/// it was opened from, from a dialog to the panes.
fn back(view: &mut View, scene: &Scene) {
    let selecting = std::mem::take(&mut view.keyboard) == Keyboard::Selection;
    if view.dialog.is_none() && view.step.take().is_some() {
        return;
    }
    if let Some(Dialog::Oom(dialog)) = &mut view.dialog
        && dialog.details != Details::Brief
    {
        dialog.toggle_details(scene);
        return;
    }
    let run = scene.state.run();
    let failed = run.filter(|run| run.outcome() == RunOutcome::OutOfMemory);
    view.dialog = match (view.dialog.take(), failed) {
        (Some(Dialog::Edit(editor)), Some(run)) if !editor.remedies().is_empty() => {
            let mut dialog = OomDialog::of(run.number, scene);
            dialog.choose(editor.remedies());
            Some(Dialog::Oom(dialog))
        }
        (Some(Dialog::Help(help)), _) => help.closed().map(Dialog::Oom),
        (Some(Dialog::Search(_)), _) => {
            view.output.end_search();
            None
        }
        (None, _) if selecting => {
            view.output.end_selection();
            None
        }
        (_, _) => None,
    };
}

/// Ctrl-C interrupts a running training, or else quits oomph.
fn interrupt(scene: &Scene) -> Effect {
    match scene.is_running() {
        true => Effect::Interrupt,
        false => QUIT,
    }
}

fn toggled(now: Maximized, wanted: Maximized) -> Maximized {
    match now == wanted {
        true => Maximized::Nothing,
        false => wanted,
    }
}
