//! The lines of a recording's file in the order of time, in bounded memory: a file of any size can be
//! replayed from its first lines on.
//!
//! Lines are written nearly in order: a bucket of readings when it closes, the last minute of them
//! at an OOM and at the end. A window of the file that is larger than that is sorted as it is read.

use crate::units::Moment;
use serde::Deserialize;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Take};

/// Longer lines are ignored: none of our events comes close.
pub(super) const LONGEST_LINE: usize = 16 << 20;

/// A first line of this length is not a damaged one: what is read is no recording, and may have no end.
const NO_FIRST_LINE: u64 = 4 * LONGEST_LINE as u64;

/// Bytes of lines that are held to be sorted: several times what is ever written late.
const WINDOW: usize = 8 << 20;

/// Lines that are held; a hostile file may have nothing but short ones.
const WINDOW_LINES: usize = 100_000;

/// A line, as it was read.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TimedLine {
    pub(super) at: Moment,
    /// Its number in the file, from 1.
    pub(super) line: u32,
    /// Bytes, which may be more than were kept.
    pub(super) length: u64,
    /// Without its newline; empty if it is too long.
    pub(super) text: Vec<u8>,
}

/// The lines of one file. Blank lines and an unfinished last line are skipped.
#[derive(Debug)]
pub(super) struct TimedLines {
    reader: Take<BufReader<File>>,
    window: BinaryHeap<Reverse<TimedLine>>,
    held: usize,
    /// The time of the line before: a line without one is reported in its place.
    at: Moment,
    line: u32,
    /// Whether a line with a time was read: until then it may be anything.
    is_recording: bool,
    ended: bool,
    /// How many bytes of the file were let through so far.
    length: u64,
    /// Of a file that still grows: the beginning of the last line.
    unfinished: Option<Vec<u8>>,
}

impl TimedLines {
    /// The file as it is now: what is written later is not read.
    pub(super) fn new(file: File) -> io::Result<TimedLines> {
        let about = file.metadata()?;
        let length = match about.is_file() {
            true => about.len(),
            false => u64::MAX,
        };
        Ok(TimedLines {
            reader: BufReader::with_capacity(256 << 10, file).take(length),
            window: BinaryHeap::new(),
            held: 0,
            at: Moment::ZERO,
            line: 0,
            is_recording: false,
            ended: false,
            length,
            unfinished: None,
        })
    }

    /// The same of a file that grows: the end of an unfinished last line is awaited.
    pub(super) fn growing(file: File) -> io::Result<TimedLines> {
        Ok(TimedLines {
            unfinished: Some(Vec::new()),
            ..TimedLines::new(file)?
        })
    }

    /// Goes on to where the file ends now.
    ///
    /// # Errors
    /// It has become shorter.
    pub(super) fn go_on(&mut self, length: u64) -> io::Result<()> {
        let Some(more) = length.checked_sub(self.length) else {
            return Err(io::Error::other("it has become shorter"));
        };
        self.length = length;
        self.reader.set_limit(self.reader.limit() + more);
        self.ended = more == 0;
        Ok(())
    }

    /// When the next line is; `None` at the end.
    pub(super) fn peek(&mut self) -> io::Result<Option<Moment>> {
        while !self.ended && self.held < WINDOW && self.window.len() < WINDOW_LINES {
            self.read_line()?;
            let much = self.line as usize >= WINDOW_LINES || self.held >= WINDOW;
            if much && !self.ended && !self.is_recording {
                return Err(no_recording("its first lines have no event"));
            }
        }
        Ok(self.window.peek().map(|line| line.0.at))
    }

    pub(super) fn next(&mut self) -> Option<TimedLine> {
        let Reverse(line) = self.window.pop()?;
        self.held -= line.text.len();
        Some(line)
    }

    fn read_line(&mut self) -> io::Result<()> {
        let mut text = Vec::new();
        let LineSpan { mut length, ended } = match self.is_recording {
            true => next_line(&mut self.reader, &mut text)?,
            false => next_line(&mut self.reader.by_ref().take(NO_FIRST_LINE), &mut text)?,
        };
        if !self.is_recording && length == NO_FIRST_LINE {
            return Err(no_recording("its first line has no end"));
        }
        if let Some(begun) = &mut self.unfinished {
            if begun.len() <= LONGEST_LINE {
                begun.append(&mut text);
            }
            if !ended {
                self.ended = true;
                return Ok(());
            }
            text = std::mem::take(begun);
            length = length.max(text.len() as u64);
        }
        if length == 0 && !ended {
            self.ended = true;
            return Ok(());
        }
        self.line = self.line.saturating_add(1);
        let time = moment_of(&text);
        self.is_recording |= time.is_some();
        self.at = time.unwrap_or(self.at);
        let cut_off = !ended && time.is_none_or(|_| !is_json(&text));
        if text.iter().all(u8::is_ascii_whitespace) || cut_off {
            return Ok(());
        }
        if length > LONGEST_LINE as u64 {
            text = Vec::new();
        }
        text.shrink_to_fit();
        self.held += text.len();
        self.window.push(Reverse(TimedLine {
            at: self.at,
            line: self.line,
            length,
            text,
        }));
        Ok(())
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

fn no_recording(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
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
