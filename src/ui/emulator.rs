//! The terminal that the program sees: vt100 and what it lacks. What would harm the emulator is cut out of the output:
//!
//! * Control strings (OSC, DCS, APC, PM, SOS) without an end, from a program killed in the middle
//!   of one or a binary file: vte keeps them in memory, and they hide all that follows.
//! * Long numbers in control sequences: repeating a character 65,536 times costs as much as a
//!   megabyte of text.
//! * The emoji mark U+FE0F: vt100 0.18 widens the sign before it, and panics if that was in the
//!   last column.
//!
//! Queries are answered (the cursor's position, the kind of terminal): without that prompt libraries and rich wait two seconds. And
//! keys and pasted text become the bytes that a terminal sends.

use super::reflow::{RowDistances, SMALLEST, at_least_two, new_parser, reflow};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use vt100::{Callbacks, Parser, Screen};

pub(super) struct Emulator {
    parser: Parser<TerminalAnswers>,
    cutter: Cutter,
    /// Whether the program has gone back to the beginning of the line that it is writing: a progress bar, which will do so again.
    is_in_place: bool,
}

/// Whether it has after these bytes, of which the last line counts.
fn is_in_place_after(bytes: &[u8], before: bool) -> bool {
    let begun = memchr::memrchr(b'\n', bytes);
    let line = begun.map_or(bytes, |at| &bytes[at + 1..]);
    (begun.is_none() && before) || memchr::memchr(b'\r', line).is_some()
}

impl Emulator {
    /// Sizes below 2 count as 2.
    pub fn new(rows: u16, columns: u16) -> Emulator {
        Emulator {
            parser: new_parser(rows, columns, TerminalAnswers::default()),
            cutter: Cutter::default(),
            is_in_place: false,
        }
    }

    /// Takes output of the program, cut anywhere.
    pub fn feed(&mut self, bytes: &[u8]) {
        let parser = &mut self.parser;
        self.is_in_place = is_in_place_after(bytes, self.is_in_place);
        self.cutter.feed(bytes, |piece| parser.process(piece));
    }

    /// Sizes below 2 count as 2.
    pub fn resize(&mut self, rows: u16, columns: u16) -> Resized {
        let before = self.size();
        if before == (rows.max(SMALLEST), columns.max(SMALLEST)) {
            return Resized::Not;
        }
        if before.1 == columns.max(SMALLEST) {
            self.parser
                .set_size(at_least_two(rows), at_least_two(columns));
            return Resized::Taller;
        }
        let (rows, columns) = (rows.max(SMALLEST), columns.max(SMALLEST));
        let reflowed = reflow(self.screen(), rows, columns, self.is_in_place);
        // The parser stays: it may be in the middle of a sequence.
        *self.parser.screen_mut() = reflowed.screen;
        Resized::Wrapped(reflowed.distances)
    }

    /// Rows and columns.
    pub fn size(&self) -> (u16, u16) {
        let (rows, columns) = self.screen().size();
        (rows.get(), columns.get())
    }

    pub fn screen(&self) -> &Screen {
        self.parser.screen()
    }

    pub fn screen_mut(&mut self) -> &mut Screen {
        self.parser.screen_mut()
    }

    /// Takes what a terminal would have answered to the program since the last call.
    pub fn take_answers(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.parser.callbacks_mut().pending)
    }
}

/// What became of the rows.
pub(super) enum Resized {
    Not,
    /// There are more or fewer of them in view.
    Taller,
    Wrapped(RowDistances),
}

/// Bytes of a control string; titles, links and clipboard snippets are far shorter.
const LONGEST: usize = 4_096;

/// Digits of a number in a control sequence: modes have four, and no screen is larger.
const MOST_DIGITS: usize = 4;

/// U+FE0F, VARIATION SELECTOR-16.
const EMOJI_MARK: [u8; 3] = [0xef, 0xb8, 0x8f];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum CutState {
    #[default]
    Text,
    /// After so many bytes of what may be the emoji mark, held back until that is known.
    Mark(usize),
    /// After an escape.
    Escape,
    /// In a control sequence, after so many digits of a number.
    Sequence(usize),
    /// In a string, after so many bytes.
    String(usize),
    /// After an escape in a string, after so many bytes.
    StringEscape(usize),
    /// In a string that has been cut: dropped up to its end, or to a newline, which no title has.
    Rest,
    /// After an escape in such a rest.
    RestEscape,
}

#[derive(Debug, Default)]
struct Cutter {
    place: CutState,
}

impl Cutter {
    /// Passes the bytes on in pieces.
    fn feed(&mut self, bytes: &[u8], mut out: impl FnMut(&[u8])) {
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.place == CutState::Text {
                // Most of the stream is text without an escape.
                match memchr::memchr2(0x1b, EMOJI_MARK[0], rest) {
                    None => return out(rest),
                    Some(at) if rest[at] == 0x1b => {
                        out(&rest[..=at]);
                        rest = &rest[at + 1..];
                        self.place = CutState::Escape;
                    }
                    Some(at) => {
                        out(&rest[..at]);
                        rest = &rest[at + 1..];
                        self.place = CutState::Mark(1);
                    }
                }
                continue;
            }
            if let CutState::Mark(held) = self.place {
                if rest[0] != EMOJI_MARK[held] {
                    out(&EMOJI_MARK[..held]);
                    self.place = CutState::Text;
                } else {
                    rest = &rest[1..];
                    self.place = match held + 1 == EMOJI_MARK.len() {
                        true => CutState::Text,
                        false => CutState::Mark(held + 1),
                    };
                }
                continue;
            }
            if let CutState::Sequence(digits) = self.place {
                rest = self.pass_sequence(digits, rest, &mut out);
                continue;
            }
            let (byte, after) = (rest[0], &rest[1..]);
            let before = self.place;
            self.place = before.next(byte);
            match (before, self.place) {
                (CutState::Rest | CutState::RestEscape, CutState::Text) if byte == b'\n' => {
                    out(&[byte])
                }
                (CutState::Rest | CutState::RestEscape, _) => {}
                (_, CutState::Rest) => out(b"\x1b\\"),
                (_, _) => out(&[byte]),
            }
            rest = after;
        }
    }

    /// Passes a control sequence on without excess digits; returns what follows it.
    fn pass_sequence<'a>(
        &mut self,
        mut digits: usize,
        bytes: &'a [u8],
        out: &mut impl FnMut(&[u8]),
    ) -> &'a [u8] {
        let mut from = 0;
        for (at, byte) in bytes.iter().enumerate() {
            self.place = CutState::Sequence(digits).next(*byte);
            let CutState::Sequence(more) = self.place else {
                out(&bytes[from..=at]);
                return &bytes[at + 1..];
            };
            digits = more;
            if digits > MOST_DIGITS {
                out(&bytes[from..at]);
                from = at + 1;
            }
        }
        out(&bytes[from..]);
        &[]
    }
}

impl CutState {
    fn next(self, byte: u8) -> CutState {
        const BEL: u8 = 0x07;
        const CAN: u8 = 0x18;
        const SUB: u8 = 0x1a;
        const ESC: u8 = 0x1b;
        match (self, byte) {
            (CutState::Text, ESC) => CutState::Escape,
            (CutState::Text | CutState::Mark(_), _) => CutState::Text,
            (CutState::Escape, b']' | b'P' | b'_' | b'^' | b'X') => CutState::String(0),
            (CutState::Escape, b'[') => CutState::Sequence(0),
            (CutState::Escape | CutState::Sequence(_), ESC) => CutState::Escape,
            (CutState::Sequence(n), b'0'..=b'9') => {
                CutState::Sequence((n + 1).min(MOST_DIGITS + 1))
            }
            // Between numbers.
            (CutState::Sequence(_), b' '..=b'?') => CutState::Sequence(0),
            (CutState::Sequence(_), CAN | SUB) => CutState::Text,
            (CutState::Sequence(n), 0..b' ') => CutState::Sequence(n),
            (CutState::Sequence(_), _) => CutState::Text,
            (CutState::Escape, _) => CutState::Text,
            (CutState::String(_) | CutState::StringEscape(_), BEL | CAN | SUB) => CutState::Text,
            (CutState::String(n), ESC) => CutState::StringEscape(n),
            (CutState::String(n), _) if n >= LONGEST => CutState::Rest,
            (CutState::String(n), _) => CutState::String(n + 1),
            (CutState::StringEscape(_), b'\\') => CutState::Text,
            // Any other escape sequence ends the string and begins itself.
            (CutState::StringEscape(_), _) => CutState::Escape.next(byte),
            (CutState::Rest | CutState::RestEscape, BEL | CAN | SUB | b'\n') => CutState::Text,
            (CutState::Rest, ESC) => CutState::RestEscape,
            (CutState::RestEscape, b'\\') => CutState::Text,
            (CutState::Rest | CutState::RestEscape, _) => CutState::Rest,
        }
    }
}

/// Bytes kept while they cannot be sent; a program that asks for more does not read them.
const MOST_PENDING: usize = 4_096;

#[derive(Default)]
struct TerminalAnswers {
    pending: Vec<u8>,
}

impl TerminalAnswers {
    fn push(&mut self, answer: &[u8]) {
        if self.pending.len() + answer.len() <= MOST_PENDING {
            self.pending.extend_from_slice(answer);
        }
    }
}

impl Callbacks for TerminalAnswers {
    fn unhandled_csi(
        &mut self,
        screen: &mut Screen,
        i1: Option<u8>,
        _i2: Option<u8>,
        params: &[&[u16]],
        c: char,
    ) {
        let first = params.first().and_then(|param| param.first()).copied();
        match (i1, c, first) {
            // DSR 6: cursor position, counted from 1.
            (None, 'n', Some(6)) => {
                let (row, col) = screen.cursor_position();
                self.push(format!("\x1b[{};{}R", row + 1, col + 1).as_bytes());
            }
            // DSR 5: in good order.
            (None, 'n', Some(5)) => self.push(b"\x1b[0n"),
            // Primary DA: a VT220 with colours, as xterm says it.
            (None, 'c', None | Some(0)) => self.push(b"\x1b[?62;22c"),
            // Secondary DA.
            (Some(b'>'), 'c', None | Some(0)) => self.push(b"\x1b[>0;0;0c"),
            (_, _, _) => {}
        }
    }
}

/// Empty for a key that no terminal sends.
pub(super) fn key_bytes(key: &KeyEvent, application_cursor: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    if key.modifiers.contains(KeyModifiers::ALT) {
        bytes.push(0x1b);
    }
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char(c) if control => bytes.extend(control_byte(c)),
        KeyCode::Char(c) => bytes.extend(c.encode_utf8(&mut [0; 4]).as_bytes()),
        KeyCode::Enter => bytes.push(b'\r'),
        KeyCode::Tab => bytes.push(b'\t'),
        KeyCode::BackTab => bytes.extend(b"\x1b[Z"),
        KeyCode::Backspace => bytes.push(0x7f),
        KeyCode::Esc => bytes.push(0x1b),
        KeyCode::Up => bytes.extend(cursor(b'A', application_cursor)),
        KeyCode::Down => bytes.extend(cursor(b'B', application_cursor)),
        KeyCode::Right => bytes.extend(cursor(b'C', application_cursor)),
        KeyCode::Left => bytes.extend(cursor(b'D', application_cursor)),
        KeyCode::Home => bytes.extend(cursor(b'H', application_cursor)),
        KeyCode::End => bytes.extend(cursor(b'F', application_cursor)),
        KeyCode::PageUp => bytes.extend(b"\x1b[5~"),
        KeyCode::PageDown => bytes.extend(b"\x1b[6~"),
        KeyCode::Insert => bytes.extend(b"\x1b[2~"),
        KeyCode::Delete => bytes.extend(b"\x1b[3~"),
        KeyCode::F(n) => bytes.extend(function_key(n)),
        KeyCode::Null => bytes.push(0),
        _ => bytes.clear(),
    }
    bytes
}

fn cursor(letter: u8, application: bool) -> [u8; 3] {
    [0x1b, if application { b'O' } else { b'[' }, letter]
}

/// Ctrl with a letter or one of `@[\]^_` clears the upper bits; with space it is NUL.
fn control_byte(c: char) -> Option<u8> {
    match c {
        ' ' | '2' => Some(0),
        'a'..='z' | 'A'..='Z' | '@' | '['..='_' => Some(c as u8 & 0x1f),
        '3'..='7' => Some(c as u8 - b'3' + 0x1b),
        '/' => Some(0x1f),
        '8' | '?' => Some(0x7f),
        _ => None,
    }
}

fn function_key(n: u8) -> &'static [u8] {
    match n {
        1 => b"\x1bOP",
        2 => b"\x1bOQ",
        3 => b"\x1bOR",
        4 => b"\x1bOS",
        5 => b"\x1b[15~",
        6 => b"\x1b[17~",
        7 => b"\x1b[18~",
        8 => b"\x1b[19~",
        9 => b"\x1b[20~",
        10 => b"\x1b[21~",
        11 => b"\x1b[23~",
        12 => b"\x1b[24~",
        _ => b"",
    }
}

/// Pasted text, bracketed if the program asked for that. An end mark in the text is removed, so
/// that the paste cannot end itself.
pub(super) fn pasted_bytes(text: &str, bracketed: bool) -> Vec<u8> {
    if bracketed {
        let text = text.replace("\x1b[201~", "");
        format!("\x1b[200~{text}\x1b[201~").into_bytes()
    } else {
        text.replace('\n', "\r").into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(pieces: &[&[u8]]) -> Vec<u8> {
        let mut cutter = Cutter::default();
        let mut all = Vec::new();
        for piece in pieces {
            cutter.feed(piece, |bytes| all.extend_from_slice(bytes));
        }
        all
    }

    #[test]
    fn what_is_in_order_passes_unchanged() {
        for stream in [
            &b"plain \x1b[31mred\x1b[0m"[..],
            b"\x1b]0;title\x07after",
            b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\",
            b"\x1bPq#0;1\x1b\\",
            b"\x1b\x1b]0;t\x07",
            b"\x1b]0;broken\x1b[1mbold",
            b"\x1b[?2026h\x1b[38;2;255;100;7m\x1b[1\r0A\x1b[5\x1b[1000Gx",
        ] {
            assert_eq!(cut(&[stream]), stream);
            let bytes: Vec<&[u8]> = stream.chunks(1).collect();
            assert_eq!(cut(&bytes), stream);
        }
    }

    #[test]
    fn a_long_string_is_ended_and_its_rest_dropped() {
        let mut stream = b"\x1b]0;".to_vec();
        stream.extend(std::iter::repeat_n(b'x', 100_000));
        stream.extend(b"\x07after");
        let passed = cut(&[&stream]);
        assert!(passed.len() < LONGEST + 20);
        assert!(passed.ends_with(b"\x1b\\after"));
    }

    #[test]
    fn a_number_that_is_too_long_is_shortened_wherever_it_is_cut() {
        for (stream, passed) in [
            (&b"a\x1b[65536bz"[..], &b"a\x1b[6553bz"[..]),
            (
                b"\x1b[99999999999999999999;70000Hz12345",
                b"\x1b[9999;7000Hz12345",
            ),
            (b"\x1b[12345\x18123456", b"\x1b[1234\x18123456"),
        ] {
            assert_eq!(cut(&[stream]), passed);
            let bytes: Vec<&[u8]> = stream.chunks(1).collect();
            assert_eq!(cut(&bytes), passed);
        }
    }

    #[test]
    fn the_mark_of_an_emoji_is_left_out_wherever_it_is_cut() {
        for (stream, passed) in [
            ("a\u{26a0}\u{fe0f} b", "a\u{26a0} b"),
            ("\u{fe0f}\u{fe0f}\x1b[1m\u{fe0f}", "\x1b[1m"),
            // Its neighbours, and signs that begin as it does.
            (
                "\u{fe0e}\u{ff21}\u{feff}\u{fffd}",
                "\u{fe0e}\u{ff21}\u{feff}\u{fffd}",
            ),
        ] {
            let stream = stream.as_bytes();
            assert_eq!(cut(&[stream]), passed.as_bytes());
            for at in 0..stream.len() {
                assert_eq!(cut(&[&stream[..at], &stream[at..]]), passed.as_bytes());
            }
        }
        // What only begins as one and is no character at all.
        assert_eq!(
            cut(&[b"\xef\xb8", b"x\xef", b"\xef\x1b[m"]),
            b"\xef\xb8x\xef\xef\x1b[m"
        );
    }

    #[test]
    fn a_newline_ends_what_has_no_end() {
        let mut stream = b"\x1bP".to_vec();
        stream.extend(std::iter::repeat_n(b'x', 10_000));
        stream.extend(b"\nTraceback");
        assert!(cut(&[&stream]).ends_with(b"\x1b\\\nTraceback"));
    }

    #[test]
    fn keys_become_what_a_terminal_sends() {
        for (code, modifiers, expected) in [
            (KeyCode::Char('x'), KeyModifiers::NONE, &b"x"[..]),
            (KeyCode::Char('é'), KeyModifiers::NONE, "é".as_bytes()),
            (KeyCode::Char('c'), KeyModifiers::CONTROL, b"\x03"),
            (KeyCode::Char('d'), KeyModifiers::CONTROL, b"\x04"),
            (KeyCode::Char('\\'), KeyModifiers::CONTROL, b"\x1c"),
            (KeyCode::Char('b'), KeyModifiers::ALT, b"\x1bb"),
            (KeyCode::Enter, KeyModifiers::NONE, b"\r"),
            (KeyCode::Up, KeyModifiers::NONE, b"\x1b[A"),
            (KeyCode::F(5), KeyModifiers::NONE, b"\x1b[15~"),
            (KeyCode::CapsLock, KeyModifiers::ALT, b""),
        ] {
            assert_eq!(key_bytes(&KeyEvent::new(code, modifiers), false), expected);
        }
        let up = KeyEvent::new(KeyCode::Up, KeyModifiers::NONE);
        assert_eq!(key_bytes(&up, true), b"\x1bOA");
    }

    #[test]
    fn a_progress_bar_leaves_nothing_behind_at_another_width() {
        let mut emulator = Emulator::new(6, 40);
        emulator.feed(b"loading\r\n|#---| step 1 of 400, loss 3.042");
        emulator.feed(b"\r|##--| step 2 of 400, loss 3.001");
        emulator.resize(6, 16);
        emulator.feed(b"\r|###-| step 3");
        emulator.resize(6, 40);
        emulator.feed(b"\r|####| step 4 of 400, loss 2.990");
        let shown = emulator.screen().contents();
        assert_eq!(shown.trim(), "loading\n|####| step 4 of 400, loss 2.990");
        // A line that is not written in place is wrapped, and whole again.
        let mut emulator = Emulator::new(6, 40);
        emulator.feed(b"\r|##--| step 2\r\nwhat would you like to do? ");
        emulator.resize(6, 16);
        emulator.resize(6, 40);
        assert!(emulator.screen().contents().contains("like to do?"));
    }

    #[test]
    fn a_paste_cannot_end_itself() {
        assert_eq!(pasted_bytes("a\nb", false), b"a\rb");
        assert_eq!(pasted_bytes("a\x1b[201~rm", true), b"\x1b[200~arm\x1b[201~");
    }
}
