//! The last line: the keys that do something now, from the table.

use crate::ui::keymap::{self, Mode};
use crate::ui::pen::{Pen, columns};
use crate::ui::scene::Scene;
use crate::ui::theme::Tone;
use crate::ui::view::View;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// How many keys at the end stay where there is not room for all: the ways out. A question says its
/// answers in its own box.
fn staying(mode: Mode) -> usize {
    match mode {
        Mode::Watching | Mode::Oom => 2,
        Mode::Editing | Mode::Quitting | Mode::Stopping | Mode::Helping | Mode::Typing => 0,
    }
}

/// Draws the footer.
pub fn draw(buf: &mut Buffer, area: Rect, view: &View, scene: &Scene) {
    let theme = &view.theme;
    let mode = view.mode();
    let entries: Vec<(String, &str)> = keymap::bindings(mode)
        .filter(|binding| !binding.short.is_empty())
        .filter(|binding| view.is_available(binding.action, scene))
        .map(|binding| (binding.keys[0].name(theme.glyphs), binding.short))
        .collect();
    let width = |entry: &(String, &str)| columns(&entry.0) + 1 + columns(entry.1) + 2;
    let (first, last) = entries.split_at(entries.len().saturating_sub(staying(mode)));
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
