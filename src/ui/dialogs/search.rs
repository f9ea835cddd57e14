//! The text that is looked for, on the last line of the screen, with what was found of it.

use crate::ui::child::ChildScreen;
use crate::ui::line_edit::LineEdit;
use crate::ui::pen::Pen;
use crate::ui::theme::Tone;
use crate::ui::view::View;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

/// Draws the line over the footer; returns where its cursor stands.
pub(super) fn draw(
    buf: &mut Buffer,
    area: Rect,
    view: &View,
    searched: &LineEdit,
) -> Option<Position> {
    let theme = &view.theme;
    let line = Rect {
        y: area.bottom().saturating_sub(1),
        height: area.height.min(1),
        ..area
    };
    Pen::new(buf, theme, line, 0).fill(" ", Tone::Text);
    let mut pen = Pen::new(buf, theme, line, 0);
    let (before, after) = searched.halves();
    pen.skip(1)
        .text("/", Tone::Accent)
        .text(before, Tone::Strong);
    let cursor = Position::new(pen.x(), line.y);
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

/// How many rows have it.
fn found(output: &ChildScreen, text: &str) -> (String, Tone) {
    match output.search() {
        _ if text.is_empty() => ("type to search the output".into(), Tone::Dim),
        Some((_, place, of)) if of > 0 => (format!("{place} of {of}"), Tone::Text),
        Some(_) | None => ("not found".into(), Tone::Warning),
    }
}
