//! A part of the screen and the theme to draw it in. Anything outside of the screen is clipped, so
//! that no terminal size is an error.

use super::pen::Pen;
use super::theme::{Theme, Tone};
use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;
use ratatui::symbols::border;
use ratatui::widgets::{Block, Clear, Widget};
use std::ops::Range;

/// What a head leaves of an area.
pub(super) fn below_head(area: Rect) -> Rect {
    Rect {
        y: area.y.saturating_add(1),
        height: area.height.saturating_sub(1),
        ..area
    }
}

pub(super) struct Canvas<'c> {
    pub buf: &'c mut Buffer,
    pub area: Rect,
    pub theme: &'c Theme,
}

impl Canvas<'_> {
    /// Another part of the same screen.
    pub(super) fn at(&mut self, area: Rect) -> Canvas<'_> {
        Canvas {
            buf: self.buf,
            area,
            theme: self.theme,
        }
    }

    /// A pen at the left end of a row of this part.
    pub(super) fn pen(&mut self, row: u16) -> Pen<'_> {
        Pen::new(self.buf, self.theme, self.area, row)
    }

    /// The cell of a column and row of this part, where there is one.
    pub(super) fn cell(&mut self, column: u16, row: u16) -> Option<&mut Cell> {
        let inside = column < self.area.width && row < self.area.height;
        let at = (
            self.area.x.saturating_add(column),
            self.area.y.saturating_add(row),
        );
        self.buf.cell_mut(at).filter(|_| inside)
    }

    /// Whether these columns of a row are all in this part, and hold nothing but what may be
    /// written over.
    pub(super) fn is_free(&self, columns: Range<u16>, row: u16, over: &[&str]) -> bool {
        let free = |column: u16| {
            let cell = self.buf.cell((self.area.x + column, self.area.y + row));
            cell.is_some_and(|cell| cell.symbol() == " " || over.contains(&cell.symbol()))
        };
        columns.end <= self.area.width && columns.into_iter().all(free)
    }

    /// Draws a line's cell over what is there. A full cell of an area gives it its background
    /// colour; a partly filled one is replaced.
    pub(super) fn over(&mut self, column: u16, row: u16, glyph: &str, tone: Tone) {
        let theme = self.theme;
        let Some(cell) = self.cell(column, row) else {
            return;
        };
        let mut eighths = theme.glyphs.eighths.iter();
        let ground = match eighths.position(|eighth| *eighth == cell.symbol()) {
            Some(8) => cell.fg,
            Some(_) | None => cell.bg,
        };
        cell.reset();
        cell.set_symbol(glyph)
            .set_style(theme.style(tone))
            .set_bg(ground);
    }

    /// Draws a pane's head on the first row, `─ title ─────────`, and returns the rest.
    pub(super) fn below_head(&mut self, title: &[(&str, Tone)]) -> Canvas<'_> {
        let line = self.theme.glyphs.line;
        let mut pen = self.pen(0);
        pen.text(line, Tone::Faint).skip(1);
        for (text, tone) in title {
            pen.text(text, *tone);
        }
        pen.skip(1).fill(line, Tone::Faint);
        self.at(below_head(self.area))
    }

    /// Draws a box with a title over whatever was there, and returns its inside.
    pub(super) fn boxed(&mut self, area: Rect, title: &str, tone: Tone) -> Canvas<'_> {
        let area = area.intersection(self.buf.area);
        Clear.render(area, self.buf);
        if area.width < 2 || area.height < 2 {
            return self.at(area);
        }
        let [top_left, top_right, bottom_left, bottom_right, across, down] =
            self.theme.glyphs.frame;
        let border = border::Set {
            top_left,
            top_right,
            bottom_left,
            bottom_right,
            vertical_left: down,
            vertical_right: down,
            horizontal_top: across,
            horizontal_bottom: across,
        };
        Block::bordered()
            .border_set(border)
            .border_style(self.theme.style(tone))
            .render(area, self.buf);
        Pen::new(self.buf, self.theme, area, 0)
            .skip(2)
            .text(" ", tone)
            .cut(title, area.width.saturating_sub(6), tone)
            .text(" ", tone);
        let side = if area.width > 8 { 2 } else { 1 };
        self.at(Rect {
            x: area.x + side,
            y: area.y + 1,
            width: area.width - 2 * side,
            height: area.height - 2,
        })
    }
}
