//! Removes terminal escapes, HTML entities and leftovers of both from a line. A control string ends
//! with its line at the latest.

use memchr::{memchr, memchr2};

const ESC: u8 = 0x1b;
const BEL: u8 = 0x07;

/// Bytes of a control string (OSC, DCS, APC …). Titles and hyperlinks are far shorter; a longer one
/// is text behind a stray introducer.
const LONGEST_CONTROL_STRING: usize = 4096;

/// Bytes of a CSI sequence's parameters.
const LONGEST_PARAMETERS: usize = 64;

/// Appends `raw` to `out` without its escape sequences.
///
/// Cursor movements become a space, since programs draw blanks with them. Of an unclosed control
/// string only the introducer is removed, so that no text is lost.
pub(super) fn strip_escapes(raw: &[u8], out: &mut Vec<u8>) {
    let mut rest = raw;
    while let Some(at) = memchr(ESC, rest) {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at + 1..];
        let Some((&introducer, after)) = rest.split_first() else {
            return;
        };
        rest = match introducer {
            b'[' => after_csi(after, out),
            b']' | b'P' | b'X' | b'^' | b'_' => after_control_string(after),
            // An intermediate byte: one more byte follows (character sets).
            b' '..=b'/' => after.get(1..).unwrap_or_default(),
            0x30..=0x7e => after,
            // No escape sequence: only the ESC is removed.
            _ => rest,
        };
    }
    out.extend_from_slice(rest);
}

/// What follows a CSI sequence (ECMA-48 §5.4: parameters, intermediates, one final byte).
fn after_csi<'a>(rest: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
    for (at, &byte) in rest.iter().take(LONGEST_PARAMETERS).enumerate() {
        match byte {
            0x20..=0x3f => {}
            0x40..=0x7e => {
                if matches!(byte, b'C' | b'E' | b'G' | b'H' | b'f') {
                    out.push(b' ');
                }
                return &rest[at + 1..];
            }
            _ => return &rest[at..],
        }
    }
    &rest[rest.len().min(LONGEST_PARAMETERS)..]
}

fn after_control_string(rest: &[u8]) -> &[u8] {
    let window = &rest[..rest.len().min(LONGEST_CONTROL_STRING)];
    match memchr2(BEL, ESC, window) {
        Some(at) if window[at] == BEL => &rest[at + 1..],
        Some(at) if rest.get(at + 1) == Some(&b'\\') => &rest[at + 2..],
        Some(_) | None => rest,
    }
}

/// `line`, already without escapes, as text: entities resolved, colour codes without their ESC byte
/// removed, control characters replaced by spaces.
pub(super) fn readable(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let mut out = String::with_capacity(text.len());
    let mut rest: &str = &text;
    while let Some(at) = rest.find(|c: char| matches!(c, '[' | '&' | '\\' | '^') || c.is_control())
    {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let (replacement, length) = debris(rest);
        out.push_str(replacement);
        rest = &rest[length..];
    }
    out.push_str(rest);
    out
}

/// The replacement for the start of `text`, and the length of what it replaces.
fn debris(text: &str) -> (&str, usize) {
    const ENTITIES: [(&str, &str); 7] = [
        ("&gt;", ">"),
        ("&lt;", "<"),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&#x27;", "'"),
        ("&nbsp;", " "),
        ("&amp;", "&"),
    ];
    // An ESC as printed by repr(), JSON or `cat -v`, or missing.
    const WRITTEN_ESCAPES: [&str; 7] = [
        "\\x1b[", "\\x1B[", "\\u001b[", "\\u001B[", "\\033[", "^[[", "[",
    ];
    if let Some((entity, meant)) = ENTITIES.iter().find(|(e, _)| text.starts_with(e)) {
        return (meant, entity.len());
    }
    for written in WRITTEN_ESCAPES {
        if let Some(after) = text.strip_prefix(written)
            && let Some(length) = colour_length(after)
        {
            return ("", written.len() + length);
        }
    }
    let first = text.chars().next().map_or(0, char::len_utf8);
    match text.as_bytes().first() {
        Some(byte) if byte.is_ascii_control() => (" ", first),
        _ if text.starts_with(char::is_control) => (" ", first),
        _ => (&text[..first], first),
    }
}

/// The length of `36m` or `1;31m` at the start of `text`.
fn colour_length(text: &str) -> Option<usize> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != ';')?;
    (text[end..].starts_with('m') && (1..=16).contains(&end)).then_some(end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stripped(raw: &[u8]) -> String {
        let mut out = Vec::new();
        strip_escapes(raw, &mut out);
        readable(&out)
    }

    #[test]
    fn escapes_vanish_and_text_stays() {
        let cases: [(&[u8], &str); 12] = [
            (b"plain", "plain"),
            (b"\x1b[1;35mtorch.E\x1b[0m: \x1b[35mm\x1b[0m", "torch.E: m"),
            (b"a\x1b[1Cb", "a b"),
            (b"\x1b]0;a title\x07text", "text"),
            (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
            (b"\x1b]0;never closed, text", "0;never closed, text"),
            (b"\x1bPq#0;data\x1b\\after", "after"),
            (b"\x1b(Bset", "set"),
            (b"\x1b7saved\x1b8", "saved"),
            (b"cut \x1b", "cut "),
            (b"cut \x1b[38;5", "cut "),
            (b"\x1b[31\xc3\xa9", "\u{e9}"),
        ];
        for (raw, expected) in cases {
            assert_eq!(stripped(raw), expected, "{raw:?}");
        }
    }

    #[test]
    fn debris_of_escapes_and_entities_vanishes() {
        let cases = [
            ("[36m(Actor pid=7)[0m text", "(Actor pid=7) text"),
            ("\\x1b[36mx\\x1b[0m", "x"),
            ("^[[1;31mx^[[0m", "x"),
            ("a &gt;&gt; b &amp;gt; &unknown;", "a >> b &gt; &unknown;"),
            ("[3] [rank0]: [ma", "[3] [rank0]: [ma"),
            ("C:\\new\\x1", "C:\\new\\x1"),
            ("a\tb\u{7}c", "a b c"),
        ];
        for (raw, expected) in cases {
            assert_eq!(readable(raw.as_bytes()), expected, "{raw:?}");
        }
    }

    #[test]
    fn an_endless_control_string_hides_at_most_its_bound() {
        let mut raw = b"\x1b]0;".to_vec();
        raw.resize(raw.len() + LONGEST_CONTROL_STRING, b'x');
        raw.extend_from_slice(b"\x07the end");
        assert!(stripped(&raw).contains("xxx"));
    }
}
