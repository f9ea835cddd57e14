//! All keys that do something now, from the table.

use super::{OomDialog, place, width_within};
use crate::ui::action::Scroll;
use crate::ui::keymap::{self, Mode};
use crate::ui::pen::{Pen, boxed};
use crate::ui::scene::Scene;
use crate::ui::theme::Tone;
use crate::ui::view::View;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// The help: of what, and where it is scrolled to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HelpDialog {
    scrolled: usize,
    /// The dialog that it was opened over, whose keys it lists.
    over: Option<OomDialog>,
}

impl HelpDialog {
    /// The help of the panes, or of a dialog over them.
    pub fn over(over: Option<OomDialog>) -> HelpDialog {
        HelpDialog { scrolled: 0, over }
    }

    /// The dialog to go back to.
    pub fn closed(self) -> Option<OomDialog> {
        self.over
    }

    fn mode(&self) -> Mode {
        match self.over {
            Some(_) => Mode::Oom,
            None => Mode::Watching,
        }
    }

    /// Scrolls; the end is found when it is drawn.
    pub fn scroll(&mut self, scroll: Scroll) {
        let most = keymap::bindings(self.mode()).count();
        self.scrolled = match scroll {
            Scroll::Up(n) => self.scrolled.saturating_sub(n),
            Scroll::Down(n) => (self.scrolled + n).min(most),
            Scroll::Start => 0,
            Scroll::End => most,
        };
    }
}

/// Columns of the keys.
const KEYS: u16 = 14;

/// Draws the help.
pub fn draw(buf: &mut Buffer, area: Rect, view: &View, scene: &Scene, help: &HelpDialog) {
    let theme = &view.theme;
    let lines: Vec<(String, &str)> = keymap::bindings(help.mode())
        .filter(|binding| view.is_listed(binding.action, scene))
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
