//! The dialogs as data: `dialogs` draws them, `update` changes them.

mod oom;

pub(super) use oom::{Details, NextCopy, OomDialog};

use super::action::Scroll;
use super::editor::Editor;
use super::keymap::{self, InputMode};
use crate::ui::editor::LineEdit;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Dialog {
    /// Why memory ran out, and what to do.
    Oom(OomDialog),
    Edit(Editor),
    /// "Quit?"
    Quit,
    /// "Stop the training?"
    Stop,
    Help(HelpDialog),
    /// A text being typed to search the output.
    Search(LineEdit),
}

/// The help and its scroll position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HelpDialog {
    /// The first row to show; drawing limits it.
    pub scrolled: usize,
    /// What it was opened over: it lists the keys of that.
    mode: InputMode,
    /// The dialog among these.
    over: Option<OomDialog>,
}

impl HelpDialog {
    pub(super) fn over(mode: InputMode, over: Option<OomDialog>) -> HelpDialog {
        HelpDialog {
            scrolled: 0,
            mode,
            over,
        }
    }

    pub(super) fn closed(self) -> Option<OomDialog> {
        self.over
    }

    pub(super) fn mode(&self) -> InputMode {
        self.mode
    }

    pub(super) fn scroll(&mut self, scroll: Scroll) {
        let most = keymap::bindings(self.mode()).count();
        self.scrolled = match scroll {
            Scroll::Up(n) => self.scrolled.saturating_sub(n),
            Scroll::Down(n) => (self.scrolled + n).min(most),
            Scroll::Start => 0,
            Scroll::End => most,
        };
    }
}
