//! Text put on the screen from left to right, never past its end; and rules, boxes and cuts.
//! Everything here clips: a screen of any size, and a rectangle outside it, is no error.

use super::theme::{Theme, Tone};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use unicode_width::UnicodeWidthStr;

/// A place on a row that moves on with what is written.
pub struct Pen<'b> {
    buf: &'b mut Buffer,
    x: u16,
    y: u16,
    end: u16,
}

impl<'b> Pen<'b> {
    /// At the left end of row `row` of `area`.
    pub fn new(buf: &'b mut Buffer, area: Rect, row: u16) -> Pen<'b> {
        let area = Rect {
            y: area.y.saturating_add(row),
            height: u16::from(row < area.height),
            ..area
        }
        .intersection(buf.area);
        Pen {
            buf,
            x: area.x,
            y: area.y,
            end: if area.height == 0 {
                area.x
            } else {
                area.right()
            },
        }
    }

    /// How many columns are left.
    pub fn room(&self) -> u16 {
        self.end.saturating_sub(self.x)
    }

    /// The column that is written next.
    pub fn x(&self) -> u16 {
        self.x
    }

    /// Writes; what does not fit is left out.
    pub fn text(&mut self, text: &str, style: Style) -> &mut Self {
        let room = self.room();
        if room > 0 && !text.is_empty() {
            self.x = self
                .buf
                .set_stringn(self.x, self.y, text, usize::from(room), style)
                .0;
        }
        self
    }

    /// Writes, cut with an ellipsis where it is wider than `width`.
    pub fn cut(&mut self, text: &str, width: u16, theme: &Theme, style: Style) -> &mut Self {
        let width = width.min(self.room());
        if columns(text) <= width {
            return self.text(text, style);
        }
        let end = self.x + width;
        let stop = end.saturating_sub(columns(theme.glyphs.ellipsis));
        let whole_row = std::mem::replace(&mut self.end, stop.max(self.x));
        self.text(text, style);
        self.end = whole_row.min(end);
        self.text(theme.glyphs.ellipsis, style);
        self.end = whole_row;
        self
    }

    /// Goes to `columns` from the left end of what is left.
    pub fn skip(&mut self, columns: u16) -> &mut Self {
        self.x = (self.x + columns).min(self.end);
        self
    }

    /// Goes to column `x`, if that is further on.
    pub fn to(&mut self, x: u16) -> &mut Self {
        self.x = self.x.max(x.min(self.end));
        self
    }

    /// Fills the rest of the row with a glyph.
    pub fn fill(&mut self, glyph: &str, style: Style) -> &mut Self {
        while self.x < self.end {
            if let Some(cell) = self.buf.cell_mut((self.x, self.y)) {
                cell.set_symbol(glyph).set_style(style);
            }
            self.x += 1;
        }
        self
    }
}

/// How many columns a text takes.
pub fn columns(text: &str) -> u16 {
    u16::try_from(text.width()).unwrap_or(u16::MAX)
}

/// A pane's head: `─ title ─────────`, drawn on the first row; the rest is the pane.
pub fn head(buf: &mut Buffer, area: Rect, theme: &Theme, title: &[(&str, Tone)]) -> Rect {
    let rule = theme.style(Tone::Faint);
    let mut pen = Pen::new(buf, area, 0);
    pen.text(theme.glyphs.line, rule).text(" ", rule);
    for (text, tone) in title {
        pen.text(text, theme.style(*tone));
    }
    pen.text(" ", rule).fill(theme.glyphs.line, rule);
    Rect {
        y: area.y.saturating_add(1),
        height: area.height.saturating_sub(1),
        ..area
    }
}

/// A box with a title over whatever was there; what is inside it.
pub fn boxed(buf: &mut Buffer, area: Rect, theme: &Theme, title: &str, tone: Tone) -> Rect {
    let area = area.intersection(buf.area);
    for y in area.top()..area.bottom() {
        for x in area.left()..area.right() {
            if let Some(cell) = buf.cell_mut((x, y)) {
                cell.reset();
            }
        }
    }
    if area.width < 2 || area.height < 2 {
        return area;
    }
    let [top_left, top_right, bottom_left, bottom_right, across, down] = theme.glyphs.frame;
    let rule = theme.style(tone);
    let last = area.height - 1;
    let mut pen = Pen::new(buf, area, 0);
    pen.text(top_left, rule).text(across, rule);
    pen.text(" ", rule)
        .cut(title, area.width.saturating_sub(6), theme, rule)
        .text(" ", rule);
    pen.fill(across, rule);
    Pen::new(buf, area, last)
        .text(bottom_left, rule)
        .fill(across, rule);
    for (x, y, glyph) in [
        (area.right() - 1, area.top(), top_right),
        (area.right() - 1, area.top() + last, bottom_right),
    ] {
        if let Some(cell) = buf.cell_mut((x, y)) {
            cell.set_symbol(glyph).set_style(rule);
        }
    }
    for y in area.top() + 1..area.top() + last {
        for x in [area.left(), area.right() - 1] {
            if let Some(cell) = buf.cell_mut((x, y)) {
                cell.set_symbol(down).set_style(rule);
            }
        }
    }
    let side = if area.width > 8 { 2 } else { 1 };
    Rect {
        x: area.x + side,
        y: area.y + 1,
        width: area.width - 2 * side,
        height: area.height - 2,
    }
}

/// A text broken at spaces into lines of at most `width` columns; a word that is wider is broken.
pub fn wrapped(text: &str, width: u16) -> Vec<&str> {
    let width = usize::from(width.max(1));
    let mut lines = Vec::new();
    for paragraph in text.lines() {
        let mut rest = paragraph.trim_end();
        while rest.width() > width {
            let mut taken = 0;
            let mut end = 0;
            let mut space = None;
            for (at, c) in rest.char_indices() {
                let w = unicode_width::UnicodeWidthChar::width(c).unwrap_or(0);
                if c == ' ' {
                    space = Some(at);
                }
                if taken + w > width {
                    break;
                }
                taken += w;
                end = at + c.len_utf8();
            }
            let first = rest.chars().next().map_or(1, char::len_utf8);
            let cut = space.filter(|&at| at > 0).unwrap_or(end.max(first));
            lines.push(rest[..cut].trim_end());
            rest = rest[cut..].trim_start();
        }
        if !rest.is_empty() || paragraph.trim().is_empty() {
            lines.push(rest);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_breaks_at_spaces() {
        assert_eq!(wrapped("one two three", 8), ["one two", "three"]);
        assert_eq!(wrapped("one two", 7), ["one two"]);
        assert_eq!(wrapped("abcdefgh ij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(wrapped("", 4), Vec::<&str>::new());
        assert_eq!(wrapped("日本語", 4), ["日本", "語"]);
        assert_eq!(wrapped("日", 1), ["日"]);
    }

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
                Pen::new(&mut buf, area, row)
                    .cut("some long text", 3, &theme, Style::new())
                    .text("日本", Style::new())
                    .fill("x", Style::new());
                boxed(&mut buf, area, &theme, "title", Tone::Text);
                head(&mut buf, area, &theme, &[("title", Tone::Text)]);
            }
        }
    }

    #[test]
    fn a_cut_says_so() {
        let mut buf = Buffer::empty(Rect::new(0, 0, 6, 1));
        let theme = Theme::full();
        Pen::new(&mut buf, Rect::new(0, 0, 6, 1), 0)
            .cut("python", 4, &theme, Style::new())
            .text("!", Style::new());
        assert_eq!(buf, Buffer::with_lines(["pyt…! "]));
    }
}
