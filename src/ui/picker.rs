//! The picker of sessions, which `oomph` alone shows: those that wait, run and have ended, as data that keys
//! change. What is opened is somebody else's.

mod command;
mod draw;
mod keys;

use super::canvas::Canvas;
use super::editor::LineEdit;
use super::theme::Theme;
use crate::units::Bytes;
pub(super) use keys::listed as listed_keys;
use keys::{PickerAction, PickerMode};
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{
    KeyCode, KeyEvent, KeyEventKind, MouseButton, MouseEvent, MouseEventKind,
};
use ratatui::layout::{Position, Rect};
use std::time::Duration;

/// What a session is to somebody who looks for one; in the order of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SessionGroup {
    /// It has run out of memory and asks what to do.
    Waiting,
    Running,
    /// It has ended.
    Ended,
}

/// A session of the list.
#[derive(Debug, Clone, PartialEq)]
pub struct PickerRow {
    pub id: String,
    pub group: SessionGroup,
    /// `running`, `out of memory, run 2`, `running on gpu-7, heard 3 s ago`.
    pub state: String,
    /// The same in few words, for where that has no room.
    pub brief: String,
    /// What is to be said of it below the list, a line each.
    pub told: Vec<String>,
    /// Whether it went wrong.
    pub has_failed: bool,
    pub took: Option<Duration>,
    pub peak: Option<Bytes>,
    /// When it began: `Nov 24 18:23`.
    pub since: String,
    /// The same to order them by, in seconds since 1970.
    pub began: i64,
    /// `2 × NVIDIA H200`; empty where it used none.
    pub device: String,
    pub command: String,
}

impl PickerRow {
    fn has(&self, text: &str) -> bool {
        let sought = text.to_lowercase();
        let words = [&self.id, &self.state, &self.device, &self.command];
        words
            .iter()
            .any(|words| words.to_lowercase().contains(&sought))
    }
}

/// How a session is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// By a screen of its own: it goes on.
    Screen,
    /// One that has ended, at its end.
    End,
    /// The same, from its beginning.
    Beginning,
}

/// What a key asks for that the list cannot do itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PickerEffect {
    /// Open this session.
    Open {
        id: String,
        how: Opening,
    },
    Quit,
    Suspend,
    Redraw,
}

/// The list, what is selected in it and searched for.
#[derive(Debug, Clone)]
pub struct Picker {
    rows: Vec<PickerRow>,
    /// Whether recordings are still being read.
    is_reading: bool,
    filter: LineEdit,
    is_typed: bool,
    /// The selected session, by its name: rows come and go.
    selected: Option<String>,
    /// The session to select once it is in the list: the one that the user comes back from.
    awaited: Option<String>,
    /// What was selected when the filter was begun, to go back to when it is given up.
    before_filter: Option<String>,
    /// The first row that is shown.
    first: usize,
    size: Rect,
    /// Whether the keys are listed in the sessions' place.
    is_helping: bool,
}

impl Picker {
    pub fn new(width: u16, height: u16) -> Picker {
        Picker {
            rows: Vec::new(),
            is_reading: true,
            filter: LineEdit::default(),
            is_typed: false,
            selected: None,
            awaited: None,
            before_filter: None,
            first: 0,
            size: Rect::new(0, 0, width, height),
            is_helping: false,
        }
    }

    pub fn resize(&mut self, width: u16, height: u16) {
        self.size = Rect::new(0, 0, width, height);
        self.follow();
    }

    /// Selects the session of this name once it is in the list, unless another was selected by then.
    pub fn await_session(&mut self, id: String) {
        self.awaited = Some(id);
    }

    /// Takes what there is now; `is_complete` once the recordings were read.
    pub fn take(&mut self, mut rows: Vec<PickerRow>, is_complete: bool) {
        rows.sort_by_key(|row| (row.group, std::cmp::Reverse(row.began)));
        let is_there = |id: &mut String| rows.iter().any(|row| row.id == *id);
        if let Some(awaited) = self.awaited.take_if(is_there) {
            self.selected = Some(awaited);
        }
        self.rows = rows;
        self.is_reading = !is_complete;
        self.follow();
    }

    /// The rows that the filter leaves.
    fn shown(&self) -> impl Iterator<Item = &PickerRow> {
        let rows = self.rows.iter();
        rows.filter(|row| row.has(self.filter.text()))
    }

    /// The place of the selected row among those that are shown.
    fn place(&self) -> Option<usize> {
        let selected = self.selected.as_ref()?;
        self.shown().position(|row| row.id == *selected)
    }

    fn chosen(&self) -> Option<&PickerRow> {
        self.shown().nth(self.place()?)
    }

    fn select(&mut self, place: usize) {
        self.awaited = None;
        let last = self.shown().count().saturating_sub(1);
        let chosen = self.shown().nth(place.min(last)).map(|row| row.id.clone());
        self.selected = chosen;
        self.follow();
    }

    /// Selects something, where what was selected is gone, and keeps it in sight.
    fn follow(&mut self) {
        let place = match self.place() {
            Some(place) => place,
            None => {
                let first = self.shown().next().map(|row| row.id.clone());
                self.selected = first;
                0
            }
        };
        let rows = usize::from(self.places().rows.height).max(1);
        let most = self.shown().count().saturating_sub(rows);
        let first = self.first.clamp((place + 1).saturating_sub(rows), place);
        self.first = first.min(most);
    }

    fn places(&self) -> draw::PickerPlaces {
        draw::places(self.size, self.shown().count())
    }

    fn mode(&self) -> PickerMode {
        match self.is_typed {
            true => PickerMode::Filtering,
            false => PickerMode::Choosing,
        }
    }

    pub fn key(&mut self, key: KeyEvent) -> Option<PickerEffect> {
        if key.kind == KeyEventKind::Release {
            return None;
        }
        if std::mem::take(&mut self.is_helping) {
            let leaves = keys::action(PickerMode::Choosing, &key) == Some(PickerAction::Quit);
            return (leaves && key.code != KeyCode::Char('q')).then_some(PickerEffect::Quit);
        }
        match (keys::action(self.mode(), &key), self.is_typed) {
            (Some(action), _) => self.act(action),
            (None, true) => {
                self.filter.key(&key);
                self.first = 0;
                self.select(0);
                None
            }
            (None, false) => None,
        }
    }

    pub fn paste(&mut self, text: &str) {
        if self.is_typed {
            self.filter.paste(text);
            self.select(0);
        }
    }

    /// A click selects a session and opens the selected one; the wheel goes through the list.
    pub fn mouse(&mut self, event: MouseEvent) -> Option<PickerEffect> {
        match event.kind {
            MouseEventKind::ScrollUp => self.act(PickerAction::Up),
            MouseEventKind::ScrollDown => self.act(PickerAction::Down),
            MouseEventKind::Down(MouseButton::Left) => {
                let rows = self.places().rows;
                let at = Position::new(event.column, event.row);
                let row = rows
                    .contains(at)
                    .then(|| usize::from(at.y - rows.y) + self.first)?;
                if row >= self.shown().count() {
                    return None;
                }
                if self.place() == Some(row) {
                    return self.act(PickerAction::Open);
                }
                self.select(row);
                None
            }
            _ => None,
        }
    }

    fn act(&mut self, action: PickerAction) -> Option<PickerEffect> {
        let place = self.place().unwrap_or(0);
        let page = usize::from(self.places().rows.height).max(2) - 1;
        match action {
            PickerAction::Up => self.select(place.saturating_sub(1)),
            PickerAction::Down => self.select(place + 1),
            PickerAction::PageUp => self.select(place.saturating_sub(page)),
            PickerAction::PageDown => self.select(place + page),
            PickerAction::ToStart => self.select(0),
            PickerAction::ToEnd => self.select(usize::MAX),
            PickerAction::Open | PickerAction::Play => {
                let row = self.chosen()?;
                let how = match (row.group, action) {
                    (SessionGroup::Waiting | SessionGroup::Running, _) => Opening::Screen,
                    (SessionGroup::Ended, PickerAction::Play) => Opening::Beginning,
                    (SessionGroup::Ended, _) => Opening::End,
                };
                return Some(PickerEffect::Open {
                    id: row.id.clone(),
                    how,
                });
            }
            PickerAction::Help => self.is_helping = true,
            PickerAction::Filter => {
                if self.filter.text().is_empty() {
                    self.before_filter.clone_from(&self.selected);
                }
                self.is_typed = true;
            }
            PickerAction::KeepFilter => self.is_typed = false,
            PickerAction::EndFilter if self.is_typed || !self.filter.text().is_empty() => {
                self.is_typed = false;
                self.filter = LineEdit::default();
                // Enter opens what was selected before, not what the filter that was given up had left.
                if let Some(before) = self.before_filter.take() {
                    self.selected = Some(before);
                }
                self.follow();
            }
            PickerAction::EndFilter | PickerAction::Quit => return Some(PickerEffect::Quit),
            PickerAction::Suspend => return Some(PickerEffect::Suspend),
            PickerAction::Redraw => return Some(PickerEffect::Redraw),
        }
        None
    }
}

/// Draws the list on a whole frame.
pub fn draw(frame: &mut Frame, picker: &Picker, theme: &Theme) {
    let area = frame.area();
    if let Some(at) = draw_picker(frame.buffer_mut(), area, picker, theme) {
        frame.set_cursor_position(at);
    }
}

/// Draws it; returns where the text cursor belongs, if anywhere.
pub(super) fn draw_picker(
    buf: &mut Buffer,
    area: Rect,
    picker: &Picker,
    theme: &Theme,
) -> Option<Position> {
    draw::whole(&mut Canvas { buf, area, theme }, picker)
}
