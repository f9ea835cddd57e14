//! What may be open over the panes, as data: `dialogs` draws it, `update` changes it.

mod oom;

pub(super) use oom::{Details, OomDialog};

use super::action::Scroll;
use super::editor::Editor;
use super::keymap::{self, InputMode};
use super::line_edit::LineEdit;

/// What is open over the panes.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Dialog {
    /// Why memory ran out, and what to do.
    Oom(OomDialog),
    /// A command being edited.
    Edit(Editor),
    /// Whether to stop the training when leaving.
    Quit,
    /// Whether to stop the training.
    Stop,
    /// The keys.
    Help(HelpDialog),
    /// A text to look for in the output, as it is typed.
    Search(LineEdit),
}

/// The help: of what, and where it is scrolled to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct HelpDialog {
    /// The first row shown, at most.
    pub scrolled: usize,
    /// The dialog that it was opened over, whose keys it lists.
    over: Option<OomDialog>,
}

impl HelpDialog {
    /// The help of the panes, or of a dialog over them.
    pub(super) fn over(over: Option<OomDialog>) -> HelpDialog {
        HelpDialog { scrolled: 0, over }
    }

    /// The dialog to go back to.
    pub(super) fn closed(self) -> Option<OomDialog> {
        self.over
    }

    pub(super) fn mode(&self) -> InputMode {
        match self.over {
            Some(_) => InputMode::Oom,
            None => InputMode::Watching,
        }
    }

    /// Scrolls; the end is found when it is drawn.
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
