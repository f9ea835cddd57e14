//! Removes from the output what would harm the terminal emulator:
//!
//! * Control strings (OSC, DCS, APC, PM, SOS) without an end, from a program killed in the middle
//!   of one or a binary file: vte keeps them in memory, and they hide all that follows.
//! * Long numbers in control sequences: repeating a character 65,536 times costs as much as a
//!   megabyte of text.
//! * The emoji mark U+FE0F: vt100 0.18 widens the sign before it, and panics if that was in the
//!   last column.

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
pub(super) struct Cutter {
    place: CutState,
}

impl Cutter {
    /// Passes the bytes on in pieces.
    pub(super) fn feed(&mut self, bytes: &[u8], mut out: impl FnMut(&[u8])) {
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
}
