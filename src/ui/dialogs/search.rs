//! The search line, over the footer, with the number of matches.

use crate::ui::canvas::Canvas;
use crate::ui::child::ChildScreen;
use crate::ui::editor::LineEdit;
use crate::ui::theme::Tone;
use crate::ui::view::View;
use ratatui::layout::{Position, Rect};

/// Returns the cursor's position.
pub(super) fn draw(canvas: &mut Canvas, view: &View, searched: &LineEdit) -> Option<Position> {
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
