//! A part of the screen, the theme to draw it in, a pen that writes on its rows, and wrapped lines of text in
//! several tones. Anything outside of the screen is clipped, so that no terminal size is an error.

use super::difference::DiffWord;
use super::theme::{Theme, Tone};
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
    pub fn at(&mut self, area: Rect) -> Canvas<'_> {
        Canvas {
            buf: self.buf,
            area,
            theme: self.theme,
        }
    }

    /// A pen at the left end of a row of this part.
    pub fn pen(&mut self, row: u16) -> Pen<'_> {
        Pen::new(self.buf, self.theme, self.area, row)
    }

    /// The cell of a column and row of this part, where there is one.
    pub fn cell(&mut self, column: u16, row: u16) -> Option<&mut Cell> {
        let inside = column < self.area.width && row < self.area.height;
        let at = (
            self.area.x.saturating_add(column),
            self.area.y.saturating_add(row),
        );
        self.buf.cell_mut(at).filter(|_| inside)
    }

    /// Whether these columns of a row are all in this part, and hold nothing but what may be
    /// written over.
    pub fn is_free(&self, columns: Range<u16>, row: u16, over: &[&str]) -> bool {
        let free = |column: u16| {
            let cell = self.buf.cell((self.area.x + column, self.area.y + row));
            cell.is_some_and(|cell| cell.symbol() == " " || over.contains(&cell.symbol()))
        };
        columns.end <= self.area.width && columns.into_iter().all(free)
    }

    /// Draws a line's cell over what is there. A full cell of an area gives it its background
    /// colour; a partly filled one is replaced.
    pub fn over(&mut self, column: u16, row: u16, glyph: &str, tone: Tone) {
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
    pub fn below_head(&mut self, title: &[(&str, Tone)]) -> Canvas<'_> {
        self.rule(title);
        self.at(below_head(self.area))
    }

    /// Draws a line across the first row with words in it.
    pub fn rule(&mut self, words: &[(&str, Tone)]) {
        let line = self.theme.glyphs.line;
        let mut pen = self.pen(0);
        pen.text(line, Tone::Faint).skip(1);
        for (text, tone) in words {
            let is_whole = columns(text) <= pen.room();
            pen.words(text, *tone);
            if !is_whole {
                break;
            }
        }
        pen.skip(1).fill(line, Tone::Faint);
    }

    /// Takes away what stands in the rows of an area, over the whole width.
    pub fn blank_rows(&mut self, area: Rect) {
        let rows = Rect {
            x: self.area.x,
            width: self.area.width,
            ..area
        };
        Clear.render(rows.intersection(self.area), self.buf);
    }

    /// Draws a box with a title over whatever was there, and returns its inside.
    pub fn boxed(&mut self, area: Rect, title: &str, tone: Tone) -> Canvas<'_> {
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
            .words_within(title, area.width.saturating_sub(6), tone)
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
    pub fn new(buf: &'b mut Buffer, theme: &'b Theme, area: Rect, row: u16) -> Pen<'b> {
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

    pub fn room(&self) -> u16 {
        self.end.saturating_sub(self.x)
    }

    /// The column that is written next.
    pub fn column(&self) -> u16 {
        self.x - self.left
    }

    /// Writes what fits.
    pub fn text(&mut self, text: &str, tone: Tone) -> &mut Self {
        self.styled(text, self.theme.style(tone))
    }

    pub fn styled(&mut self, text: &str, style: Style) -> &mut Self {
        let room = usize::from(self.room());
        if room > 0 && !text.is_empty() {
            (self.x, _) = self.buf.set_stringn(self.x, self.y, text, room, style);
        }
        self
    }

    /// Writes, cut with an ellipsis if it is wider than `width`.
    pub fn cut(&mut self, text: &str, width: u16, tone: Tone) -> &mut Self {
        self.cut_where(text, width, tone, first_columns_but_no_part_of_a_number)
    }

    /// Writes whole words, with an ellipsis behind them if the text is wider than `width`.
    pub fn words_within(&mut self, text: &str, width: u16, tone: Tone) -> &mut Self {
        self.cut_where(text, width, tone, first_words)
    }

    /// The same, at the end of the row.
    pub fn words(&mut self, text: &str, tone: Tone) -> &mut Self {
        self.words_within(text, self.room(), tone)
    }

    fn cut_where(
        &mut self,
        text: &str,
        width: u16,
        tone: Tone,
        beginning: fn(&str, u16) -> &str,
    ) -> &mut Self {
        let width = width.min(self.room());
        if columns(text) <= width {
            return self.text(text, tone);
        }
        let ellipsis = self.theme.glyphs.ellipsis;
        let end = self.x + width;
        let room = width.saturating_sub(columns(ellipsis));
        self.text(beginning(text, room), tone);
        let whole_row = std::mem::replace(&mut self.end, end);
        self.text(ellipsis, tone);
        self.end = whole_row;
        self
    }

    /// Writes, cut with an ellipsis at the end of the row.
    pub fn rest(&mut self, text: &str, tone: Tone) -> &mut Self {
        self.cut(text, self.room(), tone)
    }

    /// Writes as many clauses as have room; the first one is cut where it has none.
    pub fn clauses(&mut self, text: &str, tone: Tone) -> &mut Self {
        let whole = clauses_within(text, self.room());
        self.rest(whole.unwrap_or(text), tone)
    }

    /// Leaves columns as they are.
    pub fn skip(&mut self, columns: u16) -> &mut Self {
        self.to(self.column() + columns)
    }

    /// Goes to a column, if that is further on.
    pub fn to(&mut self, column: u16) -> &mut Self {
        self.x = self.x.max(self.left.saturating_add(column).min(self.end));
        self
    }

    pub fn fill(&mut self, glyph: &str, tone: Tone) -> &mut Self {
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

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct StyledLine(Vec<Piece>);

/// Text of one tone.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Piece {
    text: String,
    tone: Tone,
    /// Columns; `None` for the width of its text.
    width: Option<u16>,
}

impl StyledLine {
    pub fn of(text: impl Into<String>, tone: Tone) -> StyledLine {
        let mut line = StyledLine::default();
        line.push(text, tone);
        line
    }

    pub fn push(&mut self, text: impl Into<String>, tone: Tone) -> &mut StyledLine {
        self.piece(text.into(), tone, None)
    }

    /// Goes on with the last piece, if that has the same tone.
    fn append(&mut self, text: &str, tone: Tone) {
        match self.0.last_mut() {
            Some(last) if last.tone == tone && last.width.is_none() => last.text.push_str(text),
            Some(_) | None if text.is_empty() => {}
            Some(_) | None => {
                self.push(text, tone);
            }
        }
    }

    /// Adds a piece of fixed width.
    pub fn column(&mut self, text: &str, width: u16, tone: Tone) -> &mut StyledLine {
        self.piece(text.to_string(), tone, Some(width))
    }

    /// Puts a piece of text in front of the line.
    pub fn behind(mut self, lead: &str, tone: Tone) -> StyledLine {
        let piece = Piece {
            text: lead.into(),
            tone,
            width: None,
        };
        self.0.insert(0, piece);
        self
    }

    fn piece(&mut self, text: String, tone: Tone, width: Option<u16>) -> &mut StyledLine {
        self.0.push(Piece { text, tone, width });
        self
    }

    pub fn draw(&self, canvas: &mut Canvas, row: u16) {
        let mut pen = canvas.pen(row);
        for Piece { text, tone, width } in &self.0 {
            let end = width.map(|width| pen.column() + width);
            pen.cut(text, width.unwrap_or(u16::MAX), *tone)
                .to(end.unwrap_or(0));
        }
    }
}

/// The beginning of a text, of at most so many columns.
pub(super) fn first_columns(text: &str, width: u16) -> &str {
    let mut taken = 0;
    for (at, c) in text.char_indices() {
        taken += unicode_width::UnicodeWidthChar::width(c).unwrap_or(0);
        if taken > usize::from(width) {
            return &text[..at];
        }
    }
    text
}

/// The same, but for a number that would be cut: what is left of it reads as another one.
fn first_columns_but_no_part_of_a_number(text: &str, width: u16) -> &str {
    let first = first_columns(text, width);
    let goes_on = text[first.len()..].starts_with(|c: char| c.is_ascii_digit() || ".,".contains(c));
    let before = first.trim_end_matches(|c: char| c.is_ascii_digit() || ".,".contains(c));
    match goes_on && first.ends_with(|c: char| c.is_ascii_digit() || ".,".contains(c)) {
        true => before,
        false => first,
    }
}

/// As many whole words as at most so many columns have room for; of a single one its beginning.
fn first_words(text: &str, width: u16) -> &str {
    let first = first_columns(text, width);
    let whole = match text[first.len()..].starts_with(' ') {
        true => Some(first),
        false => first.rfind(' ').map(|end| &first[..end]),
    };
    let whole = whole.map(|whole| whole.trim_end_matches([' ', ',', ';', ':', '(', '·']));
    whole
        .filter(|whole| !whole.is_empty())
        .unwrap_or_else(|| first_columns_but_no_part_of_a_number(text, width))
}

/// Wraps a text; a word wider than a line is broken.
pub(super) fn text(text: &str, width: u16, tone: Tone) -> Vec<StyledLine> {
    let of_line = |line: &str| {
        let words = line.split_inclusive(' ');
        wrapped("", words.map(|word| (word, tone)), width)
    };
    text.lines().flat_map(of_line).collect()
}

/// Text of one tone, wrapped, without its tone.
pub(super) fn rows(words: &str, width: u16) -> Vec<String> {
    let lines = text(words, width, Tone::Text).into_iter();
    let of_line = |line: StyledLine| line.0.into_iter().map(|piece| piece.text).collect();
    lines.map(of_line).collect()
}

fn pieces(mut word: &str, width: u16) -> Vec<&str> {
    let mut pieces = Vec::new();
    while columns(word.trim_end()) > width {
        let first = word.chars().next().map_or(0, char::len_utf8);
        let fitting = first_columns(word, width);
        // A call, a path or a list breaks behind what parts it, unless much of the line would be lost.
        let parted = fitting
            .rfind(['(', ',', '/', '=', '[', '|'])
            .map(|at| at + 1);
        let parted = parted.filter(|at| *at > fitting.len() / 2);
        let (piece, rest) = word.split_at(parted.unwrap_or(fitting.len()).max(first));
        pieces.push(piece);
        word = rest;
    }
    pieces.extend((!word.is_empty()).then_some(word));
    pieces
}

/// Wraps a text of several tones behind a label, indented below it.
pub(super) fn labelled(label: &str, parts: &[(String, Tone)], width: u16) -> Vec<StyledLine> {
    let words = parts
        .iter()
        .flat_map(|(text, tone)| text.split_inclusive(' ').map(|word| (word, *tone)));
    wrapped(label, words, width)
}

/// Wraps a diff behind a label, indented below it.
pub(super) fn difference(label: &str, words: &[DiffWord], width: u16) -> Vec<StyledLine> {
    let words = words
        .iter()
        .flat_map(|word| [(word.text.as_str(), word.kind.tone()), (" ", Tone::Text)]);
    wrapped(label, words, width)
}

/// Wraps words; one that is wider than a line is broken.
fn wrapped<'t>(
    label: &str,
    words: impl Iterator<Item = (&'t str, Tone)>,
    width: u16,
) -> Vec<StyledLine> {
    let indent = columns(label);
    // Beside a label that takes the whole line, words are left as they are.
    let line_width = match width.saturating_sub(indent) {
        0 => u16::MAX,
        room => room,
    };
    let pieces = words.flat_map(|(word, tone)| {
        let pieces = pieces(word, line_width).into_iter();
        pieces.map(move |piece| (piece, tone))
    });
    let mut pieces = pieces.peekable();
    let mut lines = vec![StyledLine::of(label, Tone::Dim)];
    let mut used = indent;
    // Behind the last word: it is left out at the end of a line.
    let mut space = None;
    while let Some((piece, tone)) = pieces.next() {
        let text = piece.trim_end();
        // No line begins with the punctuation of the one before.
        let behind = pieces.peek().map(|(next, _)| next.trim_end());
        let behind = behind.filter(|next| !next.is_empty() && next.chars().all(is_punctuation));
        let wanted = columns(text) + behind.map_or(0, columns);
        let is_behind = !text.is_empty() && text.chars().all(is_punctuation);
        let has_room = match is_behind {
            true => used + columns(text) <= width,
            false => used + wanted <= width,
        };
        if !has_room && used > indent {
            lines.push(StyledLine::of(" ".repeat(usize::from(indent)), Tone::Dim));
            used = indent;
            space = None;
        }
        if used == indent && text.is_empty() {
            continue;
        }
        if let Some(line) = lines.last_mut() {
            if let Some((space, tone)) = space {
                line.append(space, tone);
            }
            line.append(text, tone);
        }
        space = Some((&piece[text.len()..], tone));
        used += columns(piece);
    }
    lines
}

fn is_punctuation(character: char) -> bool {
    matches!(character, ';' | ',' | '.' | ':')
}

/// What of a text fits whole: all of it, or what stands before its parenthesis, its reason, its second clause.
pub(super) fn clauses_within(text: &str, room: u16) -> Option<&str> {
    let ends = [" (", ": ", ", "]
        .into_iter()
        .filter_map(|end| text.find(end));
    let parts = ends.map(|end| &text[..end]);
    [text]
        .into_iter()
        .chain(parts)
        .filter(|part| columns(part) <= room)
        .max_by_key(|part| part.len())
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

    #[test]
    fn no_number_is_cut_in_the_middle_and_a_title_ends_with_a_word() {
        let theme = Theme::full();
        let drawn = |width: u16, draw: &dyn Fn(&mut Canvas)| {
            let mut buf = Buffer::empty(Rect::new(0, 0, width, 1));
            let area = buf.area;
            let mut canvas = Canvas {
                buf: &mut buf,
                area,
                theme: &theme,
            };
            draw(&mut canvas);
            let cells = buf.content.iter().map(|cell| cell.symbol());
            cells.collect::<String>().trim_end().to_string()
        };
        let words = "peaked at 6.26 GiB, in step 114";
        let title = |width| {
            drawn(width, &|canvas| {
                canvas.below_head(&[
                    ("step", Tone::Strong),
                    (" · ", Tone::Dim),
                    (words, Tone::Text),
                ]);
            })
        };
        // As wide as it is: whole, and then a column less.
        assert!(title(41).contains("step · peaked at 6.26 GiB, in step 114"));
        for width in 0..40 {
            let title = title(width);
            let said = title.trim_end_matches(['─', ' ']);
            let numbers = said.split(|c: char| !(c.is_ascii_digit() || c == '.'));
            for number in numbers.filter(|number| number.contains(|c: char| c.is_ascii_digit())) {
                assert!(["6.26", "114"].contains(&number), "{width}: {title}");
            }
        }
        assert_eq!(title(38), "─ step · peaked at 6.26 GiB, in step…");
        assert_eq!(title(30), "─ step · peaked at 6.26 GiB… ─");
        let cut = |width| {
            drawn(width, &|canvas| {
                canvas.pen(0).rest("--batch-size 64", Tone::Text);
            })
        };
        assert_eq!(cut(15), "--batch-size 64");
        assert_eq!(cut(14), "--batch-size …");
        assert_eq!(cut(8), "--batch…");
    }
}

#[cfg(test)]
mod paragraph_tests {
    use super::*;
    use crate::ui::theme::Theme;
    use ratatui::buffer::Buffer;
    use ratatui::layout::Rect;

    fn said(lines: &[StyledLine]) -> Vec<String> {
        let text = |line: &StyledLine| line.0.iter().map(|piece| piece.text.as_str()).collect();
        lines.iter().map(text).collect()
    }

    #[test]
    fn text_breaks_at_spaces() {
        for (words, width, lines) in [
            ("one two three", 8, &["one two", "three"][..]),
            ("one two", 7, &["one two"]),
            ("abcdefgh ij", 4, &["abcd", "efgh", "ij"]),
            (
                "self.narrow(F.gelu(self.widen(self.norm2(x))))",
                27,
                &["self.narrow(F.gelu(", "self.widen(self.norm2(x))))"],
            ),
            ("", 4, &[]),
            ("日本語", 4, &["日本", "語"]),
            ("日", 1, &["日"]),
        ] {
            assert_eq!(said(&text(words, width, Tone::Text)), lines);
        }
    }

    #[test]
    fn labelled_text_is_indented_below_its_label() {
        let parts = [
            ("one two ".to_string(), Tone::Text),
            ("three".to_string(), Tone::Good),
        ];
        assert_eq!(
            said(&labelled("x  ", &parts, 11)),
            ["x  one two", "   three"]
        );
        assert_eq!(said(&labelled("x  ", &parts, 80)), ["x  one two three"]);
        let two = ["one two".to_string(), "; three".to_string()].map(|text| (text, Tone::Text));
        for width in 9..16 {
            let lines = said(&labelled("x  ", &two, width));
            let begins = |line: &String| line.trim_start().starts_with(';');
            assert!(!lines.iter().any(begins), "{width}: {lines:?}");
        }
        let narrow = said(&labelled("label  ", &parts, 3));
        assert_eq!(narrow, ["label  one", "       two", "       three"]);
    }

    #[test]
    fn columns_are_as_wide_as_they_are_to_be() {
        for (text, width, expected) in [
            ("ab", 4, "ab  !"),
            ("abcdef", 4, "abc…!"),
            ("日本語", 4, "日… !"),
            ("abc", 0, "!    "),
        ] {
            let mut buf = Buffer::empty(Rect::new(0, 0, 5, 1));
            let (area, theme) = (buf.area, &Theme::full());
            let mut line = StyledLine::default();
            line.column(text, width, Tone::Text).push("!", Tone::Text);
            line.draw(
                &mut Canvas {
                    buf: &mut buf,
                    area,
                    theme,
                },
                0,
            );
            assert_eq!(buf, Buffer::with_lines([expected]));
        }
    }
}
