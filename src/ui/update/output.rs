//! Reading the program's output: searching it and selecting rows of it.

use crate::ui::action::Effect;
use crate::ui::available::layout_of;
use crate::ui::dialog::Dialog;
use crate::ui::list::ListScroll;
use crate::ui::pane::Pane;
use crate::ui::scene::Scene;
use crate::ui::view::{Keyboard, Maximized, Notice, View};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::Position;

/// A text that is longer is a paste gone wrong.
const LONGEST: usize = 200;

/// The output in sight, whatever was.
pub(super) fn show_output(view: &mut View) {
    view.pane = Pane::Output;
    view.list = ListScroll::default();
    if view.maximized == Maximized::Chart {
        view.maximized = Maximized::Nothing;
    }
}

/// Asks for a text.
pub(super) fn open_search(view: &mut View) {
    show_output(view);
    view.dialog = Some(Dialog::Search(String::new()));
}

/// A key while a text is typed: what is found follows it.
pub(super) fn type_search(view: &mut View, key: &KeyEvent) {
    let Some(Dialog::Search(text)) = &mut view.dialog else {
        return;
    };
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('u') if control => text.clear(),
        KeyCode::Char('w') if control => {
            let kept = text.trim_end().rfind(' ').map_or(0, |at| at + 1);
            text.truncate(kept);
        }
        KeyCode::Char(_) if control || key.modifiers.contains(KeyModifiers::ALT) => return,
        KeyCode::Char(c) if text.len() < LONGEST => text.push(c),
        KeyCode::Backspace => {
            text.pop();
        }
        _ => return,
    }
    view.output.search_for(text.clone());
}

/// Pasted into the text.
pub(super) fn paste_search(view: &mut View, pasted: &str) {
    if let Some(Dialog::Search(text)) = &mut view.dialog {
        let line = pasted.lines().next().unwrap_or_default();
        text.extend(line.chars().filter(|c| !c.is_control()).take(LONGEST));
        view.output.search_for(text.clone());
    }
}

/// What was found is kept, unless nothing was asked for.
pub(super) fn keep_search(view: &mut View) {
    if !matches!(view.dialog.take(), Some(Dialog::Search(text)) if !text.is_empty()) {
        view.output.end_search();
    }
}

/// Begins to select, at a row of the output's view or at its newest one.
pub(super) fn begin_selecting(view: &mut View, row: Option<u16>) {
    show_output(view);
    view.keyboard = Keyboard::Selection;
    view.output.begin_selection(row);
}

/// The mouse goes over the output with its button down: the rows from where it went down.
pub(super) fn drag(view: &mut View, at: Position, scene: &Scene) {
    let on_output = view.dialog.is_none() && view.pane == Pane::Output && scene.replay.is_none();
    let pane = layout_of(view, scene).pane;
    let Some(pane) = pane.filter(|pane| on_output && pane.contains(view.pressed)) else {
        return;
    };
    let top = pane.y + 1;
    let row = |y: u16| y.saturating_sub(top).min(pane.height.saturating_sub(2));
    match view.keyboard {
        Keyboard::Selection => view.output.select_to(row(at.y)),
        Keyboard::Oomph => begin_selecting(view, Some(row(view.pressed.y))),
        Keyboard::Training => {}
    }
}

/// The selected rows, to be copied; the output is followed again.
pub(super) fn copy_selected(view: &mut View, scene: &Scene) -> Option<Effect> {
    view.keyboard = Keyboard::Oomph;
    let text = view.output.selected_text();
    view.output.end_selection();
    view.notice = Some((Notice::Copied, scene.state.now));
    text.map(Effect::Copy)
}
