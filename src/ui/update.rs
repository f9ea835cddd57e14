//! Changes to a [`View`] by keys, pasted text, and what happened in the session. What
//! the loop has to carry out is returned as an [`Effect`].

mod follow;
mod output;
mod scroll;

pub(super) use output::begin_selecting;
pub(super) use scroll::scroll;

use super::action::{Action, ActionReach, Effect, ReplayControl, Scroll};
use super::available::is_available;
use super::chart;
use super::child::SearchDirection;
use super::dialog::{Details, Dialog, HelpDialog, NextCopy, OomDialog};
use super::dialogs::oom;
use super::editor::Editor;
use super::keymap::{self, InputMode};
use super::layout::{self, layout_of};
use super::no_use;
use super::pane::{ListScroll, rank_map};
use super::scene::Scene;
use super::step::choice;
use super::step::traced::StepView;
use super::theme::UNICODE;
use super::view::{Interrupts, Keyboard, Maximized, Mouse, NOTICE, Notice, View};
use super::{dialogs, emulator};
use crate::command::CommandLine;
use crate::state::RunOutcome;
use follow::{follow_device, follow_ranks, select_device_of_oom};
use output::{copy_selected, edit_search, keep_search, open_search, show_output};
use ratatui::crossterm::event::{KeyEvent, KeyEventKind};
use ratatui::layout::Rect;
use scroll::page;

impl View {
    /// The screen has a new size.
    pub fn resize(&mut self, width: u16, height: u16) {
        self.size = Rect::new(0, 0, width, height);
    }

    /// Rows and columns for the program's terminal. They change with the screen and the panes, but
    /// not with dialogs.
    pub fn child_size(&self, scene: &Scene) -> (u16, u16) {
        layout::child_size(&layout_of(self, scene))
    }

    pub fn is_available(&self, action: Action, scene: &Scene) -> bool {
        is_available(self, action, scene)
    }

    /// Opens the OOM dialog because the last run rejected a remedy's change.
    pub fn open_remedies(&mut self, scene: &Scene) {
        open_oom(self, scene);
    }

    /// Opens the editor because the command that was typed in it has failed at once; says why.
    pub fn edit_again(&mut self, why: String, scene: &Scene) {
        let Some(command) = scene.planned(&[]) else {
            return;
        };
        let mut editor = Editor::new(command, Vec::new());
        editor.error = Some(why);
        self.dialog = Some(Dialog::Edit(editor));
    }

    /// Opens the dialog if the run ended with an OOM, and closes dialogs of an earlier run. To be
    /// called after events, before drawing.
    pub fn sync(&mut self, scene: &Scene) {
        self.device = self.device.min(scene.state.devices.len().saturating_sub(1));
        follow_device(self, scene.state);
        self.batches.follow(scene);
        self.time.follow(scene.state);
        self.fitted.follow(scene.state);
        follow_ranks(self, scene);
        choice::follow(self, scene);
        choice::follow_peak(self, scene);
        let Some(run) = scene.state.run() else {
            return;
        };
        let overtaken = match &self.dialog {
            Some(Dialog::Oom(open)) => open.run != run.number,
            Some(Dialog::Stop) => run.ended.is_some(),
            Some(Dialog::Quit | Dialog::Help(_) | Dialog::Edit(_) | Dialog::Search(_)) | None => {
                false
            }
        };
        if overtaken {
            self.dialog = None;
        }
        if run.ended.is_some() && self.keyboard == Keyboard::Training {
            self.keyboard = Keyboard::Oomph;
        }
        let asks = self.mode() != InputMode::Editing && scene.is_live() && scene.waiting.is_none();
        if run.outcome() == RunOutcome::OutOfMemory && self.offered != Some(run.number) && asks {
            self.offered = Some(run.number);
            select_device_of_oom(self, scene.state);
            choice::follow(self, scene);
            let dialog = OomDialog::new(run.number, scene);
            // Whoever has asked since what the step held, or what leaks, is looking at the answer.
            let ran_out = scene.state.oom().map(|oom| oom.at);
            match self.step_opened >= ran_out && self.step.is_some() {
                true => self.behind = Some(dialog),
                false => self.dialog = Some(Dialog::Oom(dialog)),
            }
        }
    }

    pub fn key(&mut self, key: KeyEvent, scene: &Scene) -> Option<Effect> {
        if key.kind == KeyEventKind::Release {
            return None;
        }
        self.notice = None;
        let mode = self.mode();
        let mut means = keymap::actions(mode, &key).peekable();
        if means.peek().is_some() {
            let action = means.find(|action| is_available(self, *action, scene));
            let must_stop = is_available(self, Action::StopAndRelaunch, scene);
            return match (action, &mut self.dialog) {
                (Some(action), _) => act(self, action, scene),
                (None, Some(Dialog::Edit(editor))) if must_stop => {
                    editor.error = Some(must_stop_first());
                    None
                }
                (None, Some(Dialog::Oom(_))) => {
                    if let Some(effect) = played(self, &key, scene) {
                        return Some(effect);
                    }
                    let asked = keymap::actions(mode, &key).next()?;
                    let why = no_use::in_dialog(asked, self, scene)?;
                    self.no_use(why, scene.state.now);
                    None
                }
                (None, None) if matches!(mode, InputMode::Watching | InputMode::Step) => {
                    let why = no_use::not_now(self, &key, scene);
                    self.say_no_use(why, scene)
                }
                (None, None) => None,
                (None, Some(_)) => None,
            };
        }
        let may_relaunch = is_available(self, Action::EditCommand, scene);
        match (mode, &mut self.dialog) {
            (InputMode::Typing, _) => {
                let application = self.output.screen().application_cursor();
                let bytes = emulator::key_bytes(&key, application);
                return (!bytes.is_empty()).then_some(Effect::Input(bytes));
            }
            (InputMode::Editing, Some(Dialog::Edit(editor))) => {
                editor.error = None;
                let before = editor.command();
                editor.line.key(&key);
                return foresee(editor, before);
            }
            (InputMode::Searching, _) => edit_search(self, |line| line.key(&key)),
            (InputMode::SearchingHelp, Some(Dialog::Help(help))) => {
                help.search(|line| line.key(&key));
            }
            (InputMode::Oom, Some(Dialog::Oom(dialog))) => {
                if may_relaunch && dialog.has_key(&key, scene) {
                    return dialog.remedy_key(&key, scene);
                }
                return without_remedy(self, &key, scene);
            }
            (InputMode::Watching | InputMode::Step, None) => {
                let has_dialog = is_available(self, Action::OpenOom, scene);
                return self.say_no_use(no_use::nowhere(mode, &key, has_dialog), scene);
            }
            (_, _) => {}
        }
        None
    }

    /// A key of a burst that began before the dialog opened: it answers nothing, but may look about, and else says that it was heard.
    pub fn key_from_before(&mut self, key: KeyEvent, scene: &Scene) -> Option<Effect> {
        let mode = self.mode();
        let looks = match mode {
            InputMode::Oom | InputMode::Watching | InputMode::Step => {
                let mut means = keymap::actions(mode, &key);
                let action = means.find(|action| is_available(self, *action, scene));
                // From a step it is back to the dialog.
                let is_back = mode == InputMode::Step && action == Some(Action::Back);
                is_back || action.is_some_and(|action| action.reach() != ActionReach::Does)
            }
            InputMode::Editing
            | InputMode::Quitting
            | InputMode::Stopping
            | InputMode::Helping
            | InputMode::SearchingHelp
            | InputMode::Searching
            | InputMode::Selecting
            | InputMode::Typing => false,
        };
        match looks {
            true => self.key(key, scene),
            false => self.say_no_use(no_use::from_before(&key), scene),
        }
    }

    fn say_no_use(&mut self, why: Option<String>, scene: &Scene) -> Option<Effect> {
        if let Some(why) = why {
            self.no_use(why, scene.state.now);
        }
        None
    }

    /// Takes it that the last keys were a line of text which somebody meant for another window.
    pub fn took_text(&mut self, scene: &Scene) {
        if matches!(
            self.dialog,
            Some(Dialog::Quit | Dialog::Stop | Dialog::Help(_))
        ) {
            self.dialog = None;
        }
        self.notice = Some((Notice::Text, scene.state.now));
    }

    /// Takes it that Ctrl-C ended such a line.
    pub fn held_interrupt(&mut self, scene: &Scene) {
        self.notice = Some((Notice::HeldInterrupt, scene.state.now));
    }

    pub fn paste(&mut self, text: &str, scene: &Scene) -> Option<Effect> {
        match (self.mode(), &mut self.dialog) {
            (InputMode::Typing, _) => {
                let bracketed = self.output.screen().bracketed_paste();
                return Some(Effect::Input(emulator::pasted_bytes(text, bracketed)));
            }
            (InputMode::Editing, Some(Dialog::Edit(editor))) => {
                editor.error = None;
                let before = editor.command();
                editor.line.paste(text);
                return foresee(editor, before);
            }
            (InputMode::Searching, _) => {
                let first = text.lines().next().unwrap_or_default();
                edit_search(self, |line| line.paste(first));
            }
            (InputMode::SearchingHelp, Some(Dialog::Help(help))) => {
                let first = text.lines().next().unwrap_or_default();
                help.search(|line| line.paste(first));
            }
            (_, _) if scene.is_running() => self.took_text(scene),
            (_, _) => {}
        }
        None
    }
}

/// A key of the dialog that no remedy here has: the screen's own `s`, or why nothing happens.
fn without_remedy(view: &mut View, key: &KeyEvent, scene: &Scene) -> Option<Effect> {
    let Some(Dialog::Oom(dialog)) = &view.dialog else {
        return None;
    };
    let why = dialog.why_nothing(key, scene);
    let opens_step = keymap::actions(InputMode::Watching, key).any(|is| is == Action::OpenStep);
    if opens_step && is_available(view, Action::OpenFailedStep, scene) {
        return act(view, Action::OpenFailedStep, scene);
    }
    if let Some(effect) = played(view, key, scene) {
        return Some(effect);
    }
    view.told(why?, scene.state.now);
    None
}

/// What a key that the dialog has no use for does to the playback of a recording, which goes on behind the dialog.
fn played(view: &mut View, key: &KeyEvent, scene: &Scene) -> Option<Effect> {
    let plays = keymap::actions(InputMode::Watching, key).find(|action| {
        matches!(
            action,
            Action::Faster | Action::Slower | Action::PlayOrPause | Action::Seek(_)
        )
    });
    let plays = plays.filter(|action| is_available(view, *action, scene))?;
    view.dialog = None;
    act(view, plays, scene)
}

/// Why Enter in the editor starts nothing.
fn must_stop_first() -> String {
    let mut bindings = keymap::bindings(InputMode::Editing);
    let stops = bindings.find(|binding| binding.action == Action::StopAndRelaunch);
    let key = stops.map_or(String::new(), |stops| keymap::names(stops.keys, &UNICODE));
    format!("the training is still running: {key} stops it and starts this command")
}

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
        Action::OtherHeight => {
            view.height = view.height.other(scene.state, view.device(scene.state))
        }
        Action::Up => scroll(view, Scroll::Up(1), scene),
        Action::Down => scroll(view, Scroll::Down(1), scene),
        Action::PageUp => scroll(view, Scroll::Up(page(view, scene)), scene),
        Action::PageDown => scroll(view, Scroll::Down(page(view, scene)), scene),
        Action::ToStart => scroll(view, Scroll::Start, scene),
        Action::ToEnd => scroll(view, Scroll::End, scene),
        Action::OpenStep => choice::open(view, scene),
        Action::Step(wanted) => {
            if view.step.is_none() {
                choice::open(view, scene);
            }
            return choice::go(view, wanted, scene);
        }
        Action::SaveSnapshot => {
            view.notice = Some((Notice::Snapshot, scene.state.now));
            return choice::askable(view, scene).map(Effect::SaveSnapshot);
        }
        Action::OpenFailedStep => {
            put_behind(view);
            choice::open_failed(view, scene);
        }
        Action::OpenLeak => {
            put_behind(view);
            choice::open_leak(view, scene);
        }
        Action::Flame(step) => choice::move_in_flame(view, step),
        Action::WriteReport => {
            view.told("writing the report".into(), scene.state.now);
            return Some(Effect::WriteReport);
        }
        Action::RelaunchUnchanged => {
            view.dialog = None;
            return Some(Effect::Relaunch {
                remedies: Vec::new(),
                command: None,
            });
        }
        Action::OpenOom => open_oom(view, scene),
        Action::EditCommand => return open_editor(view, scene),
        Action::TypeToTraining => {
            show_output(view);
            view.keyboard = Keyboard::Training;
            view.output.scroll(Scroll::End);
        }
        Action::Search => match &mut view.dialog {
            Some(Dialog::Help(help)) => help.is_typed = true,
            Some(_) | None => open_search(view),
        },
        Action::SearchOlder => view.output.search_next(SearchDirection::Older),
        Action::SearchNewer => view.output.search_next(SearchDirection::Newer),
        Action::KeepSearch => match &mut view.dialog {
            Some(Dialog::Help(help)) => help.is_typed = false,
            Some(_) | None => keep_search(view),
        },
        Action::EndSearch => view.output.end_search(),
        Action::Select => begin_selecting(view, None),
        Action::Copy if view.keyboard == Keyboard::Selection => {
            return copy_selected(view, scene);
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
        Action::Interrupt => return interrupt(view, scene),
        Action::Suspend => return Some(Effect::Suspend),
        Action::Redraw => return Some(Effect::Redraw),
        Action::NextTheme => {
            view.theme = view.theme.next();
            view.notice = Some((Notice::Theme, scene.state.now));
        }
        Action::Mouse => {
            view.mouse = match view.mouse {
                Mouse::Off => Mouse::On,
                Mouse::On => Mouse::Off,
            };
            view.notice = Some((Notice::Mouse, scene.state.now));
        }
        Action::PlayOrPause => return Some(Effect::Replay(ReplayControl::PlayOrPause)),
        Action::Faster => return Some(Effect::Replay(ReplayControl::Faster)),
        Action::Slower => return Some(Effect::Replay(ReplayControl::Slower)),
        Action::Seek(target) => return Some(Effect::Replay(ReplayControl::Seek(target))),
        Action::Combine => {
            if let Some(Dialog::Oom(dialog)) = &mut view.dialog {
                dialog.combine(scene);
                let combined = (dialog.chosen.len() > 1).then(|| dialog.chosen.clone());
                return combined
                    .and_then(|ids| scene.planned(&ids))
                    .map(Effect::Foresee);
            }
        }
        Action::Details => {
            if let Some(Dialog::Oom(dialog)) = &mut view.dialog {
                dialog.toggle_details(scene);
            }
        }
        Action::NextSection => {
            if let Some(Dialog::Oom(dialog)) = &mut view.dialog {
                let reading = oom::scrolling(view.size, &view.theme, dialog, scene);
                dialog.next_section(&reading.sections, reading.most);
            }
        }
        Action::Relaunch => {
            return match &view.dialog {
                Some(Dialog::Oom(dialog)) if dialog.line_in_code(scene).is_some() => {
                    dialog.edit_in_code(scene)
                }
                Some(_) | None => relaunch(view, scene),
            };
        }
        Action::StopAndRelaunch => return relaunch(view, scene),
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

/// The dialog is to come back where the step that it opens is closed.
fn put_behind(view: &mut View) {
    view.behind = match view.dialog.take() {
        Some(Dialog::Oom(dialog)) => Some(dialog),
        Some(_) | None => None,
    };
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
    let tabs = layout_of(view, scene).tabs;
    let by = by.min(tabs.len().saturating_sub(1));
    view.pane = stepped(&tabs, view.pane, by);
    view.list = ListScroll::default();
}

fn show_pane(view: &mut View, number: u8, scene: &Scene) {
    let tabs = layout_of(view, scene).tabs;
    if let Some(pane) = tabs.iter().find(|pane| pane.number() == number) {
        view.pane = *pane;
        view.list = ListScroll::default();
    }
}

fn step_device(view: &mut View, by: usize, scene: &Scene) {
    view.device = match rank_map::is_wanted(scene.state) {
        true => stepped(&rank_map::order(scene.state), view.device, by),
        false => (view.device + by) % scene.state.devices.len().max(1),
    };
    choice::follow(view, scene);
}

/// What is `by` places after `from` in a row, wrapping around; the first of the row where `from` is not in it.
fn stepped<T: Copy + PartialEq>(row: &[T], from: T, by: usize) -> T {
    let at = row.iter().position(|other| *other == from);
    let next = at.map_or(0, |at| (at + by) % row.len().max(1));
    row.get(next).copied().unwrap_or(from)
}

fn step_standout(view: &mut View, scene: &Scene) {
    view.device = stepped(&rank_map::outliers(scene.state), view.device, 1);
    choice::follow(view, scene);
}

fn open_oom(view: &mut View, scene: &Scene) {
    if let Some(run) = scene.state.run() {
        // What stands around the dialog is of the same rank.
        select_device_of_oom(view, scene.state);
        choice::follow(view, scene);
        view.dialog = Some(Dialog::Oom(OomDialog::new(run.number, scene)));
    }
}

/// Asks what the edited command would need, where it is another one than before.
fn foresee(editor: &Editor, before: Option<CommandLine>) -> Option<Effect> {
    let now = editor.command().filter(|now| before.as_ref() != Some(now));
    now.map(Effect::Foresee)
}

fn open_editor(view: &mut View, scene: &Scene) -> Option<Effect> {
    let remedies = match &view.dialog {
        Some(Dialog::Oom(dialog)) => dialog.to_apply(scene),
        Some(_) | None => Vec::new(),
    };
    let mut editor = Editor::new(scene.planned(&remedies)?, remedies);
    editor.is_over_oom = matches!(view.dialog, Some(Dialog::Oom(_)));
    let asked = foresee(&editor, None);
    view.dialog = Some(Dialog::Edit(editor));
    asked
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
    // Whoever looked at a moment of this run wants to see the next one.
    view.time
        .apply(chart::Move::Reset, scene.state.now, view.size.width);
    Some(effect)
}

/// One step back: from the details to the brief dialog, from the editor or the help to the dialog
/// it was opened from, from a dialog to the panes.
fn back(view: &mut View, scene: &Scene) {
    let selecting = std::mem::take(&mut view.keyboard) == Keyboard::Selection;
    let read = view.step.as_mut().and_then(StepView::read_mut);
    if let (None, Some(read)) = (&view.dialog, read.filter(|read| read.row_is_open)) {
        read.row_is_open = false;
        return;
    }
    if view.dialog.is_none() && view.step.take().is_some() {
        let run = scene.state.run().map(|run| run.number);
        let behind = view.behind.take();
        view.dialog = behind
            .filter(|dialog| Some(dialog.run) == run)
            .map(Dialog::Oom);
        return;
    }
    if let Some(Dialog::Help(help)) = &mut view.dialog
        && help.forget_search()
    {
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
        (Some(Dialog::Edit(editor)), Some(run)) if editor.is_over_oom => {
            let mut dialog = OomDialog::new(run.number, scene);
            if !editor.remedies().is_empty() {
                dialog.choose(editor.remedies());
            }
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

/// Ctrl-C interrupts a running training, or else quits oomph. On a screen that was attached from another terminal it must be
/// pressed twice.
fn interrupt(view: &mut View, scene: &Scene) -> Option<Effect> {
    if !scene.is_running() {
        return Some(QUIT);
    }
    let now = scene.state.now;
    match view.interrupts {
        Interrupts::PressedTwice(before) if before.is_none_or(|at| now.since(at) >= NOTICE) => {
            view.interrupts = Interrupts::PressedTwice(Some(now));
            view.held_interrupt(scene);
            None
        }
        Interrupts::AtOnce | Interrupts::PressedTwice(_) => Some(Effect::Interrupt),
    }
}

fn toggled(now: Maximized, wanted: Maximized) -> Maximized {
    match now == wanted {
        true => Maximized::Nothing,
        false => wanted,
    }
}

#[cfg(test)]
mod act_tests {
    use super::*;
    use crate::ui::pane::Pane;

    #[test]
    fn stepping_goes_round() {
        let row = [Pane::Output, Pane::Runs, Pane::Events];
        assert_eq!(stepped(&row, Pane::Output, 1), Pane::Runs);
        assert_eq!(stepped(&row, Pane::Events, 1), Pane::Output);
        assert_eq!(stepped(&row, Pane::Output, row.len() - 1), Pane::Events);
        assert_eq!(stepped(&row, Pane::Devices, 1), Pane::Output);
        assert_eq!(stepped(&[], Pane::Devices, 1), Pane::Devices);
    }
}
