//! What terminals, launchers and loggers add to a line is taken off it: escapes, HTML entities and leftovers of both,
//! prefixes, and the rank in them. A control string ends with its line at the latest.

use crate::units::Rank;
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

/// Bytes of a prefix: container, actor, date, level, module.
const LONGEST_PREFIX: usize = 200;

/// A line, or a part of it, and the rank that printed it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RankedText<'a> {
    /// The rank, if a prefix has it.
    pub(crate) rank: Option<Rank>,
    /// Without the rank's marker.
    pub(crate) text: &'a str,
}

/// `line` split at rank markers: `torchrun --tee` can glue the output of two ranks without a line
/// end (`94.70it/s][default1]:…`, seen with torch 2.15).
pub(crate) fn pieces(line: &str) -> Vec<RankedText<'_>> {
    let mut pieces = Vec::with_capacity(1);
    let mut rank = rank_in_prefix(line);
    let mut begin = 0;
    let mut from = 0;
    while let Some(at) = line[from..].find('[').map(|at| at + from) {
        let Some((marked, length)) = marker(&line[at..]) else {
            from = at + 1;
            continue;
        };
        let before = &line[begin..at];
        // A date or an actor's name before the first marker is a prefix, not another rank's text.
        let is_prefix =
            begin == 0 && before.len() <= LONGEST_PREFIX && before.ends_with(char::is_whitespace);
        if !before.is_empty() && !is_prefix {
            pieces.push(RankedText { rank, text: before });
        }
        rank = Some(marked);
        begin = at + length;
        from = begin;
    }
    pieces.push(RankedText {
        rank,
        text: &line[begin..],
    });
    pieces
}

/// `[rank3]:` (torch.distributed's excepthook) and `[default3]:` (torchrun `--tee`; "default" is
/// the role).
fn marker(text: &str) -> Option<(Rank, usize)> {
    let digits = text
        .strip_prefix("[rank")
        .or_else(|| text.strip_prefix("[default"))?;
    let (rank, after) = leading_rank(digits)?;
    let after = after.strip_prefix("]:")?;
    Some((rank, text.len() - after.len()))
}

/// Ranks in other prefixes: `(VllmWorker rank=1 pid=745)`, `[Rank 3]`, and `[1,3]<stderr>:` (mpirun
/// `--tag-output`: job, rank).
fn rank_in_prefix(line: &str) -> Option<Rank> {
    let mut end = line.len().min(LONGEST_PREFIX);
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    let head = &line[..end];
    let named = ["rank=", "[Rank ", "[rank ", "[rank: ", "[rank:"]
        .iter()
        .find_map(|name| {
            let at = head.find(name)?;
            // Not `local_rank=` and `node_rank=`.
            if head[..at].ends_with(|c: char| c == '_' || c.is_alphanumeric()) {
                return None;
            }
            let (rank, after) = leading_rank(&head[at + name.len()..])?;
            after.starts_with([' ', ')', ']', ',', ':']).then_some(rank)
        });
    named.or_else(|| {
        let tag = head.strip_prefix('[')?;
        let tag = &tag[..tag.find("]<std")?];
        tag.split_once(',')?.1.parse().ok().map(Rank)
    })
}

fn leading_rank(text: &str) -> Option<(Rank, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit())?;
    Some((Rank(text[..end].parse().ok()?), &text[end..]))
}

/// `line` without a prefix that it shares with `first`, digits aside: loggers and actors prefix
/// every line of a message.
pub(super) fn behind_shared_prefix<'a>(first: &str, line: &'a str) -> &'a str {
    let alike = |(a, b): &(u8, u8)| a == b || a.is_ascii_digit() && b.is_ascii_digit();
    let shared = first.bytes().zip(line.bytes()).take_while(alike).count();
    // The shared part may end within a word, a prefix does not.
    let end = line.as_bytes()[..shared]
        .iter()
        .rposition(|byte| matches!(byte, b' ' | b']' | b')' | b'|' | b'>'))
        .map_or(0, |last| last + 1);
    let is_quotation = first.starts_with("> ") && line.starts_with("> ");
    match end > 2 || is_quotation {
        true => &line[end..],
        false => line,
    }
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

    #[track_caller]
    fn check(line: &str, expected: &[(Option<u32>, &str)]) {
        let found: Vec<_> = pieces(line)
            .into_iter()
            .map(|piece| (piece.rank.map(|rank| rank.0), piece.text))
            .collect();
        assert_eq!(found, expected, "{line}");
    }

    #[test]
    fn markers_name_the_rank() {
        check("no marker", &[(None, "no marker")]);
        check("", &[(None, "")]);
        check("[rank3]: text", &[(Some(3), " text")]);
        check("[default11]:text", &[(Some(11), "text")]);
        check("2026-01-02 (Actor pid=7) [rank3]: t", &[(Some(3), " t")]);
        check("[default2]:[rank10]: t", &[(Some(10), " t")]);
        check("[1,6]<stderr>:text", &[(Some(6), "[1,6]<stderr>:text")]);
        check("(W rank=1 pid=9) t", &[(Some(1), "(W rank=1 pid=9) t")]);
        check("local_rank=1 t", &[(None, "local_rank=1 t")]);
        check(
            "[rankX]: [rank]: [rank9",
            &[(None, "[rankX]: [rank]: [rank9")],
        );
    }

    #[test]
    fn a_shared_prefix_is_no_part_of_a_message() {
        for (first, line, expected) in [
            (
                "10:00:01 E [x:3] CUDA out",
                "10:00:02 E [x:3] 14.5 GiB",
                "14.5 GiB",
            ),
            ("(W pid=71) CUDA out", "(W pid=71) ", ""),
            ("CUDA out of", "memory", "memory"),
            ("14.5 GiB", "12.7 GiB", "GiB"),
            ("é é é x", "é é é y", "y"),
            ("", "x", "x"),
        ] {
            assert_eq!(behind_shared_prefix(first, line), expected);
        }
    }

    #[test]
    fn glued_chunks_come_apart() {
        check(
            "[default0]:8/9 [94.70it/s][default1]:Error",
            &[(Some(0), "8/9 [94.70it/s]"), (Some(1), "Error")],
        );
        check("of which[rank1]: E", &[(None, "of which"), (Some(1), " E")]);
    }
}
