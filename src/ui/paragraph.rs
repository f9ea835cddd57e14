//! Lines of text in several tones, and wrapping.

use crate::ui::canvas::Canvas;
use crate::ui::canvas::columns;
use crate::ui::difference::DiffWord;
use crate::ui::theme::Tone;

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
    pub(super) fn of(text: impl Into<String>, tone: Tone) -> StyledLine {
        let mut line = StyledLine::default();
        line.push(text, tone);
        line
    }

    pub(super) fn push(&mut self, text: impl Into<String>, tone: Tone) -> &mut StyledLine {
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
    pub(super) fn column(&mut self, text: &str, width: u16, tone: Tone) -> &mut StyledLine {
        self.piece(text.to_string(), tone, Some(width))
    }

    /// Puts a piece of text in front of the line.
    pub(super) fn behind(mut self, lead: &str, tone: Tone) -> StyledLine {
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

    pub(super) fn draw(&self, canvas: &mut Canvas, row: u16) {
        let mut pen = canvas.pen(row);
        for Piece { text, tone, width } in &self.0 {
            let end = width.map(|width| pen.column() + width);
            pen.cut(text, width.unwrap_or(u16::MAX), *tone)
                .to(end.unwrap_or(0));
        }
    }
}

/// The beginning of a text, of at most so many columns.
fn first_columns(text: &str, width: u16) -> &str {
    let mut taken = 0;
    for (at, c) in text.char_indices() {
        taken += unicode_width::UnicodeWidthChar::width(c).unwrap_or(0);
        if taken > usize::from(width) {
            return &text[..at];
        }
    }
    text
}

/// Wraps a text; a word wider than a line is broken.
pub(super) fn text(text: &str, width: u16, tone: Tone) -> Vec<StyledLine> {
    let of_line = |line: &str| {
        let words = line.split_inclusive(' ');
        wrapped("", words.map(|word| (word, tone)), width)
    };
    text.lines().flat_map(of_line).collect()
}

fn pieces(mut word: &str, width: u16) -> Vec<&str> {
    let mut pieces = Vec::new();
    while columns(word.trim_end()) > width {
        let first = word.chars().next().map_or(0, char::len_utf8);
        let (piece, rest) = word.split_at(first_columns(word, width).len().max(first));
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
    let mut lines = vec![StyledLine::of(label, Tone::Dim)];
    let mut used = indent;
    // Behind the last word: it is left out at the end of a line.
    let mut space = None;
    for (piece, tone) in pieces {
        let text = piece.trim_end();
        if used + columns(text) > width && used > indent {
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

#[cfg(test)]
mod tests {
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
