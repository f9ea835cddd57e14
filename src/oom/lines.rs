//! From chunks of a byte stream to the lines worth reading: only those with one of the words that the raw output is searched for.

use crate::oom::sanitize::strip_escapes;
use crate::oom::table::WordingTable;
use crate::oom::wording::PHRASES;
use memchr::{memchr, memchr_iter, memchr2, memrchr2};
use regex::bytes::Regex;
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
    words: &'static Regex,
    /// Buffer for a line without escapes.
    stripped: Vec<u8>,
}

impl LineSplitter {
    /// For a stream that is searched for `words`.
    pub(crate) fn new(words: &'static Regex) -> LineSplitter {
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
        let (mut word, mut escape) = (0, 0);
        let mut looked = false;
        while at < whole.len() {
            let (start, end) = if reader.wants_every_line() {
                (at, at + line_end(&whole[at..]).unwrap_or(0))
            } else {
                let from = |position: usize| !looked || position < at;
                if from(word) {
                    word = self
                        .gate
                        .words
                        .find_at(whole, at)
                        .map_or(whole.len(), |found| found.start());
                }
                if from(escape) {
                    escape = memchr(0x1b, &whole[at..]).map_or(whole.len(), |found| at + found);
                }
                looked = true;
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
        let promising = self.words.is_match(bytes);
        if promising || reader.wants_every_line() {
            reader.read(RawLine {
                bytes,
                number,
                previous,
                promising,
            });
        }
    }

    /// Where to cut a line of [`LONGEST_LINE`] bytes: before a message that begins near its end. At
    /// least [`LEAD`] bytes are left for the next part.
    fn cut(&self, line: &[u8]) -> usize {
        let latest = line.len() - LEAD;
        let late = self.words.find_at(line, line.len() - LONGEST_MESSAGE);
        late.map_or(latest, |word| latest.min(word.start() - LEAD))
    }
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
pub(super) static WORDS: LazyLock<Regex> = LazyLock::new(|| {
    let pattern: Vec<String> = words().into_iter().map(regex::escape).collect();
    Regex::new(&pattern.join("|")).expect("literals make a valid expression")
});

/// As few as possible: a word that contains another is left out.
pub(super) fn words() -> Vec<&'static str> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oom::lines::WORDS;

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
}
