//! The help: all keys that do something now.

use super::{place, width_within};
use crate::ui::available::is_listed;
use crate::ui::canvas::Canvas;
use crate::ui::canvas::columns;
use crate::ui::dialog::HelpDialog;
use crate::ui::keymap;
use crate::ui::scene::Scene;
use crate::ui::theme::Tone;
use crate::ui::view::View;
use ratatui::layout::Rect;

const KEYS: u16 = 14;

/// Columns of one list of keys.
const WIDTH: u16 = 72;

/// Columns of each of two lists beside each other, where one would be too long for the screen.
const HALF: u16 = 57;

pub(super) fn draw(canvas: &mut Canvas, view: &View, scene: &Scene, help: &HelpDialog) {
    let (area, theme) = (canvas.area, canvas.theme);
    let listed = keymap::bindings(help.mode());
    let listed = listed.filter(|binding| is_listed(view, binding.action, scene));
    let lines = keymap::rows(listed, theme.glyphs);
    let fits = lines.len() + 4 <= usize::from(area.height);
    let (wanted, lists) = match !fits && area.width >= 2 * HALF + 4 {
        true => (2 * HALF, 2),
        false => (WIDTH, 1),
    };
    let words_room = match lists {
        2 => HALF - KEYS - 2,
        _ => width_within(area, wanted + 4).saturating_sub(KEYS + 4),
    };
    let lines: Vec<(String, String)> = lines
        .into_iter()
        .flat_map(|(keys, words)| wrapped(keys, words, words_room))
        .collect();
    let rows = lines.len().div_ceil(lists);
    let rect = place(area, width_within(area, wanted + 4), rows as u16 + 2);
    let mut inside = canvas.boxed(rect, "keys", Tone::Accent);
    let height = usize::from(inside.area.height);
    // The last row then says how many are hidden.
    let most = match rows > height {
        true => rows + 1 - height,
        false => 0,
    };
    let first = help.scrolled.min(most);
    let shown = height.min(rows).saturating_sub(usize::from(most > 0));
    if most > 0 {
        let [up, down, ..] = theme.glyphs.arrow_keys;
        let below = rows.saturating_sub(first + shown);
        let more = format!("{up} {first} above  {down} {below} below");
        inside.pen(shown as u16).text(&more, Tone::Dim);
    }
    for (list, lines) in (0..).zip(lines.chunks(rows.max(1))) {
        let column = Rect {
            x: inside.area.x + list * HALF,
            width: inside.area.width.saturating_sub(list * HALF),
            ..inside.area
        };
        for (row, (keys, words)) in (0..).zip(lines.iter().skip(first).take(shown)) {
            inside
                .at(column)
                .pen(row)
                .cut(keys, KEYS - 1, Tone::Accent)
                .to(KEYS)
                .cut(words, words_room, Tone::Text);
        }
    }
}

/// One key's words on as many rows as they need.
fn wrapped(keys: String, words: &str, width: u16) -> Vec<(String, String)> {
    let mut rows = vec![(keys, String::new())];
    for word in words.split(' ') {
        if let Some((_, row)) = rows.last_mut()
            && (row.is_empty() || columns(row) + 1 + columns(word) <= width)
        {
            let gap = if row.is_empty() { "" } else { " " };
            row.push_str(gap);
            row.push_str(word);
        } else {
            rows.push((String::new(), word.into()));
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_are_too_long_go_on_below() {
        let rows = wrapped("q".into(), "quit (asks while it runs)", 12);
        let row = |keys: &str, words: &str| (keys.to_string(), words.to_string());
        assert_eq!(
            rows,
            [
                row("q", "quit (asks"),
                row("", "while it"),
                row("", "runs)")
            ]
        );
        assert_eq!(wrapped("q".into(), "quit", 12).len(), 1);
    }
}
