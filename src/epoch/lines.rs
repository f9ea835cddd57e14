//! From chunks of a byte stream to the lines that name an epoch.
//!
//! All output goes through here, so chunks are searched raw for the few letters that every wording
//! has, and only a line that has them is looked at. A redrawn bar is a line each time.

use super::wording::{self, LineMeaning};
use crate::oom::strip_escapes;
use memchr::{memchr, memchr2, memrchr2};

/// An epoch stands at the beginning of its line, behind a logger's prefix at most: what is further
/// on is not looked at. So an endless line costs no memory.
const LOOKED_AT: usize = 4096;

/// What a line said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochMention<'a> {
    /// The epoch's number, as the program counts.
    pub number: u64,
    /// Whether that many epochs are behind it: the program prints how far it is, `0.3` of them, so
    /// that 0 is no news.
    pub ended: bool,
    /// What stands in the line before it.
    pub before: &'a [u8],
}

/// The state between two chunks of one stream.
#[derive(Debug, Default)]
pub struct EpochLines {
    /// The beginning of a line whose end has not come.
    begun: Vec<u8>,
    /// What the names beside it have shown to be of the training's progress.
    proved: Option<LineMeaning>,
    /// A table's head has come, and its first row says the epoch.
    awaits_row: bool,
    /// Room for a line without its escapes.
    stripped: Vec<u8>,
}

impl EpochLines {
    /// Takes the stream's next chunk; `told` gets what its lines say, repetitions included.
    pub fn feed(&mut self, mut chunk: &[u8], told: &mut dyn FnMut(EpochMention<'_>)) {
        if !self.begun.is_empty() {
            let end = memchr2(b'\n', b'\r', chunk);
            self.begin(&chunk[..end.unwrap_or(chunk.len())]);
            let Some(end) = end else { return };
            self.finish(told);
            chunk = &chunk[end + 1..];
        }
        let whole = memrchr2(b'\n', b'\r', chunk).map_or(0, |last| last + 1);
        self.search(&chunk[..whole], told);
        self.begin(&chunk[whole..]);
    }

    /// The stream has ended, and with it its last line.
    pub fn finish(&mut self, told: &mut dyn FnMut(EpochMention<'_>)) {
        let mut line = std::mem::take(&mut self.begun);
        let hint = wording::hint(&line, 0);
        if self.awaits_row || hint.is_some() {
            self.read(&line, hint, told);
        }
        line.clear();
        self.begun = line;
    }

    fn begin(&mut self, bytes: &[u8]) {
        let room = LOOKED_AT.saturating_sub(self.begun.len());
        self.begun
            .extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn search(&mut self, whole: &[u8], told: &mut dyn FnMut(EpochMention<'_>)) {
        let mut at = 0;
        while at < whole.len() {
            let (start, hint) = match self.awaits_row {
                true => (at, None),
                false => {
                    let Some(hint) = wording::hint(whole, at) else {
                        return;
                    };
                    let end = memrchr2(b'\n', b'\r', &whole[at..hint]);
                    let start = end.map_or(at, |end| at + end + 1);
                    (start, Some(hint - start))
                }
            };
            let end = memchr2(b'\n', b'\r', &whole[start..]).map_or(whole.len(), |end| start + end);
            let end_looked_at = end.min(start + LOOKED_AT);
            self.read(&whole[start..end_looked_at], hint, told);
            at = end + 1;
        }
    }

    /// Reads one line; where its first hint stands, if that is known.
    fn read(&mut self, line: &[u8], hint: Option<usize>, told: &mut dyn FnMut(EpochMention<'_>)) {
        let mut stripped = std::mem::take(&mut self.stripped);
        // A hint beyond what is looked at is none.
        let hint = hint.filter(|at| at + wording::LONGEST_HINT <= line.len());
        let (line, hint) = match memchr(0x1b, line) {
            Some(_) => {
                stripped.clear();
                strip_escapes(line, &mut stripped);
                (stripped.as_slice(), None)
            }
            None => (line, hint),
        };
        let proved = &mut self.proved;
        let mut read = || match hint {
            Some(at) => wording::read_at(line, at, proved),
            None => wording::read(line, proved),
        };
        let said = match self.awaits_row {
            true if line.iter().all(u8::is_ascii_whitespace) => None,
            true => {
                self.awaits_row = false;
                wording::row(line).or_else(read)
            }
            false => read(),
        };
        match said {
            Some((LineMeaning::Head, _)) => self.awaits_row = true,
            Some((LineMeaning::Number(number), at)) => told(EpochMention {
                number,
                ended: false,
                before: &line[..at],
            }),
            Some((LineMeaning::Ended(number), at)) => told(EpochMention {
                number,
                ended: true,
                before: &line[..at],
            }),
            None => {}
        }
        self.stripped = stripped;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(stream: &[u8], chunk: usize) -> Vec<u64> {
        let mut found = Vec::new();
        let mut lines = EpochLines::default();
        for chunk in stream.chunks(chunk) {
            lines.feed(chunk, &mut |told| found.push(told.number));
        }
        lines.finish(&mut |told| found.push(told.number));
        found
    }

    #[test]
    fn however_a_stream_is_cut_its_lines_say_the_same() {
        let stream = b"start\r\nEpoch 1/9\r\n\rEpoch 2:  10%|# \rEpoch 2:  20%|## \n\
            \x1b[32m[INFO]\x1b[0m Train Epoch: \x1b[1m3\x1b[0m [64/640]\nother\n\n\
            {'loss': 0.7, 'epoch': 4.25}\nEpoch 5";
        for chunk in 1..=stream.len() {
            assert_eq!(
                numbers(stream, chunk),
                [1, 2, 2, 3, 4, 5],
                "chunks of {chunk}"
            );
        }
    }

    #[test]
    fn a_tables_head_makes_its_first_row_readable() {
        let stream = b"\n      Epoch    GPU_mem   box_loss  Instances       Size\n\
            \r\x1b[K        2/50      3.7G      1.108         31        640: 4% \
            \r\x1b[K        2/50      3.7G      1.101         29        640: 9% \n        7/8 done\n";
        for chunk in 1..=stream.len() {
            assert_eq!(numbers(stream, chunk), [2], "chunks of {chunk}");
        }
    }

    #[test]
    fn an_endless_line_is_looked_at_no_further_than_its_beginning() {
        let mut lines = EpochLines::default();
        for _ in 0..2_000 {
            lines.feed(&[b'x'; 4096], &mut |_| panic!("nothing is told"));
        }
        assert!(lines.begun.capacity() <= 2 * LOOKED_AT);
        let mut stream = b"Epoch 3 ".to_vec();
        stream.resize(3 * LOOKED_AT, b'.');
        stream.extend_from_slice(b" Epoch 9\nEpoch 4\n");
        for chunk in [100, 777, LOOKED_AT, stream.len()] {
            assert_eq!(numbers(&stream, chunk), [3, 4], "chunks of {chunk}");
        }
    }

    #[test]
    fn any_bytes_are_survived() {
        let pieces: [&[u8]; 7] = [
            b"Epoch ",
            b"\x1b[3",
            b"\xff\xfe",
            b"12",
            b"\r\n",
            b"%|#| ",
            b"[(",
        ];
        let mut seed = 7_u64;
        for _ in 0..2_000 {
            let mut stream = Vec::new();
            for _ in 0..12 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                stream.extend_from_slice(pieces[(seed >> 33) as usize % pieces.len()]);
            }
            assert_eq!(numbers(&stream, 3), numbers(&stream, stream.len()));
        }
    }
}
