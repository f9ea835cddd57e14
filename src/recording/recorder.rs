//! The event loop's handle on a recording, and the file behind it. Writing never fails and never waits for the
//! disk: a recording that can't be kept must not affect the training.
//!
//! Lines are appended in the background. The file may fail and recover (a full disk, an unmounted share, a
//! quota); lines that must not be lost wait for it. A small file beside the recording has the readings of
//! the open bucket: a killed front only loses what came after that was last replaced; a clean end removes it.

use super::journal::{Journal, RecordLine, warning};
use super::limits::Limits;
use crate::background::{
    BackgroundWriter, Destination, Gap, OverflowPolicy, WriteFailure, write_counted,
};
use crate::event::{Event, Level, Note};
use crate::units::{Bytes, Moment, clock_face};
use crate::whole_file::{self, Home, Readers, WriteTarget};
use anyhow::{Context, Result, bail};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use std::collections::VecDeque;
use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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
    listener: Listener,
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
            listener: Listener::default(),
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

    /// Starts a recording at a path that several sessions may have been given: one of them has it. Nothing
    /// of another user's is written to.
    pub fn claim(path: &Path, options: RecorderOptions) -> Result<Claimed> {
        let about = || format!("cannot record to {}", path.display());
        let (place, is_stream) = match whole_file::target(path).with_context(about)? {
            WriteTarget::Stream(place) => (place, true),
            WriteTarget::New(place) | WriteTarget::Own(place) => (place, false),
        };
        let file = open_to_append(&place).with_context(about)?;
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
        let alone = !is_stream && fs::symlink_metadata(beside(&place)).is_err();
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
        if let (Some(open), Ok(left)) = (&recorder.open, fs::read(beside(path))) {
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
        let listener = file.listener.clone();
        let writer = BackgroundWriter::start("recording", QUEUE, policy, file)
            .context("cannot start the recording thread")?;
        let recent = save_bucket.then(|| save_beside(path, limits.bucket_held, retry).ok());
        Ok(Recorder {
            open: Some(Open {
                path: path.to_owned(),
                journal: Journal::new(limits),
                writer,
                recent: recent.flatten(),
                retry,
            }),
            notes: VecDeque::new(),
            listener,
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
            self.notes.push_back(Note::new(level, text));
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

    /// From here on `listener` hears, from the thread that writes, what became of the recording that a person
    /// should know at once.
    pub fn tell(&mut self, listener: impl Fn(String) + Send + 'static) {
        *self.listener.lock() = Some(Box::new(listener));
    }

    /// Ends the recording and waits until it is completely on disk, for at most `patience`.
    ///
    /// # Errors
    /// Why the end of the session is not on disk.
    pub fn finish(&mut self, patience: Duration) -> Result<(), String> {
        let Some(mut open) = self.open.take() else {
            return Ok(());
        };
        let last = open.journal.finish();
        open.push(&last);
        if !open.writer.close(patience) {
            return Err("the disk is too slow".into());
        }
        if let Some(recent) = open.recent {
            recent.close(patience);
            let _ = fs::remove_file(beside(&open.path));
        }
        open.writer.unwritten().map_or(Ok(()), Err)
    }
}

/// After a panic of the event loop, what was written so far is kept.
impl Drop for Recorder {
    fn drop(&mut self) {
        let _ = self.finish(Duration::from_millis(500));
    }
}

/// Opens `path` for appending; a new file has mode 0600. A pipe that nobody reads is an error at once.
pub(super) fn open_to_append(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(path)?;
    // From here on the thread may block on the file.
    let flags = OFlag::from_bits_retain(fcntl(&file, FcntlArg::F_GETFL)?);
    fcntl(&file, FcntlArg::F_SETFL(flags - OFlag::O_NONBLOCK))?;
    Ok(file)
}

fn ends_in_half_a_line(path: &Path) -> io::Result<bool> {
    let mut file = File::open(path)?;
    if file.metadata()?.len() == 0 {
        return Ok(false);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

/// A recording's file.
#[derive(Debug)]
pub(super) struct RecordingFile {
    path: PathBuf,
    file: Option<File>,
    /// The file ends in the middle of a line.
    torn: bool,
    /// What was removed with its directory and is not made again yet.
    removed: Option<File>,
    home: Home,
    listener: Listener,
}

/// Who hears what a person should know at once, if anybody does.
#[derive(Clone, Default)]
struct Listener(Arc<Mutex<Option<BoxedListener>>>);

type BoxedListener = Box<dyn Fn(String) + Send>;

impl Listener {
    fn lock(&self) -> MutexGuard<'_, Option<BoxedListener>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listener")
    }
}

impl RecordingFile {
    pub fn new(path: PathBuf, file: File) -> RecordingFile {
        RecordingFile {
            home: Home::new(&path),
            path,
            file: Some(file),
            torn: false,
            removed: None,
            listener: Listener::default(),
        }
    }

    /// If the session's directory was removed: makes it and the file again.
    fn stay(&mut self) -> io::Result<()> {
        let is_gone = |file: &File| self.home.is_gone(file, &self.path);
        let is_new = self.file.as_ref().is_some_and(is_gone);
        if is_new {
            self.removed = self.file.take();
        }
        let Some(removed) = &self.removed else {
            return Ok(());
        };
        let place = self.path.parent().unwrap_or(&self.path).display();
        let made = whole_file::make_again(removed, &self.path);
        let words = match &made {
            Ok(_) => Some(format!(
                "{place} was removed; it was made again, with the recording as far as it went"
            )),
            Err(error) => is_new.then(|| {
                format!("{place} was removed and cannot be made again ({error}): this session is not recorded")
            }),
        };
        if let (Some(words), Some(tell)) = (words, &*self.listener.lock()) {
            tell(words);
        }
        self.file = Some(made?);
        self.removed = None;
        self.home = Home::new(&self.path);
        Ok(())
    }

    /// Ensures that the next write starts a line: another front may have left half of one.
    fn end_line(&mut self) {
        self.torn = ends_in_half_a_line(&self.path).unwrap_or(true);
    }

    fn try_write(&mut self, bytes: &[u8], written: &mut usize) -> io::Result<()> {
        self.stay()?;
        // A failed file is reopened: a stale handle on a network share never recovers.
        let mut file = match self.file.take() {
            Some(file) => file,
            None => open_to_append(&self.path)?,
        };
        if self.torn {
            file.write_all(b"\n")?;
            self.torn = false;
        }
        let outcome = write_counted(&mut file, bytes, written);
        self.torn = *written > 0 && bytes[*written - 1] != b'\n';
        outcome?;
        self.file = Some(file);
        Ok(())
    }
}

impl Destination for RecordingFile {
    fn write(&mut self, bytes: &[u8]) -> Result<(), WriteFailure> {
        let mut written = 0;
        self.try_write(bytes, &mut written)
            .map_err(|error| WriteFailure {
                written,
                error,
                for_good: false,
            })
    }

    fn gap(&self, gap: &Gap) -> Vec<u8> {
        let line = RecordLine::new(&warning(gap.to, gap_text(gap)), true);
        line.map_or_else(|_| Vec::new(), |line| line.text().to_vec())
    }

    fn looks(&self) -> bool {
        true
    }

    fn look(&mut self) {
        // What fails is said, and tried again with the next line.
        let _ = self.stay();
    }

    fn end(&mut self) {
        let _ = self.stay();
        if let Some(file) = &self.file {
            // A file that can't be synchronised (a pipe, /dev/null) has nothing to lose.
            let _ = file.sync_data();
        }
    }
}

/// How the recording and the user are told about missing lines.
fn gap_text(gap: &Gap) -> String {
    format!(
        "the recording has a gap: {} events ({}) from {} to {} were not recorded ({})",
        gap.lines,
        Bytes(gap.bytes),
        clock_face(gap.from.since(Moment::ZERO)),
        clock_face(gap.to.since(Moment::ZERO)),
        gap.reason.as_deref().unwrap_or("the disk was too slow"),
    )
}

/// Starts saving the open bucket beside `recording`, in the background.
fn save_beside(recording: &Path, most: Bytes, retry: Duration) -> io::Result<BackgroundWriter> {
    let capacity = usize::try_from(most.0).unwrap_or(usize::MAX);
    let file = RecentFile(beside(recording));
    BackgroundWriter::start(
        "oomph-recent",
        capacity,
        OverflowPolicy::Drop { retry },
        file,
    )
}

/// The path of the file with the open bucket.
pub(super) fn beside(recording: &Path) -> PathBuf {
    with_suffix(recording, ".recent")
}

pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(suffix);
    name.into()
}

struct RecentFile(PathBuf);

impl Destination for RecentFile {
    fn write(&mut self, content: &[u8]) -> Result<(), WriteFailure> {
        whole_file::replace(&self.0, Readers::Owner, content).map_err(|error| WriteFailure {
            written: 0,
            error,
            for_good: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::background::{BackgroundWriter, OverflowPolicy};
    use crate::event::{Event, EventKind, Level, Note};
    use std::time::Duration;

    fn line(at: u64) -> RecordLine {
        let note = Note::new(Level::Info, format!("{at} {}", "x".repeat(1_000)));
        let event = Event {
            at: Moment(at),
            what: EventKind::Note(note),
        };
        RecordLine::new(&event, at.is_multiple_of(2)).unwrap()
    }

    /// A pipe that stands for a disk that is full in the middle of a line and has space again
    /// later.
    #[test]
    fn a_line_cut_off_by_a_full_disk_is_written_again_in_full() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let mut reader = File::options().read(true).write(true).open(&path).unwrap();
        let file = open_to_append(&path).unwrap();
        fcntl(&file, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
        let policy = OverflowPolicy::Retry {
            retry: Duration::from_secs(3_600),
            kept: 1 << 20,
        };
        let writer =
            BackgroundWriter::start("test", 4 << 20, policy, RecordingFile::new(path, file))
                .unwrap();
        for line in (0..100).map(line) {
            writer.push_line(line.text(), line.vital, line.at);
        }
        writer.nudge();
        let error = loop {
            if let Some(error) = writer.news().failed {
                break error;
            }
            std::thread::yield_now();
        };
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);

        let mut text = vec![0; 1 << 20];
        let n = reader.read(&mut text).unwrap();
        let mut text = text[..n].to_vec();
        assert!(writer.close(Duration::from_secs(20)), "not before its time");
        let gap = writer.news().recovered.expect("there is room again");
        let mut rest = vec![0; 1 << 20];
        let n = reader.read(&mut rest).unwrap();
        text.extend_from_slice(&rest[..n]);

        let mut seen = [0; 100];
        let (mut halves, mut gaps) = (0, 0);
        for line in text
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            match serde_json::from_slice::<Event>(line) {
                Ok(event) if line.windows(5).any(|part| part == b"a gap") => {
                    assert_eq!(event.at, gap.to);
                    gaps += 1;
                }
                Ok(event) => seen[event.at.0 as usize] += 1,
                Err(_) => halves += 1,
            }
        }
        assert!(halves <= 1);
        assert_eq!(gaps, 1);
        let missing = (0..100).filter(|at| seen[*at as usize] == 0);
        let missing: Vec<u64> = missing.collect();
        assert!(seen.iter().all(|times| *times <= 1));
        assert!(
            !missing.is_empty() && missing.iter().all(|at| !at.is_multiple_of(2)),
            "{missing:?}"
        );
        assert_eq!(gap.lines, missing.len() as u64);
        assert_eq!(gap.to, Moment(99));
    }
}
