//! The output: brought into view, searched, and its rows selected and copied.

use crate::ui::action::Effect;
use crate::ui::dialog::Dialog;
use crate::ui::editor::LineEdit;
use crate::ui::pane::{ListScroll, Pane};
use crate::ui::scene::Scene;
use crate::ui::view::{Keyboard, Maximized, Notice, View};

/// A longer text was pasted by mistake.
const LONGEST: usize = 200;

/// Brings the output into view.
pub(super) fn show_output(view: &mut View) {
    view.pane = Pane::Output;
    view.list = ListScroll::default();
    if view.maximized == Maximized::Chart {
        view.maximized = Maximized::Nothing;
    }
}

pub(super) fn open_search(view: &mut View) {
    show_output(view);
    view.dialog = Some(Dialog::Search(LineEdit::default()));
}

/// Edits the search text, and searches again.
pub(super) fn edit_search(view: &mut View, edit: impl FnOnce(&mut LineEdit)) {
    if let Some(Dialog::Search(line)) = &mut view.dialog {
        let before = line.clone();
        edit(line);
        if line.text().len() > LONGEST {
            *line = before;
        } else if line.text() != before.text() {
            view.output.search_for(line.text().to_string());
        }
    }
}

/// Closes the search line and keeps the matches, if there is a text.
pub(super) fn keep_search(view: &mut View) {
    if !matches!(view.dialog.take(), Some(Dialog::Search(line)) if !line.text().is_empty()) {
        view.output.end_search();
    }
}

/// Starts a selection at a row of the view, or at the newest row.
pub(in crate::ui) fn begin_selecting(view: &mut View, row: Option<u16>) {
    show_output(view);
    view.keyboard = Keyboard::Selection;
    view.output.begin_selection(row);
}

/// Copies the selected rows and follows the output again.
pub(super) fn copy_selected(view: &mut View, scene: &Scene) -> Option<Effect> {
    view.keyboard = Keyboard::Oomph;
    let text = view.output.selected_text();
    view.output.end_selection();
    view.notice = Some((Notice::Copied, scene.state.now));
    text.map(Effect::Copy)
}
