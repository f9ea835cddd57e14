//! A part of the screen, the theme to draw it in, and a pen that writes on its rows. Anything outside of the screen is clipped, so
//! that no terminal size is an error.

use crate::ui::theme::{Theme, Tone};
use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::symbols::border;
use ratatui::widgets::{Block, Clear, Widget};
use std::ops::Range;
use unicode_width::UnicodeWidthStr;

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

/// A position on a row that moves on with what is written.
pub(super) struct Pen<'b> {
    buf: &'b mut Buffer,
    theme: &'b Theme,
    left: u16,
    x: u16,
    y: u16,
    end: u16,
}

impl<'b> Pen<'b> {
    /// At the left end of a row of `area`.
    pub(super) fn new(buf: &'b mut Buffer, theme: &'b Theme, area: Rect, row: u16) -> Pen<'b> {
        let area = Rect {
            y: area.y.saturating_add(row),
            height: u16::from(row < area.height),
            ..area
        }
        .intersection(buf.area);
        let end = match area.height {
            0 => area.x,
            _ => area.right(),
        };
        Pen {
            buf,
            theme,
            left: area.x,
            x: area.x,
            y: area.y,
            end,
        }
    }

    pub(super) fn room(&self) -> u16 {
        self.end.saturating_sub(self.x)
    }

    /// The column that is written next.
    pub(super) fn column(&self) -> u16 {
        self.x - self.left
    }

    /// Writes what fits.
    pub(super) fn text(&mut self, text: &str, tone: Tone) -> &mut Self {
        self.styled(text, self.theme.style(tone))
    }

    pub(super) fn styled(&mut self, text: &str, style: Style) -> &mut Self {
        let room = usize::from(self.room());
        if room > 0 && !text.is_empty() {
            (self.x, _) = self.buf.set_stringn(self.x, self.y, text, room, style);
        }
        self
    }

    /// Writes, cut with an ellipsis if it is wider than `width`.
    pub(super) fn cut(&mut self, text: &str, width: u16, tone: Tone) -> &mut Self {
        let width = width.min(self.room());
        if columns(text) <= width {
            return self.text(text, tone);
        }
        let ellipsis = self.theme.glyphs.ellipsis;
        let end = self.x + width;
        let stop = end.saturating_sub(columns(ellipsis));
        let whole_row = std::mem::replace(&mut self.end, stop.max(self.x));
        self.text(text, tone);
        self.end = whole_row.min(end);
        self.text(ellipsis, tone);
        self.end = whole_row;
        self
    }

    /// Writes, cut with an ellipsis at the end of the row.
    pub(super) fn rest(&mut self, text: &str, tone: Tone) -> &mut Self {
        self.cut(text, self.room(), tone)
    }

    /// Leaves columns as they are.
    pub(super) fn skip(&mut self, columns: u16) -> &mut Self {
        self.to(self.column() + columns)
    }

    /// Goes to a column, if that is further on.
    pub(super) fn to(&mut self, column: u16) -> &mut Self {
        self.x = self.x.max(self.left.saturating_add(column).min(self.end));
        self
    }

    pub(super) fn fill(&mut self, glyph: &str, tone: Tone) -> &mut Self {
        let style = self.theme.style(tone);
        while self.room() > 0 {
            self.styled(glyph, style);
        }
        self
    }
}

pub(super) fn columns(text: &str) -> u16 {
    u16::try_from(text.width()).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_written_outside() {
        let mut buf = Buffer::empty(Rect::new(0, 0, 4, 2));
        for area in [
            Rect::new(0, 0, 9, 9),
            Rect::new(3, 1, 5, 5),
            Rect::new(7, 7, 3, 3),
            Rect::new(0, 0, 0, 0),
        ] {
            for row in [0, 1, 8] {
                let mut canvas = Canvas {
                    buf: &mut buf,
                    area,
                    theme: &Theme::full(),
                };
                canvas
                    .pen(row)
                    .cut("some long text", 3, Tone::Text)
                    .text("日本", Tone::Text)
                    .fill("x", Tone::Text);
                canvas.boxed(area, "title", Tone::Text);
                canvas.below_head(&[("title", Tone::Text)]);
            }
        }
    }

    #[test]
    fn a_cut_says_so() {
        let mut buf = Buffer::empty(Rect::new(0, 0, 6, 1));
        let theme = Theme::full();
        Pen::new(&mut buf, &theme, Rect::new(0, 0, 6, 1), 0)
            .cut("python", 4, Tone::Text)
            .text("!", Tone::Text);
        assert_eq!(buf, Buffer::with_lines(["pyt…! "]));
    }
}
