//! How the user wants to see the session: which pane, which dialog, which stretch of time. Plain
//! data: `update` changes it, drawing reads it.

use super::chart::{Height, TimeView};
use super::child::ChildScreen;
use super::dialog::Dialog;
use super::keymap::InputMode;
use super::list::ListScroll;
use super::pane::Pane;
use super::theme::Theme;
use crate::state::{DeviceState, State};
use crate::units::{Moment, RunNumber};
use ratatui::layout::{Position, Rect};
use std::time::Duration;

/// What has the whole screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Maximized {
    /// Nothing: chart and panes share it.
    #[default]
    Nothing,
    /// The chart.
    Chart,
    /// The pane below the chart.
    Pane,
}

/// Where keys go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Keyboard {
    /// To oomph.
    #[default]
    Oomph,
    /// To oomph, to select rows of the output.
    Selection,
    /// To the training.
    Training,
}

/// Who has the mouse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Mouse {
    /// The terminal, to select text.
    #[default]
    Terminal,
    /// oomph.
    Oomph,
}

/// What a key has done that nothing else on the screen shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Notice {
    /// Something was copied.
    Copied,
    /// Another theme was put on.
    Theme,
    /// A line of text was typed, which goes nowhere.
    Text,
    /// Ctrl-C at the end of such a line was not sent.
    HeldInterrupt,
}

/// How long a notice stands.
const NOTICE: Duration = Duration::from_secs(2);

/// How the user wants to see the session.
#[derive(Debug)]
pub struct View {
    /// Colours and glyphs.
    pub theme: Theme,
    /// The program's own terminal, scrolled, searched and selected as the user wants.
    pub output: ChildScreen,
    pub(super) size: Rect,
    pub(super) pane: Pane,
    pub(super) maximized: Maximized,
    pub(super) device: usize,
    pub(super) time: TimeView,
    pub(super) height: Height,
    /// The run whose curve is laid over the chart.
    pub(super) compared: Option<RunNumber>,
    pub(super) list: ListScroll,
    pub(super) dialog: Option<Dialog>,
    pub(super) keyboard: Keyboard,
    pub(super) mouse: Mouse,
    /// Where the mouse's button went down.
    pub(super) pressed: Position,
    /// The batches that the runs' commands ask for: read once a run, not once a frame.
    pub(super) batches: Vec<(RunNumber, Option<u64>)>,
    /// The run for which the out-of-memory dialog has opened by itself.
    pub(super) offered: Option<RunNumber>,
    /// What the last key has done, and when.
    pub(super) notice: Option<(Notice, Moment)>,
}

impl View {
    /// The view at the start of a session, on a screen of so many columns and rows.
    pub fn new(theme: Theme, width: u16, height: u16) -> View {
        View {
            theme,
            output: ChildScreen::new(height, width),
            size: Rect::new(0, 0, width, height),
            pane: Pane::default(),
            maximized: Maximized::default(),
            device: 0,
            time: TimeView::default(),
            height: Height::default(),
            compared: None,
            batches: Vec::new(),
            list: ListScroll::default(),
            dialog: None,
            keyboard: Keyboard::default(),
            mouse: Mouse::default(),
            pressed: Position::default(),
            offered: None,
            notice: None,
        }
    }

    /// What keys mean at the moment.
    pub fn mode(&self) -> InputMode {
        match (&self.dialog, self.keyboard) {
            (Some(Dialog::Oom(_)), _) => InputMode::Oom,
            (Some(Dialog::Edit(_)), _) => InputMode::Editing,
            (Some(Dialog::Quit), _) => InputMode::Quitting,
            (Some(Dialog::Stop), _) => InputMode::Stopping,
            (Some(Dialog::Help(_)), _) => InputMode::Helping,
            (Some(Dialog::Search(_)), _) => InputMode::Searching,
            (None, Keyboard::Selection) => InputMode::Selecting,
            (None, Keyboard::Training) => InputMode::Typing,
            (None, Keyboard::Oomph) => InputMode::Watching,
        }
    }

    /// The device that is shown.
    pub fn device<'a>(&self, state: &'a State) -> Option<&'a DeviceState> {
        let devices = &state.devices;
        devices.get(self.device).or_else(|| devices.last())
    }

    /// The batch that a run's command asks for, where it can be read.
    pub(super) fn batch_of(&self, run: RunNumber) -> Option<u64> {
        let of = |(number, batch): &(RunNumber, Option<u64>)| (*number == run).then_some(*batch);
        self.batches.iter().find_map(of).flatten()
    }

    /// What the last key has done, while that is news.
    pub(super) fn notice(&self, now: Moment) -> Option<Notice> {
        let (notice, at) = self.notice?;
        (now.since(at) < NOTICE).then_some(notice)
    }
}
