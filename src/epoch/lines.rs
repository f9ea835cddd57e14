//! From chunks of a byte stream to what its lines say of epochs. A redrawn bar is a line each time.

use super::wording::{self, LineMeaning};
use crate::oom::{LineReader, LineSplitter, RawLine};

/// An epoch stands at the beginning of its line, behind a logger's prefix at most.
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
#[derive(Debug)]
pub struct EpochLines {
    lines: LineSplitter,
    /// A table's head has come, and its first row says the epoch.
    awaits_row: bool,
}

impl Default for EpochLines {
    fn default() -> EpochLines {
        EpochLines {
            lines: LineSplitter::new(wording::hint()),
            awaits_row: false,
        }
    }
}

impl EpochLines {
    /// Takes the stream's next chunk; `told` gets what its lines say, repetitions included.
    pub fn feed(&mut self, chunk: &[u8], told: &mut dyn FnMut(EpochMention<'_>)) {
        let EpochLines { lines, awaits_row } = self;
        lines.feed(chunk, &mut EpochReader { awaits_row, told });
    }

    /// The stream has ended, and with it its last line.
    pub fn finish(&mut self, told: &mut dyn FnMut(EpochMention<'_>)) {
        let EpochLines { lines, awaits_row } = self;
        lines.finish(&mut EpochReader { awaits_row, told });
    }
}

struct EpochReader<'a> {
    awaits_row: &'a mut bool,
    told: &'a mut dyn FnMut(EpochMention<'_>),
}

impl LineReader for EpochReader<'_> {
    fn wants_every_line(&self) -> bool {
        *self.awaits_row
    }

    fn read(&mut self, line: RawLine<'_>) {
        let line = &line.bytes[..line.bytes.len().min(LOOKED_AT)];
        if line.trim_ascii().is_empty() {
            return;
        }
        let of_table = std::mem::take(self.awaits_row).then(|| wording::row(line));
        let Some((said, at)) = of_table.flatten().or_else(|| wording::read(line)) else {
            return;
        };
        let (number, ended) = match said {
            LineMeaning::Head => return *self.awaits_row = true,
            LineMeaning::Number(number) => (number, false),
            LineMeaning::Ended(number) => (number, true),
        };
        let before = &line[..at];
        (self.told)(EpochMention {
            number,
            ended,
            before,
        });
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
    fn a_long_line_is_looked_at_no_further_than_its_beginning() {
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
