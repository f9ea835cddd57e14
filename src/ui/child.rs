//! The program's output as a terminal shows it: colours, progress bars, cursor movement.
//!
//! It is fed a copy of the output and does no I/O: what a terminal answers to the program's queries
//! is queued for the loop to send.

mod answers;
mod cut;
mod rows;
mod search_select;

use super::action::Scroll;
pub(super) use search_select::SearchDirection;

use answers::TerminalAnswers;
use cut::Cutter;
use rows::{OutputSearch, Selection};
use std::cell::Cell;
use std::num::NonZeroU16;
use vt100::Parser;

/// Rows of scrollback on a terminal of usual width. vt100 keeps 32 bytes per cell, blank or not: at
/// 140 columns this is 4.5 MB. The log has everything.
const SCROLLBACK: usize = 1_000;

/// Cells of scrollback: a wide terminal gets fewer rows.
const SCROLLBACK_CELLS: usize = 160_000;

/// Some programs divide by the terminal's width.
const SMALLEST: u16 = 2;

pub struct ChildScreen {
    parser: Parser<TerminalAnswers>,
    cutter: Cutter,
    awaits_input: bool,
    /// Counted when it is asked for: output comes more often than frames.
    used: Cell<Option<u16>>,
    /// The last byte of untouched output was a carriage return.
    returned: bool,
    search: Option<OutputSearch>,
    selection: Option<Selection>,
}

impl std::fmt::Debug for ChildScreen {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("ChildScreen")
            .field("scrolled", &self.scrolled())
            .field("search", &self.search)
            .field("selection", &self.selection)
            .finish_non_exhaustive()
    }
}

impl ChildScreen {
    pub fn new(rows: u16, cols: u16) -> ChildScreen {
        ChildScreen {
            parser: Parser::new_with_callbacks(
                at_least_two(rows),
                at_least_two(cols),
                SCROLLBACK.min(SCROLLBACK_CELLS / usize::from(cols.max(SMALLEST))),
                TerminalAnswers::default(),
            ),
            cutter: Cutter::default(),
            awaits_input: false,
            used: Cell::new(Some(1)),
            returned: false,
            search: None,
            selection: None,
        }
    }

    /// As new, of the same size.
    pub fn clear(&mut self) {
        let (rows, cols) = self.size();
        *self = ChildScreen::new(rows, cols);
    }

    /// Takes output, cut anywhere.
    pub fn feed(&mut self, bytes: &[u8]) {
        let before = self.scrolled();
        let parser = &mut self.parser;
        self.cutter.feed(bytes, |piece| parser.process(piece));
        self.used.set(None);
        if before > 0 {
            // The matched and the selected rows have moved up with the view.
            let added = self.scrolled().saturating_sub(before);
            let found = self
                .search
                .iter_mut()
                .filter_map(|search| search.at.as_mut());
            let selected = self.selection.iter_mut();
            let selected = selected.flat_map(|rows| [&mut rows.anchor, &mut rows.head]);
            found.chain(selected).for_each(|row| *row += added);
        }
    }

    /// Takes output that went to a file or a pipe: a terminal's line discipline would have added
    /// carriage returns to its newlines.
    pub fn feed_untouched(&mut self, bytes: &[u8]) {
        let mut lines = Vec::with_capacity(bytes.len() + bytes.len() / 16);
        let mut from = 0;
        for at in memchr::memchr_iter(b'\n', bytes) {
            let returned = match at.checked_sub(1) {
                Some(before) => bytes[before] == b'\r',
                None => self.returned,
            };
            lines.extend_from_slice(&bytes[from..at]);
            lines.extend_from_slice(if returned { b"\n" } else { b"\r\n" });
            from = at + 1;
        }
        lines.extend_from_slice(&bytes[from..]);
        if let Some(last) = bytes.last() {
            self.returned = *last == b'\r';
        }
        self.feed(&lines);
    }

    /// Says whether the program waits at a prompt.
    pub fn set_awaits_input(&mut self, awaits: bool) {
        self.awaits_input = awaits;
    }

    pub fn awaits_input(&self) -> bool {
        self.awaits_input
    }

    /// Sizes below 2 count as 2.
    pub fn resize(&mut self, rows: u16, cols: u16) {
        if self.size() != (rows.max(SMALLEST), cols.max(SMALLEST)) {
            self.parser.set_size(at_least_two(rows), at_least_two(cols));
            self.used.set(None);
        }
    }

    pub fn size(&self) -> (u16, u16) {
        let (rows, cols) = self.parser.screen().size();
        (rows.get(), cols.get())
    }

    /// While scrolled back, new output does not move the view.
    pub fn scroll(&mut self, scroll: Scroll) {
        let screen = self.parser.screen_mut();
        let now = screen.scrollback();
        screen.set_scrollback(match scroll {
            Scroll::Up(rows) => now.saturating_add(rows),
            Scroll::Down(rows) => now.saturating_sub(rows),
            Scroll::Start => usize::MAX,
            Scroll::End => 0,
        });
    }

    /// Rows from the top to the last one that has something, or the cursor.
    pub fn used_rows(&self) -> u16 {
        let used = self.used.get().unwrap_or_else(|| self.count_used_rows());
        self.used.set(Some(used));
        used
    }

    fn count_used_rows(&self) -> u16 {
        let screen = self.parser.screen();
        let (rows, cols) = screen.size();
        if screen.scrollback_len() > 0 {
            return rows.get();
        }
        let cursor = screen.cursor_position().0 + 1;
        // A row without text or background is formatted as nothing.
        let below = screen.rows_formatted(0, cols.get()).skip(cursor.into());
        let last = (cursor + 1..)
            .zip(below)
            .filter(|(_, row)| !row.is_empty())
            .last();
        last.map_or(cursor, |(used, _)| used)
    }

    pub fn scrolled(&self) -> usize {
        self.parser.screen().scrollback()
    }

    pub fn has_scrollback(&self) -> bool {
        self.parser.screen().scrollback_len() > 0
    }

    pub fn screen(&self) -> &vt100::Screen {
        self.parser.screen()
    }

    /// Takes what a terminal would have answered since the last call, to be written to the
    /// program's terminal.
    pub fn take_answers(&mut self) -> Vec<u8> {
        self.parser.callbacks_mut().take()
    }

    /// The last rows with any text, at most so many, with their colours: printed on the primary
    /// screen when oomph leaves, so that they stay visible.
    pub fn tail_formatted(&mut self, rows: usize) -> Vec<u8> {
        let (_, width) = self.size();
        let lines = rows::each(&mut self.parser, |screen| {
            let texts = screen.rows(0, width);
            let formatted = screen.rows_formatted(0, width);
            texts.zip(formatted).collect()
        });
        let last = lines.iter().rposition(|(text, _)| !text.trim().is_empty());
        let end = last.map_or(0, |last| last + 1);
        let mut text = Vec::new();
        for (_, line) in &lines[end.saturating_sub(rows)..end] {
            text.extend_from_slice(line.as_bytes());
            text.extend_from_slice(b"\x1b[0m\r\n");
        }
        text
    }
}

fn at_least_two(n: u16) -> NonZeroU16 {
    NonZeroU16::MIN.saturating_add(n.max(SMALLEST) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(screen: &ChildScreen) -> String {
        screen.screen().contents()
    }

    #[test]
    fn what_no_terminal_touched_begins_each_line_at_its_begin() {
        let mut screen = ChildScreen::new(6, 20);
        for piece in ["one\ntwo\r", "\nthree\n", "\r\n", "four"] {
            screen.feed_untouched(piece.as_bytes());
        }
        let rows: Vec<String> = screen.parser.screen().rows(0, 20).collect();
        assert_eq!(rows, ["one", "two", "three", "", "four", ""]);
    }

    #[test]
    fn used_rows_reach_to_the_last_text_or_the_cursor() {
        let mut screen = ChildScreen::new(6, 20);
        assert_eq!(screen.used_rows(), 1);
        screen.feed(b"one\r\ntwo\r\n");
        assert_eq!(screen.used_rows(), 3);
        screen.feed(b"\x1b[5;1Hfive\x1b[H");
        assert_eq!(screen.used_rows(), 5);
        screen.feed(b"\x1b[6;1H\r\n\n");
        assert_eq!(screen.used_rows(), 6, "it has scrolled");
        screen.clear();
        assert_eq!(screen.used_rows(), 1);
    }

    #[test]
    fn scrollback_costs_what_was_estimated() {
        assert_eq!(std::mem::size_of::<vt100::Cell>(), 32);
    }

    #[test]
    fn progress_bars_overwrite_themselves() {
        let mut screen = ChildScreen::new(4, 30);
        screen.feed(b"epoch 1\r\n 10%|#         |\r 20%|##        |");
        assert_eq!(text(&screen), "epoch 1\n 20%|##        |");
    }

    #[test]
    fn questions_are_answered_in_order_and_bounded() {
        let mut screen = ChildScreen::new(5, 20);
        screen.feed(b"ab\x1b[6n\x1b[c\x1b[5n\x1b[>c");
        assert_eq!(
            screen.take_answers(),
            b"\x1b[1;3R\x1b[?62;22c\x1b[0n\x1b[>0;0;0c"
        );
        assert_eq!(screen.take_answers(), b"");
        for _ in 0..100_000 {
            screen.feed(b"\x1b[6n");
        }
        assert!(screen.take_answers().len() <= 4_096);
    }

    #[test]
    fn a_string_without_end_is_cut() {
        let mut screen = ChildScreen::new(5, 20);
        screen.feed(b"\x1b]0;");
        for _ in 0..1_000 {
            screen.feed(&[b'x'; 1_024]);
        }
        screen.feed(b"\nhello");
        assert!(text(&screen).contains("hello"), "{:?}", text(&screen));
    }

    #[test]
    fn the_tail_is_what_was_last_seen() {
        let mut screen = ChildScreen::new(4, 20);
        for n in 0..20 {
            screen.feed(format!("line {n}\r\n").as_bytes());
        }
        let mut tail = |rows| String::from_utf8(screen.tail_formatted(rows)).unwrap();
        assert_eq!(tail(2), "line 18\x1b[0m\r\nline 19\x1b[0m\r\n");
        let ten = tail(10);
        assert_eq!(ten.lines().count(), 10, "{ten:?}");
        assert!(ten.starts_with("line 10"), "{ten:?}");
        let all = tail(100);
        assert_eq!(all.lines().count(), 20, "{all:?}");
        assert_eq!(ChildScreen::new(4, 20).tail_formatted(5), b"");
    }

    #[test]
    fn scrolling_stays_where_it_was_put() {
        let mut screen = ChildScreen::new(3, 20);
        for n in 0..10 {
            screen.feed(format!("line {n}\r\n").as_bytes());
        }
        screen.scroll(Scroll::Up(2));
        let seen = text(&screen);
        screen.feed(b"more\r\nand more\r\n");
        assert_eq!(text(&screen), seen);
        screen.scroll(Scroll::End);
        assert_ne!(text(&screen), seen);
        screen.scroll(Scroll::Start);
        assert!(text(&screen).starts_with("line 0"));
    }

    /// vt100 0.18 widens a sign that U+FE0F follows, wherever it stands.
    #[test]
    fn an_emoji_in_the_last_column_does_no_harm() {
        for (rows, cols) in (2..6).flat_map(|rows| (2..9).map(move |cols| (rows, cols))) {
            let mut screen = ChildScreen::new(rows, cols);
            screen.feed(format!("\x1b[{rows};{cols}H\u{26a0}\u{fe0f}").as_bytes());
            screen.feed(format!("\x1b[H{}", "words".repeat(20)).as_bytes());
        }
    }

    proptest! {
        #[test]
        fn any_bytes_at_any_size_do_no_harm(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..20),
            sizes in prop::collection::vec((0u16..40, 0u16..40), 1..5),
        ) {
            let mut screen = ChildScreen::new(0, 0);
            for (n, piece) in pieces.iter().enumerate() {
                screen.feed(piece);
                let (rows, cols) = sizes[n % sizes.len()];
                screen.resize(rows, cols);
            }
            screen.tail_formatted(7);
            screen.take_answers();
        }

        /// Random bytes hardly ever are a wide character or a whole sequence.
        #[test]
        fn any_words_of_a_terminal_at_any_size_do_no_harm(
            words in prop::collection::vec((0..WORDS.len(), 0u16..12, 0u16..12), 0..60),
        ) {
            let mut screen = ChildScreen::new(4, 6);
            for (word, rows, cols) in words {
                match WORDS[word] {
                    "resize" => screen.resize(rows, cols),
                    "go" => screen.feed(format!("\x1b[{rows};{cols}H").as_bytes()),
                    "region" => screen.feed(format!("\x1b[{rows};{cols}r").as_bytes()),
                    text => screen.feed(text.as_bytes()),
                }
            }
            screen.tail_formatted(7);
        }
    }

    const WORDS: [&str; 27] = [
        "resize",
        "go",
        "region",
        "a",
        "some words",
        "\u{26a0}\u{fe0f}",
        "\u{fe0f}",
        "\u{6f22}",
        "\u{6f22}\u{5b57}",
        "\u{301}",
        "\u{1f468}\u{200d}\u{1f469}",
        "\t",
        "\r",
        "\n",
        "\x08",
        "\x1b7",
        "\x1b8",
        "\x1b[?1049h",
        "\x1b[?1049l",
        "\x1b[2J",
        "\x1b[K",
        "\x1b[P",
        "\x1b[X",
        "\x1b[@",
        "\x1b[L",
        "\x1b[M",
        "\x1b[3b",
    ];
}
