//! Draws the dialogs, one file each.

mod edit;
mod help;
pub(super) mod oom;
mod question;
mod search;

use super::canvas::Canvas;
use super::dialog::Dialog;
use super::scene::Scene;
use super::view::View;
use ratatui::layout::{Position, Rect};

/// Draws a dialog; returns the position of the text cursor, if it has one.
pub(super) fn draw(
    canvas: &mut Canvas,
    view: &View,
    scene: &Scene,
    dialog: &Dialog,
) -> Option<Position> {
    match dialog {
        Dialog::Edit(editor) => return edit::draw(canvas, editor, scene),
        Dialog::Search(line) => return search::draw(canvas, view, line),
        Dialog::Oom(dialog) => oom::draw(canvas, dialog, scene),
        Dialog::Quit => {
            let title = "Quit? The training is still running";
            question::draw(canvas, view, scene, title);
        }
        Dialog::Stop => question::draw(canvas, view, scene, "Stop the training?"),
        Dialog::Help(help) => help::draw(canvas, view, scene, help),
    }
    None
}

/// The width of a dialog: the whole screen if otherwise only a few columns of it would stay
/// visible.
fn width_within(area: Rect, wanted: u16) -> u16 {
    if area.width < wanted.saturating_add(8) {
        area.width
    } else {
        wanted
    }
}

/// A rectangle of at most this size at the bottom of the screen, so that the chart stays visible if
/// there is room.
fn place(area: Rect, width: u16, height: u16) -> Rect {
    let width = width.min(area.width);
    let room = area.height.saturating_sub(2);
    let height = height.min(room.max(area.height.min(3)));
    Rect {
        x: area.x + (area.width - width) / 2,
        y: area
            .bottom()
            .saturating_sub(height + u16::from(area.height > height)),
        width,
        height,
    }
}
