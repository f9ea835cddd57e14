//! The OOM dialog: the cause and its evidence, the lines with the most memory, the remedies with
//! what they change and are expected to need, and the next command as a diff.

mod blocks;
mod body;
mod diagnosis;
mod next;
mod offers;
mod title;

pub(crate) use diagnosis::{command, markdown};

use crate::ui::canvas::Canvas;
use crate::ui::dialog::OomDialog;
use crate::ui::paragraph::{self, StyledLine};
use crate::ui::scene::Scene;
use crate::ui::theme::{Theme, Tone};
use ratatui::layout::{Position, Rect};

/// What the lines of the dialog are made from.
#[derive(Clone, Copy)]
struct Page<'a> {
    theme: &'a Theme,
    scene: &'a Scene<'a>,
    dialog: &'a OomDialog,
    /// Columns of a line.
    width: u16,
}

/// Below this width a row of the table has no room for a remedy's need beside its name, and what is
/// labelled goes on below its label.
const NARROW: u16 = 50;

impl Page<'_> {
    fn is_narrow(self) -> bool {
        self.width < NARROW
    }

    /// Wraps what has a label.
    fn labelled(self, label: &str, mut parts: Vec<(String, Tone)>) -> Vec<StyledLine> {
        if self.is_narrow() {
            parts.insert(0, (format!("{label} "), Tone::Dim));
            return paragraph::labelled("", &parts, self.width);
        }
        paragraph::labelled(&format!("{label:<LABEL$}"), &parts, self.width)
    }
}

/// Columns of a label.
const LABEL: usize = 10;

pub(crate) fn draw(canvas: &mut Canvas, dialog: &OomDialog, scene: &Scene) {
    let theme = canvas.theme;
    let body = body::compose(canvas.area, theme, dialog, scene);
    // Corners, and a rule and a space on both sides.
    let room = body.rect.width.saturating_sub(6);
    let title = title::within(scene, dialog.run, theme.glyphs.separator, room);
    let mut inside = canvas.boxed(body.rect, &title, Tone::Wrong);
    for (row, line) in (0..inside.area.height).zip(&body.lines) {
        line.draw(&mut inside, row);
    }
}

/// Which remedy lies under a place of the screen; within, `None` is what is to be changed in the
/// code.
pub(crate) fn remedy_at(
    area: Rect,
    theme: &Theme,
    dialog: &OomDialog,
    scene: &Scene,
    at: Position,
) -> Option<Option<usize>> {
    let body = body::compose(area, theme, dialog, scene);
    let row = usize::from(at.y.checked_sub(body.rect.y + 1)?);
    let inside = body.rect.contains(at);
    let place = row.checked_sub(body.offers.start).filter(|_| inside)?;
    (row < body.offers.end).then(|| (body.first + place).checked_sub(body.above))
}

/// How many lines of the details are in view, and how far they can be scrolled.
pub(crate) fn scrolling(
    area: Rect,
    theme: &Theme,
    dialog: &OomDialog,
    scene: &Scene,
) -> (usize, usize) {
    let body = body::compose(area, theme, dialog, scene);
    (body.shown, body.most)
}
