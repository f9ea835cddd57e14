//! Draws the dialogs: the search and questions. The help, the command being edited and the one after an OOM have
//! rooms of their own.

pub(super) mod edit;
mod help;
pub(super) mod oom;
mod place;

use super::available::is_available;
use super::canvas::{Canvas, columns};
use super::child::ChildScreen;
use super::dialog::Dialog;
use super::editor::LineEdit;
use super::keymap::{self, Binding};
use super::scene::Scene;
use super::theme::Tone;
use super::view::View;
use oom::OomLayout;
use place::place;
use ratatui::layout::{Position, Rect};

/// Draws a dialog, the one about an OOM as the screen's layout has it; returns the position of the text cursor, if it has one.
pub(super) fn draw(
    canvas: &mut Canvas,
    view: &View,
    scene: &Scene,
    dialog: &Dialog,
    laid_out: Option<&OomLayout>,
) -> Option<Position> {
    match dialog {
        Dialog::Edit(editor) => return edit::draw(canvas, editor, scene),
        Dialog::Search(line) => return draw_search(canvas, view, line),
        Dialog::Oom(dialog) => {
            if let Some(laid_out) = laid_out {
                oom::draw(canvas, laid_out, dialog, scene);
            }
        }
        Dialog::Quit => {
            let title = "Quit? The training is still running";
            draw_question(canvas, view, scene, title);
        }
        Dialog::Stop => draw_question(canvas, view, scene, "Stop the training?"),
        Dialog::Help(help) => return help::draw(canvas, view, scene, help),
    }
    None
}

/// The answers are the keys of the mode.
fn draw_question(canvas: &mut Canvas, view: &View, scene: &Scene, title: &str) {
    let (area, theme) = (canvas.area, canvas.theme);
    let answers = |words: fn(&Binding) -> &'static str| -> Vec<(String, &'static str)> {
        keymap::bindings(view.mode())
            .filter(|binding| !binding.short.is_empty())
            .filter(|binding| is_available(view, binding.action, scene))
            .map(|binding| (binding.keys[0].name(theme.glyphs), words(binding)))
            .collect()
    };
    let width = |answers: &[(String, &str)]| {
        let widest = answers.iter().map(|(_, words)| columns(words)).max();
        (widest.unwrap_or(0) + 14).max(columns(title) + 8)
    };
    let answers = [
        answers(|binding| binding.help),
        answers(|binding| binding.short),
    ];
    // The footer's words if the help's are too long.
    let [long, short] = &answers;
    let answers = if width(long) <= area.width {
        long
    } else {
        short
    };
    let width = width(answers);
    let rect = place(area, width, answers.len() as u16 + 4);
    let mut inside = canvas.boxed(rect, title, Tone::Accent);
    let first = u16::from(inside.area.height > answers.len() as u16);
    for (row, (key, words)) in (first..).zip(answers.iter()) {
        let mut pen = inside.pen(row);
        pen.text(key, Tone::Accent).to(8);
        pen.rest(words, Tone::Text);
    }
}

/// Returns the cursor's position.
fn draw_search(canvas: &mut Canvas, view: &View, searched: &LineEdit) -> Option<Position> {
    let area = canvas.area;
    let line = Rect {
        y: area.bottom().saturating_sub(1),
        height: area.height.min(1),
        ..area
    };
    let mut row = canvas.at(line);
    row.pen(0).fill(" ", Tone::Text);
    let mut pen = row.pen(0);
    let (before, after) = searched.halves();
    pen.skip(1)
        .text("/", Tone::Accent)
        .text(before, Tone::Strong);
    let cursor = Position::new(line.x + pen.column(), line.y);
    let (words, tone) = found(&view.output, searched.text());
    pen.text(after, Tone::Strong)
        .skip(2)
        .text(&words, tone)
        .skip(2)
        .text("Enter", Tone::Accent)
        .text(" keep  ", Tone::Dim)
        .text("Esc", Tone::Accent)
        .text(" back", Tone::Dim);
    line.contains(cursor).then_some(cursor)
}

fn found(output: &ChildScreen, text: &str) -> (String, Tone) {
    match output.search() {
        _ if text.is_empty() => ("type to search the output".into(), Tone::Dim),
        Some((_, place, of)) if of > 0 => (format!("{place} of {of}"), Tone::Text),
        Some(_) | None => ("not found".into(), Tone::Warning),
    }
}
