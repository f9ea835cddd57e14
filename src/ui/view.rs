//! How the user wants to see the session: which pane, which dialog, which stretch of time. Keys
//! change it and may ask the loop for an effect; drawing only reads it.

mod available;
mod carry_out;
mod list;
mod reading;

pub use list::List;

use super::action::{Action, Effect};
use super::chart::{Height, Move, TimeView};
use super::dialog::{Dialog, OomDialog};
use super::keymap::{self, Mode};
use super::layout::{self, Layout};
use super::pane::Pane;
use super::scene::Scene;
use super::theme::Theme;
use super::typing;
use crate::remedy;
use crate::state::{DeviceState, Outcome, State};
use crate::units::{Moment, RunNumber};
use ratatui::crossterm::event::{KeyEvent, KeyEventKind, MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::{Position, Rect};
use std::time::Duration;

/// How the screen is shared out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Spread {
    /// Chart and pane together.
    #[default]
    Together,
    /// The chart alone.
    Chart,
    /// The pane alone.
    Pane,
}

/// Whose the keyboard is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Keyboard {
    /// Ours.
    #[default]
    Oomph,
    /// Ours, to select rows of the output.
    Selection,
    /// The training's.
    Training,
}

/// Whose the mouse is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mouse {
    /// The terminal's own, to select text.
    #[default]
    Terminal,
    /// Ours.
    Oomph,
}

/// What a key has done that nothing else on the screen shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    /// Something was copied.
    Copied,
    /// Another theme was put on.
    Theme,
}

/// How long it is said.
const SAID: Duration = Duration::from_secs(2);

/// How the user wants to see the session.
#[derive(Debug, Clone)]
pub struct View {
    /// Colours and glyphs.
    pub theme: Theme,
    pub(super) size: Rect,
    pub(super) pane: Pane,
    pub(super) spread: Spread,
    pub(super) device: usize,
    pub(super) time: TimeView,
    pub(super) height: Height,
    /// The run that is laid over the chart.
    pub(super) compared: Option<RunNumber>,
    pub(super) list: List,
    pub(super) dialog: Option<Dialog>,
    pub(super) keyboard: Keyboard,
    pub(super) mouse: Mouse,
    /// Where the mouse's button went down.
    pressed: Position,
    /// What the runs' commands say their batch is: read once a run, not once a frame.
    batches: Vec<(RunNumber, Option<u64>)>,
    /// The run whose out-of-memory the dialog has been opened for unasked.
    offered: Option<RunNumber>,
    /// What the last key has done, and when.
    said: Option<(Said, Moment)>,
}

impl View {
    /// The view at the start of a session, on a screen of so many columns and rows.
    pub fn new(theme: Theme, width: u16, height: u16) -> View {
        View {
            theme,
            size: Rect::new(0, 0, width, height),
            pane: Pane::default(),
            spread: Spread::default(),
            device: 0,
            time: TimeView::default(),
            height: Height::default(),
            compared: None,
            batches: Vec::new(),
            list: List::default(),
            dialog: None,
            keyboard: Keyboard::default(),
            mouse: Mouse::default(),
            pressed: Position::default(),
            offered: None,
            said: None,
        }
    }

    /// The screen has another size.
    pub fn resize(&mut self, width: u16, height: u16) {
        self.size = Rect::new(0, 0, width, height);
    }

    /// Rows and columns that the program's terminal is to have on this screen. It changes with the
    /// screen and with the panes that are shown, never with a dialog over them.
    pub fn child_size(&self, scene: &Scene) -> (u16, u16) {
        layout::child_size(&self.layout(scene))
    }

    /// Goes along with what has happened: opens the dialog when the run ended by an out-of-memory,
    /// closes what a new run has overtaken. To be called after events, before drawing.
    pub fn sync(&mut self, scene: &Scene) {
        self.device = self.device.min(scene.state.devices.len().saturating_sub(1));
        self.read_batches(scene.state);
        let Some(run) = scene.state.run() else {
            return;
        };
        match &self.dialog {
            Some(Dialog::Oom(open)) if open.run != run.number => self.dialog = None,
            Some(Dialog::Stop) if run.ended.is_some() => self.dialog = None,
            Some(
                Dialog::Oom(_)
                | Dialog::Stop
                | Dialog::Quit
                | Dialog::Help(_)
                | Dialog::Edit(_)
                | Dialog::Find(_),
            )
            | None => {}
        }
        if run.ended.is_some() && self.keyboard == Keyboard::Training {
            self.keyboard = Keyboard::Oomph;
        }
        let waits = !self.is_editing() && scene.replay.is_none() && scene.waiting.is_none();
        if run.outcome() == Outcome::OutOfMemory && self.offered != Some(run.number) && waits {
            self.offered = Some(run.number);
            self.select_device_of_oom(scene.state);
            self.dialog = Some(Dialog::Oom(OomDialog::of(run.number, scene.remedies)));
        }
    }

    fn read_batches(&mut self, state: &State) {
        for run in &state.runs[self.batches.len().min(state.runs.len())..] {
            let recognised = remedy::recognise(&run.command, &remedy::Context::default());
            let batch = remedy::batch_of(&run.command, &recognised);
            self.batches
                .push((run.number, batch.map(|batch| batch.value)));
        }
    }

    /// The batch that a run's command says, where it can be read.
    pub(super) fn batch_of(&self, run: RunNumber) -> Option<u64> {
        let of = |(number, batch): &(RunNumber, Option<u64>)| (*number == run).then_some(*batch);
        self.batches.iter().find_map(of).flatten()
    }

    fn select_device_of_oom(&mut self, state: &State) {
        let device = state.oom().and_then(|oom| oom.device.as_ref());
        let at = device.and_then(|uuid| state.devices.iter().position(|d| d.uuid == *uuid));
        self.device = at.unwrap_or(self.device);
    }

    fn is_editing(&self) -> bool {
        matches!(self.dialog, Some(Dialog::Edit(_)))
    }

    /// What keys mean at the moment.
    pub fn mode(&self) -> Mode {
        match (&self.dialog, self.keyboard) {
            (Some(Dialog::Oom(_)), _) => Mode::Oom,
            (Some(Dialog::Edit(_)), _) => Mode::Editing,
            (Some(Dialog::Quit), _) => Mode::Quitting,
            (Some(Dialog::Stop), _) => Mode::Stopping,
            (Some(Dialog::Help(_)), _) => Mode::Helping,
            (Some(Dialog::Find(_)), _) => Mode::Finding,
            (None, Keyboard::Selection) => Mode::Selecting,
            (None, Keyboard::Training) => Mode::Typing,
            (None, Keyboard::Oomph) => Mode::Watching,
        }
    }

    /// Takes a key.
    pub fn key(&mut self, key: KeyEvent, scene: &Scene) -> Option<Effect> {
        if key.kind == KeyEventKind::Release {
            return None;
        }
        self.said = None;
        let mode = self.mode();
        let mut means = keymap::actions(mode, &key).peekable();
        if means.peek().is_some() {
            let action = means.find(|action| self.is_available(*action, scene))?;
            return self.carry_out(action, scene);
        }
        let may_relaunch = self.is_available(Action::Relaunch, scene);
        match (mode, &mut self.dialog) {
            (Mode::Typing, _) => {
                let application = scene.child.screen().application_cursor();
                let bytes = typing::bytes(&key, application);
                (!bytes.is_empty()).then_some(Effect::Input(bytes))
            }
            (Mode::Editing, Some(Dialog::Edit(editor))) => {
                editor.key(&key);
                None
            }
            (Mode::Finding, _) => self.key_of_text(&key),
            (Mode::Oom, Some(Dialog::Oom(dialog))) if may_relaunch => {
                dialog.remedy_key(&key, scene)
            }
            (_, _) => None,
        }
    }

    /// Takes pasted text.
    pub fn paste(&mut self, text: &str, scene: &Scene) -> Option<Effect> {
        match (self.mode(), &mut self.dialog) {
            (Mode::Typing, _) => {
                let bracketed = scene.child.screen().bracketed_paste();
                Some(Effect::Input(typing::pasted(text, bracketed)))
            }
            (Mode::Editing, Some(Dialog::Edit(editor))) => {
                editor.paste(text);
                None
            }
            (Mode::Finding, _) => self.paste_into_text(text),
            (_, _) => None,
        }
    }

    /// Takes a mouse event: a click on a remedy selects it, the wheel scrolls what is under it or
    /// zooms the chart; the button puts the chart's cursor, and dragged over the output it selects rows.
    pub fn mouse(&mut self, event: MouseEvent, scene: &Scene) -> Option<Effect> {
        let layout = self.layout(scene);
        let at = Position::new(event.column, event.row);
        let on_chart =
            self.dialog.is_none() && layout.chart().is_some_and(|area| area.contains(at));
        let action = match (event.kind, on_chart) {
            (MouseEventKind::ScrollUp, true) => Action::Time(Move::In),
            (MouseEventKind::ScrollDown, true) => Action::Time(Move::Out),
            (MouseEventKind::ScrollUp, false) => Action::Up,
            (MouseEventKind::ScrollDown, false) => Action::Down,
            (MouseEventKind::Drag(MouseButton::Left), false) => return self.drag(at, scene),
            (MouseEventKind::Down(button) | MouseEventKind::Drag(button), true)
                if button == MouseButton::Left =>
            {
                self.pressed = at;
                self.point(at, scene);
                return None;
            }
            (MouseEventKind::Down(MouseButton::Left), _) => {
                self.pressed = at;
                self.click(at, scene);
                return None;
            }
            (_, _) => return None,
        };
        let listed = keymap::bindings(self.mode()).any(|binding| binding.action == action);
        (listed && self.is_available(action, scene))
            .then(|| self.carry_out(action, scene))
            .flatten()
    }

    /// The chart's cursor to where the mouse is.
    fn point(&mut self, at: Position, scene: &Scene) {
        if let Some(chart) = self.layout(scene).chart() {
            let plot = super::chart::plot_of(chart);
            let column = at.x.saturating_sub(plot.x);
            self.time.point(column, scene.state.now, plot.width);
        }
    }

    fn click(&mut self, at: Position, scene: &Scene) {
        let theme = self.theme;
        let size = self.size;
        if let Some(Dialog::Oom(dialog)) = &mut self.dialog
            && let Some(row) = super::dialog::oom_remedy_at(size, &theme, dialog, scene, at)
        {
            dialog.selected = row;
        }
    }

    /// What the last key has done, where that is still to be said.
    pub(super) fn said(&self, now: Moment) -> Option<Said> {
        let (said, at) = self.said?;
        (now.since(at) < SAID).then_some(said)
    }

    /// The device that is shown.
    pub fn device<'a>(&self, state: &'a State) -> Option<&'a DeviceState> {
        state
            .devices
            .get(self.device)
            .or_else(|| state.devices.last())
    }

    pub(super) fn layout(&self, scene: &Scene) -> Layout {
        layout::arrange(self.size, self.spread, scene.state)
    }
}
