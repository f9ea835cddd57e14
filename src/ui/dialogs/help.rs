//! All keys that do something now, from the table.

use super::{place, width_within};
use crate::ui::available::is_listed;
use crate::ui::dialog::HelpDialog;
use crate::ui::keymap;
use crate::ui::pen::{Pen, boxed};
use crate::ui::scene::Scene;
use crate::ui::theme::Tone;
use crate::ui::view::View;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// Columns of the keys.
const KEYS: u16 = 14;

/// Draws the help.
pub fn draw(buf: &mut Buffer, area: Rect, view: &View, scene: &Scene, help: &HelpDialog) {
    let theme = &view.theme;
    let lines: Vec<(String, &str)> = keymap::bindings(help.mode())
        .filter(|binding| is_listed(view, binding.action, scene))
        .map(|binding| (keymap::names(binding.keys, theme.glyphs), binding.help))
        .collect();
    let rect = place(area, width_within(area, 76), lines.len() as u16 + 2);
    let inside = boxed(buf, rect, theme, "keys", Tone::Accent);
    let height = usize::from(inside.height);
    // Where not all fit, the last row says so.
    let most = match lines.len() > height {
        true => lines.len() + 1 - height,
        false => 0,
    };
    let first = help.scrolled.min(most);
    let shown = lines.iter().skip(first);
    let rows = inside.height.saturating_sub(u16::from(most > 0));
    if most > 0 {
        let [up, down, ..] = theme.glyphs.arrow_keys;
        let below = lines.len().saturating_sub(first + usize::from(rows));
        let more = format!("{up} {first} above  {down} {below} below");
        Pen::new(buf, inside, rows).text(&more, theme.style(Tone::Dim));
    }
    for (row, (keys, words)) in (0..rows).zip(shown) {
        let mut pen = Pen::new(buf, inside, row);
        pen.cut(keys, KEYS - 1, theme, theme.style(Tone::Accent))
            .to(inside.x + KEYS);
        let room = pen.room();
        pen.cut(words, room, theme, theme.style(Tone::Text));
    }
}
