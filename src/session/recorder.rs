//! The event loop's handle on a recording. Writing never fails and never waits for the disk: a
//! recording that can't be kept must not affect the training.

use super::journal::Journal;
use super::limits::Limits;
use super::line::RecordLine;
use super::recent;
use super::recording_file::{RecordingFile, Said, gap_text, open_to_append};
use crate::background::{BackgroundWriter, OverflowPolicy};
use crate::event::{Event, Level, Note};
use crate::units::Moment;
use crate::whole_file::{self, WriteTarget};
use anyhow::{Context, Result, bail};
use std::collections::VecDeque;
use std::fs::{self, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::time::Duration;

/// Bytes that may wait for a slow disk; lines that must not be lost may take twice as much.
const QUEUE: usize = 4 << 20;

/// Bytes of lines that must not be lost that wait while the file fails.
const KEPT: usize = 1 << 20;

/// The maximum number of uncollected notes.
const NOTES_KEPT: usize = 16;

#[derive(Debug, Clone, Copy)]
pub struct RecorderOptions {
    pub limits: Limits,
    /// The time between a failed write and the next attempt.
    pub retry: Duration,
}

impl Default for RecorderOptions {
    fn default() -> RecorderOptions {
        RecorderOptions {
            limits: Limits::default(),
            retry: Duration::from_secs(30),
        }
    }
}

/// A recording being written, or none.
#[derive(Debug)]
pub struct Recorder {
    open: Option<Open>,
    notes: VecDeque<Note>,
    said: Option<Said>,
}

#[derive(Debug)]
struct Open {
    path: PathBuf,
    journal: Journal,
    writer: BackgroundWriter,
    /// Saves the open bucket.
    recent: Option<BackgroundWriter>,
    retry: Duration,
}

/// What became of a file that was named for a recording.
#[derive(Debug)]
pub enum Claimed {
    Ours(Box<Recorder>),
    /// It has something in it already.
    Used,
    /// Another session records to it.
    Busy,
}

impl Open {
    fn push(&self, lines: &[RecordLine]) {
        for line in lines {
            self.writer.push_line(line.text(), line.vital, line.at);
        }
        self.writer.nudge();
    }
}

impl Recorder {
    /// No recording: events are dropped.
    pub fn off() -> Recorder {
        Recorder {
            open: None,
            notes: VecDeque::new(),
            said: None,
        }
    }

    /// Starts a recording at `path` (mode 0600). An existing recording is an error and not
    /// overwritten; devices and pipes are written to as they are.
    pub fn create(path: &Path, options: RecorderOptions) -> Result<Recorder> {
        match Recorder::claim(path, options)? {
            Claimed::Ours(recorder) => Ok(*recorder),
            Claimed::Used => bail!(
                "{} already exists: name another file, or remove it",
                path.display()
            ),
            Claimed::Busy => bail!("another session records to {}", path.display()),
        }
    }

    /// The same for a file that several sessions may have been given: one of them has it. Nothing of
    /// another user's is written to.
    pub fn claim(path: &Path, options: RecorderOptions) -> Result<Claimed> {
        let about = || format!("cannot record to {}", path.display());
        let (place, is_stream) = match whole_file::target(path).with_context(about)? {
            WriteTarget::Stream(place) => (place, true),
            WriteTarget::New(place) | WriteTarget::Own(place) => (place, false),
        };
        let file = open_to_append(&place, false).with_context(about)?;
        if !is_stream {
            // Held as long as it is open. A file system without locks has to do without.
            if let Err(TryLockError::WouldBlock) = file.try_lock() {
                return Ok(Claimed::Busy);
            }
            if file.metadata().with_context(about)?.len() > 0 {
                return Ok(Claimed::Used);
            }
        }
        // Something of that name beside it isn't ours.
        let alone = !is_stream && fs::symlink_metadata(recent::path(&place)).is_err();
        let file = RecordingFile::new(place.clone(), file);
        let recorder = Recorder::start(&place, file, alone, options)?;
        Ok(Claimed::Ours(Box::new(recorder)))
    }

    /// Continues the recording of an earlier front, which may have left half a line, and the
    /// readings of an open bucket beside it.
    pub fn resume(path: &Path, options: RecorderOptions) -> Result<Recorder> {
        let file = fs::OpenOptions::new()
            .append(true)
            .open(path)
            .with_context(|| format!("cannot continue the recording {}", path.display()))?;
        // Nobody else began it meanwhile: it is not empty.
        let _ = file.try_lock();
        let mut file = RecordingFile::new(path.to_owned(), file);
        file.end_line();
        let recorder = Recorder::start(path, file, true, options)?;
        if let (Some(open), Ok(left)) = (&recorder.open, fs::read(recent::path(path))) {
            for line in left.split_inclusive(|byte| *byte == b'\n') {
                open.writer.push_line(line, false, Moment::ZERO);
            }
            open.writer.nudge();
        }
        Ok(recorder)
    }

    pub(super) fn start(
        path: &Path,
        file: RecordingFile,
        save_bucket: bool,
        options: RecorderOptions,
    ) -> Result<Recorder> {
        let RecorderOptions { limits, retry } = options;
        let policy = OverflowPolicy::Retry { retry, kept: KEPT };
        let said = file.said();
        let writer = BackgroundWriter::start("recording", QUEUE, policy, file)
            .context("cannot start the recording thread")?;
        let recent = save_bucket.then(|| recent::start(path, limits.bucket_held, retry).ok());
        Ok(Recorder {
            open: Some(Open {
                path: path.to_owned(),
                journal: Journal::new(limits),
                writer,
                recent: recent.flatten(),
                retry,
            }),
            notes: VecDeque::new(),
            said: Some(said),
        })
    }

    /// The recording's path, if there is one.
    pub fn path(&self) -> Option<&Path> {
        self.open.as_ref().map(|open| open.path.as_path())
    }

    /// Records an event. Never fails and never waits; problems are reported by [`Recorder::note`].
    pub fn write(&mut self, event: &Event) {
        let Some(open) = &mut self.open else { return };
        let lines = match open.journal.accept(event) {
            Ok(lines) => lines,
            Err(error) => {
                let text = format!("an event could not be recorded: {error}");
                return self.say(Level::Warning, text);
            }
        };
        open.push(&lines);
        if let (Some(recent), Some(lines)) = (&open.recent, open.journal.bucket_to_save()) {
            let texts: Vec<&[u8]> = lines.iter().map(RecordLine::text).collect();
            let block = texts.concat();
            recent.push_line(&block, false, event.at);
            recent.nudge();
        }
    }

    fn say(&mut self, level: Level, text: String) {
        if self.notes.len() < NOTES_KEPT {
            self.notes.push_back(Note { level, text });
        }
    }

    /// What the user should know about the recording; each note is returned once.
    pub fn note(&mut self) -> Option<Note> {
        if let Some(open) = &self.open {
            let (news, path) = (open.writer.news(), open.path.display());
            let failed = news.failed.map(|reason| {
                let retry = open.retry.as_secs();
                format!("not recording to {path}: {reason}; retrying every {retry} s")
            });
            let slow = news
                .slow
                .then(|| format!("writing to {path} is too slow: events are not being recorded"));
            let recovered = news.recovered.as_ref().map(gap_text);
            for text in failed.into_iter().chain(slow) {
                self.say(Level::Warning, text);
            }
            if let Some(text) = recovered {
                self.say(Level::Info, text);
            }
        }
        self.notes.pop_front()
    }

    /// What became of the recording that a person should know at once.
    pub fn said(&self) -> Vec<String> {
        let said = self.said.as_ref().map(|said| said.lock());
        said.map_or_else(Vec::new, |said| {
            std::mem::take(&mut *said.unwrap_or_else(PoisonError::into_inner))
        })
    }

    /// Ends the recording and waits until it is completely on disk, for at most `patience`. Returns
    /// whether it was.
    pub fn finish(&mut self, patience: Duration) -> bool {
        let Some(mut open) = self.open.take() else {
            return true;
        };
        let last = open.journal.finish();
        open.push(&last);
        let ended = open.writer.close(patience);
        if ended && let Some(recent) = open.recent {
            recent.close(patience);
            let _ = fs::remove_file(recent::path(&open.path));
        }
        ended
    }
}

/// After a panic of the event loop, what was written so far is kept.
impl Drop for Recorder {
    fn drop(&mut self) {
        self.finish(Duration::from_millis(500));
    }
}
