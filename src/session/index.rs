//! The position and time of each line in a recording's files: 32 bytes per line, so that a week of
//! events can be sorted without loading them.

use crate::units::Moment;
use serde::Deserialize;
use std::fs::File;
use std::io::{self, BufRead, BufReader};

/// Longer lines are ignored: none of our events comes close.
pub(super) const LONGEST_LINE: usize = 16 << 20;

/// Where a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct IndexedLine {
    pub at: Moment,
    /// The index of the file.
    pub file: u8,
    pub offset: u64,
    /// Without its newline.
    pub length: u32,
    /// From 1.
    pub line: u32,
}

/// The lines of `file`, in order. Blank lines and an unfinished last line are skipped. A line
/// without a time gets that of the line before, so that it is reported in its place.
pub(super) fn index(file: &File, number: u8) -> io::Result<Vec<IndexedLine>> {
    let mut reader = BufReader::with_capacity(256 << 10, file);
    let mut entries = Vec::new();
    let (mut offset, mut at, mut line) = (0, Moment::ZERO, 0);
    let mut text = Vec::new();
    loop {
        let LineSpan { length, ended } = next_line(&mut reader, &mut text)?;
        if length == 0 && !ended {
            return Ok(entries);
        }
        line += 1;
        let time = moment_of(&text);
        at = time.unwrap_or(at);
        let cut_off = !ended && time.is_none_or(|_| !is_json(&text));
        if !text.iter().all(u8::is_ascii_whitespace) && !cut_off {
            entries.push(IndexedLine {
                at,
                file: number,
                offset,
                length: u32::try_from(length).unwrap_or(u32::MAX),
                line,
            });
        }
        offset += length + u64::from(ended);
    }
}

/// The length of a line without its newline, and whether it had one.
struct LineSpan {
    length: u64,
    ended: bool,
}

/// Reads up to a newline; bytes beyond [`LONGEST_LINE`] are counted and dropped.
fn next_line(reader: &mut impl BufRead, text: &mut Vec<u8>) -> io::Result<LineSpan> {
    text.clear();
    let mut length = 0;
    loop {
        let available = match reader.fill_buf() {
            Ok(available) => available,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let newline = memchr::memchr(b'\n', available);
        let taken = newline.unwrap_or(available.len());
        let kept = taken.min(LONGEST_LINE.saturating_sub(text.len()));
        text.extend_from_slice(&available[..kept]);
        length += taken as u64;
        let ended = newline.is_some();
        let end_of_file = available.is_empty();
        reader.consume(taken + usize::from(ended));
        if ended || end_of_file {
            return Ok(LineSpan { length, ended });
        }
    }
}

fn is_json(text: &[u8]) -> bool {
    serde_json::from_slice::<serde::de::IgnoredAny>(text).is_ok()
}

/// The time of a line's event. Our own lines begin with it, so the rest needn't be parsed; other
/// lines are parsed.
fn moment_of(text: &[u8]) -> Option<Moment> {
    if let Some(rest) = text.strip_prefix(b"{\"at\":") {
        let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        if digits > 0 && rest.get(digits) == Some(&b',') {
            return std::str::from_utf8(&rest[..digits])
                .ok()?
                .parse()
                .ok()
                .map(Moment);
        }
    }
    #[derive(Deserialize)]
    struct Stamp {
        at: Moment,
    }
    serde_json::from_slice::<Stamp>(text)
        .ok()
        .map(|stamp| stamp.at)
}
