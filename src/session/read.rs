//! Reads a recording: each event once, in order of time, whatever state the files are in.
//!
//! A killed front may leave half a line at the end, and its last readings in a file beside the
//! recording; a disk may leave worse. Reading continues in spite of that.

use super::fidelity::{Fidelity, fidelity};
use super::lines::{LONGEST_LINE, TimedLine, TimedLines};
use super::open_regular::open_regular;
use super::recent::with_suffix;
use super::strip_controls::{is_suspect, strip_controls};
use crate::event::{Event, EventKind};
use crate::units::Moment;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why an event, or a whole recording, can't be read.
#[derive(Debug)]
pub enum ReadError {
    /// A line that isn't an event; reading continues after it.
    Corrupt {
        path: PathBuf,
        /// From 1.
        line: u32,
        reason: String,
    },
    /// The file can't be read.
    Unreadable { path: PathBuf, error: io::Error },
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Corrupt { path, line, reason } => {
                write!(f, "{}:{line}: not an event: {reason}", path.display())
            }
            ReadError::Unreadable { path, error } => {
                write!(f, "cannot read {}: {error}", path.display())
            }
        }
    }
}

// The message already includes the cause.
impl std::error::Error for ReadError {}

/// Opens the recording at `path` (the file, or its session's directory) in its current state: later
/// lines are not read. Events of unknown kinds are skipped. Memory does not grow with the file.
pub fn read(path: &Path) -> Result<Events, ReadError> {
    let main = if path.is_dir() {
        path.join(super::RECORDING)
    } else {
        path.to_owned()
    };
    let open = |path: PathBuf| match open_regular(&path).and_then(TimedLines::new) {
        Ok(lines) => Ok((lines, path)),
        Err(error) => Err(ReadError::Unreadable { path, error }),
    };
    // The last two were written by earlier versions.
    let beside = [".recent", ".recent-0", ".recent-1"].map(|suffix| with_suffix(&main, suffix));
    let mut files = vec![open(main)?];
    files.extend(beside.into_iter().filter_map(|path| open(path).ok()));
    Ok(Events::new(files))
}

/// The events of a recording.
#[derive(Debug)]
pub struct Events {
    files: Vec<(TimedLines, PathBuf)>,
    bytes: u64,
    at: Moment,
    /// The readings at `at` so far: a reading may have been written twice, from its bucket and from
    /// the last minute.
    readings: Vec<EventKind>,
}

impl Iterator for Events {
    type Item = Result<Event, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let read = match self.next_line() {
                Ok(line) => line?,
                Err(error) => return Some(Err(error)),
            };
            match read {
                Ok(event) if self.is_news(&event) => return Some(Ok(event)),
                Ok(_) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl Events {
    /// Of these files.
    pub(super) fn new(files: Vec<(TimedLines, PathBuf)>) -> Events {
        Events {
            files,
            bytes: 0,
            at: Moment::ZERO,
            readings: Vec::new(),
        }
    }

    /// The length of all lines so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The files that are still read.
    pub(super) fn files(&mut self) -> &mut Vec<(TimedLines, PathBuf)> {
        &mut self.files
    }

    /// The earliest line of all files, parsed. A file that can't be read any further is left out
    /// from then on.
    fn next_line(&mut self) -> Result<Option<Result<Event, ReadError>>, ReadError> {
        let mut earliest: Option<(Moment, usize)> = None;
        for place in 0..self.files.len() {
            let (lines, path) = &mut self.files[place];
            match lines.peek() {
                Ok(Some(at)) if earliest.is_none_or(|(other, _)| at < other) => {
                    earliest = Some((at, place));
                }
                Ok(_) => {}
                Err(error) => {
                    let path = std::mem::take(path);
                    self.files.remove(place);
                    return Err(ReadError::Unreadable { path, error });
                }
            }
        }
        let Some((_, place)) = earliest else {
            return Ok(None);
        };
        let (lines, path) = &mut self.files[place];
        let line = lines.next();
        self.bytes += line.as_ref().map_or(0, |line| line.length);
        Ok(line.map(|line| parsed(&line, path)))
    }

    /// Whether this is an event of a known kind that has not been returned yet.
    fn is_news(&mut self, event: &Event) -> bool {
        if event.at > self.at {
            self.readings.clear();
            self.at = event.at;
        }
        match fidelity(&event.what) {
            Fidelity::Nothing => false,
            Fidelity::Vital | Fidelity::Oom | Fidelity::Exact => true,
            Fidelity::Thinned(..) => {
                let new = !self.readings.contains(&event.what);
                if new {
                    self.readings.push(event.what.clone());
                }
                new
            }
        }
    }
}

fn parsed(line: &TimedLine, path: &Path) -> Result<Event, ReadError> {
    let corrupt = |reason: String| ReadError::Corrupt {
        path: path.to_owned(),
        line: line.line,
        reason,
    };
    if line.length > LONGEST_LINE as u64 {
        return Err(corrupt(format!("{} bytes without a newline", line.length)));
    }
    let event = match is_suspect(&line.text) {
        false => serde_json::from_slice(&line.text),
        true => serde_json::from_slice(&line.text).and_then(|mut value| {
            strip_controls(&mut value);
            serde_json::from_value(value)
        }),
    };
    event.map_err(|error| corrupt(error.to_string()))
}
