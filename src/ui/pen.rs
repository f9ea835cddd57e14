//! Writes text on a row from left to right, cut at its end.

use super::theme::{Theme, Tone};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use unicode_width::UnicodeWidthStr;

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
    use crate::ui::canvas::Canvas;

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
