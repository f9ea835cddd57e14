//! Text put on the screen from left to right, never past its end; and rules, boxes and cuts.
//! Everything here clips: a screen of any size, and a rectangle outside it, is no error.

use super::theme::{Theme, Tone};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::symbols::border;
use ratatui::widgets::{Block, Clear, Widget};
use unicode_width::UnicodeWidthStr;

/// A place on a row that moves on with what is written.
pub(super) struct Pen<'b> {
    buf: &'b mut Buffer,
    theme: Theme,
    x: u16,
    y: u16,
    end: u16,
}

impl<'b> Pen<'b> {
    /// At the left end of row `row` of `area`.
    pub(super) fn new(buf: &'b mut Buffer, theme: &Theme, area: Rect, row: u16) -> Pen<'b> {
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
            theme: *theme,
            x: area.x,
            y: area.y,
            end,
        }
    }

    /// How many columns are left.
    pub(super) fn room(&self) -> u16 {
        self.end.saturating_sub(self.x)
    }

    /// The column that is written next.
    pub(super) fn x(&self) -> u16 {
        self.x
    }

    /// Writes; what does not fit is left out.
    pub(super) fn text(&mut self, text: &str, tone: Tone) -> &mut Self {
        self.styled(text, self.theme.style(tone))
    }

    /// Writes in a style of its own.
    pub(super) fn styled(&mut self, text: &str, style: Style) -> &mut Self {
        let room = usize::from(self.room());
        if room > 0 && !text.is_empty() {
            (self.x, _) = self.buf.set_stringn(self.x, self.y, text, room, style);
        }
        self
    }

    /// Writes, cut with an ellipsis where it is wider than `width`.
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

    /// Writes on the rest of the row, cut with an ellipsis where it is wider.
    pub(super) fn rest(&mut self, text: &str, tone: Tone) -> &mut Self {
        self.cut(text, self.room(), tone)
    }

    /// Goes to `columns` from the left end of what is left.
    pub(super) fn skip(&mut self, columns: u16) -> &mut Self {
        self.x = (self.x + columns).min(self.end);
        self
    }

    /// Goes to column `x`, if that is further on.
    pub(super) fn to(&mut self, x: u16) -> &mut Self {
        self.x = self.x.max(x.min(self.end));
        self
    }

    /// Fills the rest of the row with a glyph.
    pub(super) fn fill(&mut self, glyph: &str, tone: Tone) -> &mut Self {
        while self.room() > 0 {
            self.text(glyph, tone);
        }
        self
    }
}

/// How many columns a text takes.
pub(super) fn columns(text: &str) -> u16 {
    u16::try_from(text.width()).unwrap_or(u16::MAX)
}

/// A pane's head: `─ title ─────────`, drawn on the first row; the rest is the pane.
pub(super) fn head(buf: &mut Buffer, area: Rect, theme: &Theme, title: &[(&str, Tone)]) -> Rect {
    let mut pen = Pen::new(buf, theme, area, 0);
    pen.text(theme.glyphs.line, Tone::Faint).skip(1);
    for (text, tone) in title {
        pen.text(text, *tone);
    }
    pen.skip(1).fill(theme.glyphs.line, Tone::Faint);
    Rect {
        y: area.y.saturating_add(1),
        height: area.height.saturating_sub(1),
        ..area
    }
}

/// A box with a title over whatever was there; what is inside it.
pub(super) fn boxed(buf: &mut Buffer, area: Rect, theme: &Theme, title: &str, tone: Tone) -> Rect {
    let area = area.intersection(buf.area);
    Clear.render(area, buf);
    if area.width < 2 || area.height < 2 {
        return area;
    }
    let [top_left, top_right, bottom_left, bottom_right, across, down] = theme.glyphs.frame;
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
        .border_style(theme.style(tone))
        .render(area, buf);
    Pen::new(buf, theme, area, 0)
        .skip(2)
        .text(" ", tone)
        .cut(title, area.width.saturating_sub(6), tone)
        .text(" ", tone);
    let side = if area.width > 8 { 2 } else { 1 };
    Rect {
        x: area.x + side,
        y: area.y + 1,
        width: area.width - 2 * side,
        height: area.height - 2,
    }
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
                let theme = Theme::full();
                Pen::new(&mut buf, &theme, area, row)
                    .cut("some long text", 3, Tone::Text)
                    .text("日本", Tone::Text)
                    .fill("x", Tone::Text);
                boxed(&mut buf, area, &theme, "title", Tone::Text);
                head(&mut buf, area, &theme, &[("title", Tone::Text)]);
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
