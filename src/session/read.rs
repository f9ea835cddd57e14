//! Reads a recording: each event once, in order of time, whatever state the files are in.
//!
//! A killed front may leave half a line at the end, and its last readings in a file beside the
//! recording; a disk may leave worse. Reading continues in spite of that.

use super::fidelity::{Fidelity, fidelity};
use super::index::{IndexedLine, LONGEST_LINE, index};
use super::recent::with_suffix;
use super::tame;
use crate::event::{Event, What};
use crate::units::Moment;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
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
/// lines are not read. Events of unknown kinds are skipped.
pub fn read(path: &Path) -> Result<Events, ReadError> {
    let main = if path.is_dir() {
        path.join(super::RECORDING)
    } else {
        path.to_owned()
    };
    let unreadable = |path: &Path, error| ReadError::Unreadable {
        path: path.to_owned(),
        error,
    };
    let mut files = vec![(
        File::open(&main).map_err(|error| unreadable(&main, error))?,
        main.clone(),
    )];
    // The last two were written by earlier versions.
    for suffix in [".recent", ".recent-0", ".recent-1"] {
        let recent = with_suffix(&main, suffix);
        if let Ok(file) = File::open(&recent) {
            files.push((file, recent));
        }
    }
    let mut entries = Vec::new();
    for (number, (file, path)) in (0u8..).zip(&files) {
        entries.extend(index(file, number).map_err(|error| unreadable(path, error))?);
    }
    // Stable: simultaneous events stay in the order in which they were written.
    entries.sort_by_key(|entry| entry.at);
    Ok(Events {
        files,
        entries: entries.into_iter(),
        at: Moment::ZERO,
        readings: Vec::new(),
    })
}

/// The events of a recording.
#[derive(Debug)]
pub struct Events {
    files: Vec<(File, PathBuf)>,
    entries: std::vec::IntoIter<IndexedLine>,
    at: Moment,
    /// The readings at `at` so far: a reading may have been written twice, from its bucket and from
    /// the last minute.
    readings: Vec<What>,
}

impl Iterator for Events {
    type Item = Result<Event, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let entry = self.entries.next()?;
            match self.parse(entry) {
                Ok(event) if self.is_news(&event) => return Some(Ok(event)),
                Ok(_) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl Events {
    fn parse(&self, entry: IndexedLine) -> Result<Event, ReadError> {
        let (file, path) = &self.files[usize::from(entry.file)];
        let corrupt = |reason: String| ReadError::Corrupt {
            path: path.clone(),
            line: entry.line,
            reason,
        };
        let length = entry.length as usize;
        if length > LONGEST_LINE {
            return Err(corrupt(format!("{length} bytes without a newline")));
        }
        let mut text = vec![0; length];
        file.read_exact_at(&mut text, entry.offset)
            .map_err(|error| ReadError::Unreadable {
                path: path.clone(),
                error,
            })?;
        let event = match tame::is_suspect(&text) {
            false => serde_json::from_slice(&text),
            true => serde_json::from_slice(&text).and_then(|mut value| {
                tame::tame(&mut value);
                serde_json::from_value(value)
            }),
        };
        event.map_err(|error| corrupt(error.to_string()))
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
