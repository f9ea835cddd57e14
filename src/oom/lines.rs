//! From chunks of a byte stream to the lines worth reading, only those with one of the words that the raw output is
//! searched for; and what terminals, launchers and loggers add to a line is taken off it: escapes, HTML entities and
//! leftovers of both, prefixes, and the rank in them. A control string ends with its line at the latest.

use crate::oom::table::WordingTable;
use crate::oom::wording::PHRASES;
use crate::oom::words::Words;
use crate::units::Rank;
use memchr::{memchr, memchr_iter, memchr2, memrchr2};
use std::sync::LazyLock;

/// A longer line is read in parts, so that an endless one does not fill the memory.
const LONGEST_LINE: usize = 64 * 1024;

/// A message that begins this close to the end of a part is read with the next part. The longest
/// message with sixteen processes is shorter.
const LONGEST_MESSAGE: usize = 4096;

/// Room for what precedes a message: its class, a rank, a logger's prefix. As much is kept of the
/// line before.
const LEAD: usize = 256;

/// A line, or a part of a very long one, without escapes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawLine<'a> {
    pub(crate) bytes: &'a [u8],
    /// Counted from 1; a carriage return starts no new number.
    pub(crate) number: u64,
    /// The end of the last line that was not empty, raw.
    pub(crate) previous: &'a [u8],
    pub(crate) promising: bool,
}

pub(crate) trait LineReader {
    /// Whether lines without the words are wanted too, for now.
    fn wants_every_line(&self) -> bool;
    fn read(&mut self, line: RawLine<'_>);
}

/// Splits a stream; holds at most one line and the end of the one before.
#[derive(Debug)]
pub(crate) struct LineSplitter {
    gate: LineGate,
    ended: u64,
    /// An unfinished line.
    begun: Vec<u8>,
    /// The end of the last line that was not empty.
    previous: Vec<u8>,
}

/// Passes on the lines worth reading.
#[derive(Debug)]
struct LineGate {
    words: &'static Words,
    /// Buffer for a line without escapes.
    stripped: Vec<u8>,
}

impl LineSplitter {
    /// For a stream that is searched for `words`.
    pub(crate) fn new(words: &'static Words) -> LineSplitter {
        LineSplitter {
            gate: LineGate {
                words,
                stripped: Vec::new(),
            },
            ended: 0,
            begun: Vec::new(),
            previous: Vec::new(),
        }
    }

    pub(crate) fn feed(&mut self, mut chunk: &[u8], reader: &mut dyn LineReader) {
        if !self.begun.is_empty() {
            let Some(end) = line_end(chunk) else {
                return self.begin(chunk, reader);
            };
            self.begin(&chunk[..end], reader);
            self.finish(reader);
            self.ended += u64::from(chunk[end] == b'\n');
            chunk = &chunk[end + 1..];
        }
        let whole = memrchr2(b'\n', b'\r', chunk).map_or(0, |last| last + 1);
        self.search(&chunk[..whole], reader);
        self.begin(&chunk[whole..], reader);
    }

    pub(crate) fn finish(&mut self, reader: &mut dyn LineReader) {
        self.offer_begun(self.begun.len(), reader);
    }

    /// Keeps the beginning of a line; reads it in parts if it is too long.
    fn begin(&mut self, mut bytes: &[u8], reader: &mut dyn LineReader) {
        while !bytes.is_empty() {
            let room = (LONGEST_LINE - self.begun.len()).min(bytes.len());
            self.begun.extend_from_slice(&bytes[..room]);
            bytes = &bytes[room..];
            if self.begun.len() == LONGEST_LINE {
                self.offer_begun(self.gate.cut(&self.begun), reader);
            }
        }
    }

    /// Reads so much of the unfinished line, and keeps the rest.
    fn offer_begun(&mut self, length: usize, reader: &mut dyn LineReader) {
        let line = &self.begun[..length];
        self.gate
            .offer(line, self.ended + 1, &self.previous, reader);
        remember(&mut self.previous, line);
        self.begun.drain(..length);
    }

    /// Searches whole lines.
    fn search(&mut self, whole: &[u8], reader: &mut dyn LineReader) {
        let mut at = 0;
        let mut counted = 0;
        let mut known = self.gate.words.nowhere();
        let mut escape = None;
        while at < whole.len() {
            let (start, end) = if reader.wants_every_line() {
                (at, at + line_end(&whole[at..]).unwrap_or(0))
            } else {
                let word = self.gate.words.next_from(whole, at, &mut known);
                let escape = match escape {
                    Some(next) if next >= at => next,
                    _ => *escape
                        .insert(memchr(0x1b, &whole[at..]).map_or(whole.len(), |found| at + found)),
                };
                let hit = word.min(escape);
                if hit == whole.len() {
                    break;
                }
                let start = memrchr2(b'\n', b'\r', &whole[at..hit]).map_or(at, |end| at + end + 1);
                (start, hit + line_end(&whole[hit..]).unwrap_or(0))
            };
            if start < end {
                self.ended += memchr_iter(b'\n', &whole[counted..start]).count() as u64;
                counted = start;
                self.read_whole(whole, start, end, reader);
            }
            at = end + 1;
        }
        self.ended += memchr_iter(b'\n', &whole[counted..]).count() as u64;
        remember(&mut self.previous, last_line(whole));
    }

    /// Reads the line `whole[start..end]`, in parts if it is too long.
    fn read_whole(&mut self, whole: &[u8], start: usize, end: usize, reader: &mut dyn LineReader) {
        let mut line = &whole[start..end];
        let mut previous = match last_line(&whole[..start]) {
            [] => &self.previous,
            before => tail(before),
        };
        while line.len() >= LONGEST_LINE {
            let (part, rest) = line.split_at(self.gate.cut(&line[..LONGEST_LINE]));
            self.gate.offer(part, self.ended + 1, previous, reader);
            previous = tail(part);
            line = rest;
        }
        self.gate.offer(line, self.ended + 1, previous, reader);
    }
}

impl LineGate {
    /// Passes a line on if it has one of the words, or if the reader wants all.
    fn offer(&mut self, raw: &[u8], number: u64, previous: &[u8], reader: &mut dyn LineReader) {
        let bytes = if memchr(0x1b, raw).is_some() {
            self.stripped.clear();
            strip_escapes(raw, &mut self.stripped);
            &self.stripped
        } else {
            raw
        };
        let promising = self.is_promising(bytes);
        if promising || reader.wants_every_line() {
            reader.read(RawLine {
                bytes,
                number,
                previous,
                promising,
            });
        }
    }

    /// Whether a line has one of the words; of a library's path there are many in any log.
    fn is_promising(&self, line: &[u8]) -> bool {
        let counts = |word: &[u8]| word != LIBRARY || may_be_a_call(line);
        self.words.has(line, counts)
    }

    /// Where to cut a line of [`LONGEST_LINE`] bytes: before a message that begins near its end. At
    /// least [`LEAD`] bytes are left for the next part.
    fn cut(&self, line: &[u8]) -> usize {
        let latest = line.len() - LEAD;
        let late = self.words.find_at(line, line.len() - LONGEST_MESSAGE);
        late.map_or(latest, |word| latest.min(word - LEAD))
    }
}

/// The word of a path into `site-packages` or `dist-packages`: with it calls are found that are printed without Python's
/// own words. Most lines with it are warnings.
const LIBRARY: &[u8] = b"-packages";

/// Whether a line with a library's path may be a call of a traceback: its function is behind ` in `, or rich has put it into
/// the next line.
fn may_be_a_call(line: &[u8]) -> bool {
    let mut end = line.trim_ascii_end();
    while let Some(before) = end.strip_suffix("│".as_bytes()).or(end.strip_suffix(b"|")) {
        end = before.trim_ascii_end();
    }
    end.last().is_some_and(u8::is_ascii_digit) || memchr::memmem::find(line, b" in ").is_some()
}

fn remember(previous: &mut Vec<u8>, line: &[u8]) {
    if !line.is_empty() {
        previous.clear();
        previous.extend_from_slice(tail(line));
    }
}

fn line_end(bytes: &[u8]) -> Option<usize> {
    memchr2(b'\n', b'\r', bytes)
}

/// The last line in `bytes` that is not empty.
fn last_line(bytes: &[u8]) -> &[u8] {
    let end = bytes
        .iter()
        .rposition(|byte| !matches!(byte, b'\n' | b'\r'))
        .map_or(0, |last| last + 1);
    let start = memrchr2(b'\n', b'\r', &bytes[..end]).map_or(0, |before| before + 1);
    &bytes[start..end]
}

fn tail(line: &[u8]) -> &[u8] {
    &line[line.len().saturating_sub(LEAD)..]
}

/// Every message, and every line about the program's end, has one of these.
pub(super) static WORDS: LazyLock<Words> = LazyLock::new(|| Words::new(words()));

/// As few as possible: a word that contains another is left out.
fn words() -> Vec<&'static str> {
    let rows = WordingTable::get().wordings.iter();
    let mut words: Vec<&str> = rows
        .flat_map(|row| row.find.iter().map(String::as_str))
        .chain(PHRASES.aftermath.find.iter().map(String::as_str))
        .collect();
    words.sort_by_key(|word| word.len());
    let mut fewest: Vec<&str> = Vec::new();
    for word in words {
        if !fewest.iter().any(|shorter| word.contains(shorter)) {
            fewest.push(word);
        }
    }
    fewest
}

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
    let named = [
        "rank=", "[Rank ", "[rank ", "[rank: ", "[rank:", "[RANK:", "[RANK ", "[Rank:",
    ]
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

    #[derive(Default)]
    struct CollectedLines {
        all: bool,
        lines: Vec<(u64, String, String)>,
    }

    impl LineReader for CollectedLines {
        fn wants_every_line(&self) -> bool {
            self.all
        }
        fn read(&mut self, line: RawLine<'_>) {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            self.lines
                .push((line.number, text(line.bytes), text(line.previous)));
        }
    }

    fn lines(stream: &[u8], chunk: usize, all: bool) -> Vec<(u64, String, String)> {
        let mut kept = CollectedLines {
            all,
            ..CollectedLines::default()
        };
        let mut lines = LineSplitter::new(&WORDS);
        for chunk in stream.chunks(chunk) {
            lines.feed(chunk, &mut kept);
        }
        lines.finish(&mut kept);
        kept.lines
    }

    #[test]
    fn only_promising_lines_are_read_with_their_numbers() {
        let stream =
            b"one\r\n\r\nthree\rbar\rCUDA out of memory\nfour\nfive\n\x1b[1mout \x1b[0mof memory";
        for chunk in 1..stream.len() {
            let found = lines(stream, chunk, false);
            let expected = [
                (3, "CUDA out of memory", "bar"),
                (6, "out of memory", "five"),
            ];
            let found: Vec<_> = found
                .iter()
                .map(|(number, line, before)| (*number, line.as_str(), before.as_str()))
                .collect();
            assert_eq!(found, expected, "chunks of {chunk}");
        }
    }

    #[test]
    fn a_librarys_path_promises_a_call_alone() {
        let rich = "│ /srv/site-packages/torch/nn/module.py:12                    │";
        let called = "│ /srv/site-packages/torch/nn/module.py:12 in forward │";
        let others = "/srv/dist-packages/torch/nn/module.py in _call_impl(self, *input)";
        let warning = "/srv/site-packages/x.py:8: UserWarning: many workers";
        let killed = "/srv/site-packages/x.py:8: UserWarning: exited with 1";
        for (line, is_read) in [
            (rich, true),
            (called, true),
            (others, true),
            (warning, false),
            (killed, true),
        ] {
            let found = lines(line.as_bytes(), 1024, false);
            assert_eq!(!found.is_empty(), is_read, "{line}");
        }
    }

    #[test]
    fn a_reader_may_want_every_line() {
        let found = lines(b"a\n\nb\rc", 2, true);
        let numbers: Vec<_> = found
            .iter()
            .map(|(number, line, _)| (*number, line.as_str()))
            .collect();
        assert_eq!(numbers, [(1, "a"), (3, "b"), (3, "c")]);
    }

    #[test]
    fn an_endless_line_is_read_in_parts_that_cut_no_word() {
        for padding in [
            LONGEST_LINE - 20,
            LONGEST_LINE - LEAD - 6,
            LONGEST_LINE - LONGEST_MESSAGE - 3,
            LONGEST_LINE,
            3 * LONGEST_LINE,
        ] {
            let mut stream = vec![b'x'; padding];
            stream.extend_from_slice(b"CUDA out of memory");
            stream.resize(stream.len() + 2 * LONGEST_LINE, b'y');
            let whole = lines(&stream, stream.len(), false);
            assert_eq!(whole, lines(&stream, 777, false));
            let mut ended = stream.clone();
            ended.push(b'\n');
            assert_eq!(whole, lines(&ended, ended.len(), false));
            let with_word: Vec<_> = whole
                .iter()
                .filter(|(_, line, _)| line.contains("CUDA out of memory"))
                .collect();
            assert_eq!(with_word.len(), 1, "{padding}");
            assert!(whole.iter().all(|(_, line, _)| line.len() <= LONGEST_LINE));
        }
    }

    #[test]
    fn memory_stays_flat_on_an_endless_line() {
        let mut kept = CollectedLines::default();
        let mut lines = LineSplitter::new(&WORDS);
        for _ in 0..2_000 {
            lines.feed(&[b'x'; 4096], &mut kept);
        }
        assert!(lines.begun.capacity() <= 2 * LONGEST_LINE);
    }

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
