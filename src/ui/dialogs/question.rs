//! Questions before something that cannot be undone.

use super::place;
use crate::ui::available::is_available;
use crate::ui::canvas::Canvas;
use crate::ui::canvas::columns;
use crate::ui::keymap::{self, Binding};
use crate::ui::scene::Scene;
use crate::ui::theme::Tone;
use crate::ui::view::View;

/// The answers are the keys of the mode.
pub(super) fn draw(canvas: &mut Canvas, view: &View, scene: &Scene, title: &str) {
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
