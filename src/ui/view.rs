//! How the user wants to see the session: pane, dialog, zoom. Plain data that `update` changes and
//! drawing reads.

use super::batches::RunBatches;
use super::chart::Height;
use super::chart::window::TimeView;
use super::child::ChildScreen;
use super::dialog::{Dialog, OomDialog};
use super::keymap::InputMode;
use super::pane::rank_map::RankMap;
use super::pane::{ListScroll, Pane};
use super::step::traced::StepView;
use super::theme::Theme;
use crate::anatomy::StepGrowth;
use crate::diagnosis::FittedGrowth;
use crate::state::{DeviceState, State};
use crate::units::{Moment, Pid, RunNumber};
use clap::ValueEnum;
use ratatui::layout::{Position, Rect};
use std::time::Duration;

/// What fills the whole screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Maximized {
    /// Chart and panes share it.
    #[default]
    Nothing,
    Chart,
    /// The pane below the chart.
    Pane,
}

/// Where keys go when no dialog is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Keyboard {
    #[default]
    Oomph,
    /// Keys extend the selection of output rows.
    Selection,
    Training,
}

/// Who gets mouse events, unless the program asks for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Mouse {
    /// The screen: clicks and the wheel act on it; text is selected with Shift held down.
    #[default]
    On,
    /// The terminal: text is selected as usual.
    Off,
}

/// How the user wants every screen to be.
#[derive(Debug, Clone, Copy)]
pub struct Preferences {
    pub theme: Theme,
    pub mouse: Mouse,
}

/// What a key did, if nothing else on the screen shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Notice {
    Copied,
    CopiedCommand,
    /// The diagnosis was copied; the same key copies the next command.
    CopiedDiagnosis,
    Theme,
    Mouse,
    /// A line of text was typed, which goes nowhere.
    Text,
    /// Ctrl-C at the end of such a line was not sent.
    HeldInterrupt,
    /// Enter had no remedy to apply: none is recommended, or the selected one is not offered.
    NothingFits,
    NotOffered,
    /// What came of a key is in [`View::words`].
    Told,
    /// A key has no use here: why is in [`View::words`].
    NoUse,
    /// PyTorch's snapshot was asked for; the answer is a note of the probe's.
    Snapshot,
}

/// How long a notice is shown, and one that names a file.
pub(super) const NOTICE: Duration = Duration::from_secs(2);
const NOTICE_OF_A_FILE: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub struct View {
    pub theme: Theme,
    /// The program's terminal, with scroll position, search and selection.
    pub output: ChildScreen,
    pub(super) size: Rect,
    pub(super) pane: Pane,
    pub(super) maximized: Maximized,
    pub(super) device: usize,
    /// The device that was selected without being asked; another one is the user's choice.
    pub(super) followed: usize,
    pub(super) time: TimeView,
    pub(super) height: Height,
    /// The run overlaid on the chart.
    pub(super) compared: Option<RunNumber>,
    pub(super) list: ListScroll,
    pub(super) dialog: Option<Dialog>,
    /// What a step is made of, where that fills the screen.
    pub(super) step: Option<StepView>,
    /// When that was opened.
    pub(super) step_opened: Option<Moment>,
    /// The dialog from which that was opened, to go back to.
    pub(super) behind: Option<OomDialog>,
    /// The last traced step, at its peak, for the pane.
    pub(super) peak: Option<StepView>,
    /// What grew up to it.
    pub(super) growth: Option<StepGrowth>,
    /// How memory between steps grows, fitted once for each new baseline instead of several times a frame.
    pub(super) fitted: FittedGrowth,
    /// The ranks of several nodes, where they are on the screen.
    pub(super) rank_map: Option<RankMap>,
    /// The process that was last asked who keeps its memory alive, and when.
    pub(super) asked: Option<(Pid, Moment)>,
    /// The process whose next step is traced because a key asked for it, and since when.
    pub(super) awaited_trace: Option<(Pid, Moment)>,
    pub(super) keyboard: Keyboard,
    pub(super) mouse: Mouse,
    /// Where the mouse button went down.
    pub(super) pressed: Position,
    /// Read when something new is known of them instead of every frame.
    pub(super) batches: RunBatches,
    /// The last run for which the OOM dialog has opened by itself.
    pub(super) offered: Option<RunNumber>,
    /// The latest notice, and when it was given.
    pub(super) notice: Option<(Notice, Moment)>,
    /// What came of the key that needed time.
    pub(super) words: String,
    pub(super) interrupts: Interrupts,
}

/// What Ctrl-C does to a running training.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interrupts {
    /// It is sent, as by a terminal.
    AtOnce,
    /// It is sent if it was pressed before, not long ago: at this time.
    PressedTwice(Option<Moment>),
}

impl View {
    /// The view at the start of a session.
    pub fn new(theme: Theme, width: u16, height: u16) -> View {
        View {
            theme,
            output: ChildScreen::new(height, width),
            size: Rect::new(0, 0, width, height),
            pane: Pane::default(),
            maximized: Maximized::default(),
            device: 0,
            followed: 0,
            time: TimeView::default(),
            height: Height::default(),
            compared: None,
            batches: RunBatches::default(),
            list: ListScroll::default(),
            dialog: None,
            step: None,
            step_opened: None,
            behind: None,
            peak: None,
            rank_map: None,
            growth: None,
            fitted: FittedGrowth::default(),
            asked: None,
            awaited_trace: None,
            keyboard: Keyboard::default(),
            mouse: Mouse::default(),
            pressed: Position::default(),
            offered: None,
            notice: None,
            words: String::new(),
            interrupts: Interrupts::AtOnce,
        }
    }

    /// This terminal is not the one that the training was started in: Ctrl-C, which many press to leave what they only
    /// look at, is asked about first.
    pub fn ask_before_interrupt(&mut self) {
        self.interrupts = Interrupts::PressedTwice(None);
    }

    pub fn prefer(&mut self, preferences: Preferences) {
        self.theme = preferences.theme;
        self.mouse = preferences.mouse;
    }

    /// Whether the terminal is to report the mouse. A program that has asked for it would be hidden behind the screen's own
    /// clicks: there it stays the terminal's.
    pub(super) fn captures_mouse(&self) -> bool {
        self.mouse == Mouse::On && !self.output.uses_mouse()
    }

    pub fn mode(&self) -> InputMode {
        match (&self.dialog, self.keyboard) {
            (Some(Dialog::Oom(_)), _) => InputMode::Oom,
            (Some(Dialog::Edit(_)), _) => InputMode::Editing,
            (Some(Dialog::Quit), _) => InputMode::Quitting,
            (Some(Dialog::Stop), _) => InputMode::Stopping,
            (Some(Dialog::Help(help)), _) if help.is_typed => InputMode::SearchingHelp,
            (Some(Dialog::Help(_)), _) => InputMode::Helping,
            (Some(Dialog::Search(_)), _) => InputMode::Searching,
            (None, Keyboard::Selection) => InputMode::Selecting,
            (None, Keyboard::Training) => InputMode::Typing,
            (None, Keyboard::Oomph) if self.step.is_some() => InputMode::Step,
            (None, Keyboard::Oomph) => InputMode::Watching,
        }
    }

    /// Whether any of the program's output may be seen.
    pub fn shows_output(&self) -> bool {
        self.pane == Pane::Output && self.step.is_none()
    }

    pub fn device<'a>(&self, state: &'a State) -> Option<&'a DeviceState> {
        let devices = &state.devices;
        devices.get(self.device).or_else(|| devices.last())
    }

    /// The batch of a run, if what sets it is known.
    pub(super) fn batch_of(&self, run: RunNumber) -> Option<u64> {
        self.batches.of(run)
    }

    /// Says what came of a key that needed time.
    pub fn told(&mut self, words: String, now: Moment) {
        self.words = words;
        self.notice = Some((Notice::Told, now));
    }

    /// Says why a key does nothing here.
    pub(super) fn no_use(&mut self, words: String, now: Moment) {
        self.words = words;
        self.notice = Some((Notice::NoUse, now));
    }

    /// Says something else than the latest key's notice.
    pub fn instead_of_notice(&mut self, words: &str) {
        if let Some((_, at)) = self.notice {
            self.told(words.into(), at);
        }
    }

    /// The notice to show, if it is recent.
    pub(super) fn notice(&self, now: Moment) -> Option<Notice> {
        let (notice, at) = self.notice?;
        let shown = match notice {
            Notice::Snapshot | Notice::Told => NOTICE_OF_A_FILE,
            _ => NOTICE,
        };
        (now.since(at) < shown).then_some(notice)
    }
}
