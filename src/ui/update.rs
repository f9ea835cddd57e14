//! Changes to a [`View`] by keys, pasted text, the mouse, and what happened in the session. What
//! the loop has to carry out is returned as an [`Effect`].

use super::act;
use super::action::{Action, Effect};
use super::available::is_available;
use super::chart::{self, Move};
use super::dialog::{Dialog, OomDialog};
use super::dialogs;
use super::keymap::{self, InputMode};
use super::layout::{self, layout_of};
use super::pane::Pane;
use super::pane::rank_map;
use super::scene::Scene;
use super::step::choice;
use super::theme::UNICODE;
use super::view::{Keyboard, Notice, View};
use crate::recognize::{LaunchEnvironment, WorkloadKey};
use crate::state::{RunOutcome, State};
use crate::ui::emulator;
use crate::units::Uuid;
use ratatui::crossterm::event::{KeyEvent, KeyEventKind, MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::{Position, Rect};
use std::time::Duration;

impl View {
    /// The screen has a new size.
    pub fn resize(&mut self, width: u16, height: u16) {
        self.size = Rect::new(0, 0, width, height);
    }

    /// How long a column of the chart lasts, if there is a chart.
    pub fn chart_column(&self, scene: &Scene) -> Option<Duration> {
        let chart = layout_of(self, scene).chart()?;
        let window = self
            .time
            .window(scene.state.now, chart::plot_of(chart).width);
        Some(Duration::from_micros(window.column_us()))
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
        act::open_oom(self, scene);
    }

    /// Opens the dialog if the run ended with an OOM, and closes dialogs of an earlier run. To be
    /// called after events, before drawing.
    pub fn sync(&mut self, scene: &Scene) {
        self.device = self.device.min(scene.state.devices.len().saturating_sub(1));
        follow_device(self, scene.state);
        read_batches(self, scene.state);
        self.time.follow(scene.state);
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
            self.dialog = Some(Dialog::Oom(OomDialog::new(run.number, scene)));
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
                (Some(action), _) => act::act(self, action, scene),
                (None, Some(Dialog::Edit(editor))) if must_stop => {
                    editor.error = Some(must_stop_first());
                    None
                }
                (None, _) => None,
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
                editor.line.key(&key);
            }
            (InputMode::Searching, _) => act::edit_search(self, |line| line.key(&key)),
            (InputMode::Oom, Some(Dialog::Oom(dialog))) if may_relaunch => {
                return dialog.remedy_key(&key, scene);
            }
            (_, _) => {}
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
                editor.line.paste(text);
            }
            (InputMode::Searching, _) => {
                let first = text.lines().next().unwrap_or_default();
                act::edit_search(self, |line| line.paste(first));
            }
            (_, _) if scene.is_running() => self.took_text(scene),
            (_, _) => {}
        }
        None
    }

    /// A click selects a remedy or puts the chart's cursor, the wheel scrolls or zooms the chart,
    /// and dragging selects rows of the output.
    pub fn mouse(&mut self, event: MouseEvent, scene: &Scene) -> Option<Effect> {
        let chart = layout_of(self, scene).chart();
        let at = Position::new(event.column, event.row);
        let on_chart = self.dialog.is_none()
            && self.step.is_none()
            && chart.is_some_and(|area| area.contains(at));
        let action = match (event.kind, on_chart) {
            (MouseEventKind::ScrollUp, true) => Action::Time(Move::In),
            (MouseEventKind::ScrollDown, true) => Action::Time(Move::Out),
            (MouseEventKind::ScrollUp, false) => Action::Up,
            (MouseEventKind::ScrollDown, false) => Action::Down,
            (MouseEventKind::Drag(MouseButton::Left), false) if self.mode() != InputMode::Step => {
                act::drag(self, at, scene);
                return None;
            }
            (
                MouseEventKind::Down(MouseButton::Left) | MouseEventKind::Drag(MouseButton::Left),
                _,
            ) => {
                self.pressed = at;
                match (on_chart, self.mode()) {
                    (true, _) => point(self, at, scene),
                    (false, InputMode::Step) => choice::point(self, at, scene),
                    (false, _) => click(self, at, scene),
                }
                return None;
            }
            (_, _) => return None,
        };
        let bound = keymap::bindings(self.mode()).any(|binding| binding.action == action);
        (bound && is_available(self, action, scene))
            .then(|| act::act(self, action, scene))
            .flatten()
    }
}

/// Why Enter in the editor starts nothing.
fn must_stop_first() -> String {
    let mut bindings = keymap::bindings(InputMode::Editing);
    let stops = bindings.find(|binding| binding.action == Action::StopAndRelaunch);
    let key = stops.map_or(String::new(), |stops| keymap::names(stops.keys, &UNICODE));
    format!("the training is still running: {key} stops it and starts this command")
}

fn read_batches(view: &mut View, state: &State) {
    let newest = view.batches.last().map(|(number, _)| *number);
    if newest == state.run().map(|run| run.number) {
        return;
    }
    (view.batches).retain(|(number, _)| state.run_numbered(*number).is_some());
    for run in (state.runs.iter()).filter(|run| Some(run.number) > newest) {
        let batch = WorkloadKey::new(&run.command, &LaunchEnvironment::default()).batch;
        view.batches.push((run.number, batch));
    }
}

/// Keeps what the map of ranks shows, where it is on the screen.
fn follow_ranks(view: &mut View, scene: &Scene) {
    let before = view.rank_map.take();
    let is_placed = || layout_of(view, scene).place(Pane::Devices).is_some();
    if rank_map::is_wanted(scene.state) && (view.pane == Pane::Devices || is_placed()) {
        view.rank_map = rank_map::followed(before, scene.state);
    }
}

/// Selects the first device that the run uses, until the user selects another.
fn follow_device(view: &mut View, state: &State) {
    let Some(run) = state.run().filter(|_| view.device == view.followed) else {
        return;
    };
    let is_used = |uuid: &Uuid| (run.ranks.iter()).any(|rank| rank.device.as_ref() == Some(uuid));
    let mut devices = state.devices.iter();
    if let Some(first) = devices.position(|device| is_used(&device.uuid)) {
        view.device = first;
        view.followed = first;
    }
}

fn select_device_of_oom(view: &mut View, state: &State) {
    let device = state.oom().and_then(|oom| oom.device.as_ref());
    let at = device.and_then(|uuid| state.devices.iter().position(|d| d.uuid == *uuid));
    view.device = at.unwrap_or(view.device);
}

/// Moves the chart's cursor to the mouse.
fn point(view: &mut View, at: Position, scene: &Scene) {
    if let Some(chart) = layout_of(view, scene).chart() {
        let plot = chart::plot_of(chart);
        let column = at.x.saturating_sub(plot.x);
        view.time.point(column, scene.state.now, plot.width);
    }
}

fn click(view: &mut View, at: Position, scene: &Scene) {
    if let Some(Dialog::Oom(dialog)) = &mut view.dialog
        && let Some(row) = dialogs::oom::remedy_at(view.size, &view.theme, dialog, scene, at)
    {
        dialog.select(row, scene.remedies);
    }
}
