//! Reading a recording back: every event once, in the order in which they happened, whatever state
//! the files are in.
//!
//! A front that was killed may leave half a line at the end, and its last readings in a file
//! beside the recording; a disk may leave worse. None of that ends the reading.

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

/// Why an event, or a whole recording, cannot be read.
#[derive(Debug)]
pub enum ReadError {
    /// A line that is no event; the reading goes on behind it.
    Corrupt {
        /// The file.
        path: PathBuf,
        /// The line's number, from 1.
        line: u32,
        /// What is wrong with it.
        reason: String,
    },
    /// The file cannot be read.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
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

// What lies beneath stands in the words already.
impl std::error::Error for ReadError {}

/// Opens the recording at `path` (the file, or the directory of its session) as it is now: what is
/// written later is not seen. Kinds of events that this version does not know are passed over.
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
    // The last two are of versions before this one.
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
    // Stable: what happened at one instant stays in the order in which it was written.
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
    /// The readings at `at` so far: a reading may have been written twice, as one of its bucket and as one
    /// of the last minute.
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

    /// Whether this is an event that we know and have not had yet.
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
