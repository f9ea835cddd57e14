//! The program's output as a terminal shows it: colours, progress bars, cursor movement.
//!
//! It is fed a copy of the output and does no I/O: what a terminal answers to the program's queries
//! is queued for the loop to send.

mod find;

use crate::ui::action::Scroll;
use crate::ui::emulator::{Emulator, Resized};
use crate::ui::output_rows::{self, OutputSearch, Selection};
use std::cell::{Cell, RefCell};

pub use find::SearchDirection;

pub struct ChildScreen {
    emulator: Emulator,
    awaits_input: bool,
    /// Counted when it is asked for: output comes more often than frames.
    used: Cell<Option<u16>>,
    /// Whether the latest bytes had an escape sequence.
    had_escapes: bool,
    /// The last byte of untouched output was a carriage return.
    returned: bool,
    search: Option<OutputSearch>,
    selection: Option<Selection>,
    pace: RefCell<LatestPace>,
    /// Ends of lines so far, and returns to the begin of one.
    breaks: usize,
}

/// The pace that was last in view, and the breaks until then. A bar that was cut by a resize has none until it is drawn again.
#[derive(Debug, Default)]
struct LatestPace {
    words: Option<String>,
    breaks: usize,
}

/// The newest rows, in which a progress bar stands.
const ROWS_OF_A_BAR: usize = 3;

/// So many breaks later, the last pace is long ago.
const BREAKS_OF_A_BAR: usize = 3;

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
            emulator: Emulator::new(rows, cols),
            awaits_input: false,
            used: Cell::new(Some(1)),
            had_escapes: false,
            returned: false,
            search: None,
            selection: None,
            pace: RefCell::default(),
            breaks: 0,
        }
    }

    /// Forgets all output; the size stays.
    pub fn clear(&mut self) {
        let (rows, cols) = self.size();
        *self = ChildScreen::new(rows, cols);
    }

    /// Takes output, cut anywhere.
    pub fn feed(&mut self, bytes: &[u8]) {
        let before = self.scrolled();
        let rows = self.used.get();
        self.emulator.feed(bytes);
        self.breaks += memchr::memchr2_iter(b'\n', b'\r', bytes).count();
        let has_escapes = memchr::memchr(0x1b, bytes).is_some();
        // Plain text goes on from the cursor: what is below it is as it was. A sequence may have begun in the bytes before.
        let had_escapes = std::mem::replace(&mut self.had_escapes, has_escapes);
        let plain = rows.filter(|_| !has_escapes && !had_escapes);
        self.used
            .set(plain.map(|rows| output_rows::used_after(self.screen(), rows)));
        if before > 0 {
            // The matched and the selected rows have moved up with the view.
            let added = self.scrolled().saturating_sub(before);
            self.each_row(|row| *row += added);
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

    /// Sizes below 2 count as 2. Lines are wrapped anew; what was in view, found or selected stays so.
    pub fn resize(&mut self, rows: u16, cols: u16) {
        let top = (self.scrolled() > 0).then(|| self.distance_of(0));
        match self.emulator.resize(rows, cols) {
            Resized::Not => return,
            Resized::Taller => {}
            Resized::Wrapped(distances) => {
                self.each_row(|row| *row = distances.of(*row));
                if let Some(top) = top {
                    let below = usize::from(self.size().0) - 1;
                    let view = distances.of(top).saturating_sub(below).max(1);
                    self.emulator.screen_mut().set_scrollback(view);
                }
                if let Some(found) = self.search.as_ref().and_then(|search| search.at) {
                    self.show_row(found);
                }
            }
        }
        self.used.set(None);
    }

    /// The rows that were found and selected, by their distances.
    fn each_row(&mut self, change: impl Fn(&mut usize)) {
        let found = self.search.iter_mut();
        let found = found.filter_map(|search| search.at.as_mut());
        let selected = self.selection.iter_mut();
        let selected = selected.flat_map(|rows| [&mut rows.anchor, &mut rows.head]);
        found.chain(selected).for_each(change);
    }

    pub fn size(&self) -> (u16, u16) {
        self.emulator.size()
    }

    /// While scrolled back, new output does not move the view.
    pub fn scroll(&mut self, scroll: Scroll) {
        let screen = self.emulator.screen_mut();
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
        let used = self
            .used
            .get()
            .unwrap_or_else(|| output_rows::used(self.screen()));
        self.used.set(Some(used));
        used
    }

    /// The pace that the newest lines name, while they are in view.
    pub fn printed_pace(&self) -> Option<String> {
        if self.scrolled() > 0 {
            return None;
        }
        let found = self.newest_lines(ROWS_OF_A_BAR, output_rows::pace_in);
        let mut latest = self.pace.borrow_mut();
        if let Some(words) = &found {
            *latest = LatestPace {
                words: Some(words.clone()),
                breaks: self.breaks,
            };
        }
        let is_recent = self.breaks <= latest.breaks + BREAKS_OF_A_BAR;
        found.or_else(|| latest.words.clone().filter(|_| is_recent))
    }

    /// The first that is found in the newest lines that are not blank, from the last one on. A line that is broken over rows is read
    /// as one. Rows above those are not looked at: this is asked for with every frame.
    fn newest_lines(
        &self,
        lines: usize,
        found_in: impl Fn(&str) -> Option<String>,
    ) -> Option<String> {
        let screen = self.screen();
        let (height, _) = self.size();
        let mut seen = 0;
        let mut line = String::new();
        for row in (0..height).rev() {
            // Up to the beginning of the next one; what wraps has no line break.
            line.insert_str(0, &screen.contents_between(row, 0, row + 1, 0));
            let is_whole = row == 0 || !screen.row_wrapped(row - 1);
            if is_whole && !line.trim().is_empty() {
                seen += 1;
                let found = found_in(line.trim_end_matches('\n'));
                if found.is_some() || seen == lines {
                    return found;
                }
            }
            if is_whole {
                line.clear();
            }
        }
        None
    }

    pub fn scrolled(&self) -> usize {
        self.emulator.screen().scrollback()
    }

    pub fn has_scrollback(&self) -> bool {
        self.emulator.screen().scrollback_len() > 0
    }

    /// Whether the program has asked its terminal for the mouse.
    pub(super) fn uses_mouse(&self) -> bool {
        self.screen().mouse_protocol_mode() != vt100::MouseProtocolMode::None
    }

    pub fn screen(&self) -> &vt100::Screen {
        self.emulator.screen()
    }

    /// Takes what a terminal would have answered since the last call, to be written to the
    /// program's terminal.
    pub fn take_answers(&mut self) -> Vec<u8> {
        self.emulator.take_answers()
    }

    /// The last rows with any text, at most so many, with their colours: printed on the primary
    /// screen when oomph leaves, so that they stay visible.
    pub fn tail_formatted(&mut self, rows: usize) -> Vec<u8> {
        let (_, width) = self.size();
        let lines = output_rows::each(self.emulator.screen_mut(), |screen| {
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
        let rows: Vec<String> = screen.screen().rows(0, 20).collect();
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
        screen.feed(b"one\r\ntwo");
        assert_eq!(screen.used_rows(), 2, "plain text goes on from the cursor");
        screen.feed(b"\x1b[");
        screen.feed(b"5;1Hfive");
        screen.feed(b"!");
        assert_eq!(screen.used_rows(), 5, "a sequence in two pieces");
    }

    #[test]
    fn scrollback_costs_what_was_estimated() {
        assert_eq!(std::mem::size_of::<vt100::Cell>(), 32);
    }

    #[test]
    fn the_pace_is_the_newest_bars() {
        let mut screen = ChildScreen::new(6, 40);
        screen.feed(b"1/9 [00:01, 4.5it/s]\r\n2/9 [00:02, 5.5it/s]\r\nsaved\r\n");
        assert_eq!(screen.printed_pace().as_deref(), Some("5.5 it/s"));
        screen.feed(b"a\r\nb\r\n");
        assert_eq!(screen.printed_pace(), None, "it is long ago");
    }

    #[test]
    fn a_bar_that_was_wider_leaves_no_letter() {
        let mut screen = ChildScreen::new(6, 40);
        screen.feed(b"\r|####| step 12/300, loss 1.9, 3.69 it/s");
        screen.resize(6, 20);
        // Blanks over what was there before, as far as a bar goes.
        screen.feed(format!("\r{:<19}", "step 13/300").as_bytes());
        assert_eq!(text(&screen).trim_end(), "step 13/300");
    }

    #[test]
    fn a_bar_keeps_its_pace_where_it_is_broken_or_cut() {
        let mut screen = ChildScreen::new(6, 40);
        screen.feed(b"\r|####| step 12/300, loss 1.9, 3.69 it/s");
        assert_eq!(screen.printed_pace().as_deref(), Some("3.69 it/s"));
        for columns in [37, 35, 30, 12] {
            screen.resize(6, columns);
            let pace = screen.printed_pace();
            assert_eq!(pace.as_deref(), Some("3.69 it/s"), "{columns}");
        }
        screen.feed(b"\rstep 13/300\rstep 14/300");
        assert_eq!(screen.printed_pace().as_deref(), Some("3.69 it/s"));
        screen.feed(b"\rstep 15/300\rstep 16/300");
        assert_eq!(
            screen.printed_pace(),
            None,
            "the program says no more of it"
        );
        let mut broken = ChildScreen::new(6, 36);
        broken.feed(b"|####| step 12/300, loss 1.9, 3.69 it/s\r\n");
        assert_eq!(broken.printed_pace().as_deref(), Some("3.69 it/s"));
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

    #[test]
    fn a_narrower_terminal_and_back_eats_no_text() {
        let mut screen = ChildScreen::new(8, 120);
        let line = |n: usize| format!("line {n} {} end {n}", "of a log ".repeat(9));
        for n in 0..40 {
            screen.feed(format!("\x1b[3{}m{}\x1b[0m\r\n", n % 8, line(n)).as_bytes());
        }
        screen.feed("漢字、".repeat(18).as_bytes());
        screen.feed(b"\r\n\x1b[1;32m 40%|####");
        let rows = |screen: &mut ChildScreen| output_rows::all(screen.emulator.screen_mut());
        let (before, was) = (rows(&mut screen), screen.tail_formatted(99));
        screen.resize(14, 60);
        let narrow = screen.screen().contents();
        assert!(narrow.contains("end 38"), "{narrow}");
        assert!(narrow.ends_with(" 40%|####"), "{narrow}");
        screen.feed(b"##");
        screen.resize(8, 120);
        let after = rows(&mut screen);
        let (last, others) = after.split_last().unwrap();
        assert_eq!(last.text, " 40%|######");
        assert_eq!(others, &before[..before.len() - 1]);
        // With the colours, too.
        let shown = |bytes: Vec<u8>| {
            let mut again = ChildScreen::new(50, 120);
            again.feed(&bytes);
            let first = |row| again.screen().cell(row, 0).map(|cell| cell.fgcolor());
            (0..20).map(first).collect::<Vec<_>>()
        };
        assert_eq!(shown(screen.tail_formatted(99)), shown(was));
    }

    fn seen(screen: &ChildScreen) -> String {
        screen.screen().contents()
    }

    #[test]
    fn what_was_scrolled_to_and_selected_stays_at_another_width() {
        let mut screen = ChildScreen::new(5, 30);
        for n in 1..=45 {
            screen.feed(format!("step {n} with a few more words\r\n").as_bytes());
        }
        screen.search_for("step 20 ".into());
        screen.begin_selection(Some(2));
        let selected = screen.selected_text();
        screen.resize(5, 14);
        assert!(seen(&screen).contains("step 20 "), "{}", seen(&screen));
        assert!((0..5).any(|row| screen.marks(row).current));
        screen.resize(5, 30);
        assert_eq!(screen.selected_text(), selected);
    }

    #[test]
    fn modes_the_saved_cursor_and_a_sequence_in_its_middle_outlive_another_width() {
        let mut screen = ChildScreen::new(5, 30);
        screen.feed(b"\x1b[?2004h\x1b[?1h\x1b[?25lone\r\ntwo\x1b7\r\nthree\x1b[3");
        screen.resize(5, 12);
        screen.feed(b"1mred\x1b8 more");
        assert!(screen.screen().bracketed_paste() && screen.screen().application_cursor());
        assert!(screen.screen().hide_cursor());
        assert_eq!(seen(&screen), "one\ntwo more\nthreered");
        let cell = screen.screen().cell(2, 5).unwrap();
        assert_eq!(cell.fgcolor(), vt100::Color::Idx(1));
        // A full-screen program, and what it left below it.
        screen.feed(b"\x1b[?1049h\x1b[Hfull screen");
        screen.resize(5, 8);
        screen.resize(5, 12);
        assert!(screen.screen().alternate_screen());
        screen.feed(b"\x1b[?1049l");
        assert_eq!(seen(&screen), "one\ntwo more\nthreered");
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
