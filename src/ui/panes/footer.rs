//! The last line: the keys that do something now, from the table.

use crate::ui::keymap;
use crate::ui::pen::{Pen, columns};
use crate::ui::scene::Scene;
use crate::ui::theme::Tone;
use crate::ui::view::View;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// Draws the footer. Where there is not room for all, the last two (help and quit) stay.
pub fn draw(buf: &mut Buffer, area: Rect, view: &View, scene: &Scene) {
    let theme = &view.theme;
    let mode = view.mode();
    let entries: Vec<(String, &str)> = keymap::bindings(mode)
        .filter(|binding| !binding.short.is_empty())
        .filter(|binding| view.is_available(binding.action, scene))
        .map(|binding| (binding.keys[0].name(), binding.short))
        .collect();
    let width = |entry: &(String, &str)| columns(&entry.0) + 1 + columns(entry.1) + 2;
    let (first, last) = entries.split_at(entries.len().saturating_sub(2));
    let mut room = area
        .width
        .saturating_sub(1 + last.iter().map(width).sum::<u16>());
    let mut pen = Pen::new(buf, area, 0);
    pen.skip(1);
    let fitting = first.iter().take_while(|entry| {
        let fits = width(entry) <= room;
        room = room.saturating_sub(width(entry));
        fits
    });
    for (key, words) in fitting.chain(last) {
        pen.text(key, theme.style(Tone::Accent))
            .skip(1)
            .text(words, theme.style(Tone::Dim))
            .skip(2);
    }
}
